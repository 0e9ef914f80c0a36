"""Every op of the rule table, and every overload that torch tags pointwise, sharded against whole.

Each call is a small program (op_programs), cut in turn along every dim of every operand and, for the first call of an op, of every
result: whether the plan cuts the op there or makes its operands whole, loss, results and gradients on every rank equal the whole run's.
Sizes divide neither by 2 nor by 3; dims of 2 leave a rank of 3 empty; dims of even size also come flattened, each of their blocks cut.
"""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from autosp._core import rule_rows

from op_cases import CASES, NOT_RUN, elementwise_call
from op_programs import OpProgram

ROWS = [op for op, _ in rule_rows()]
# They look at all elements at once, or at none.
NEVER_CUT = {
    f"aten.{name}.{overload}"
    for name, overloads in {
        "any": ("default",),
        "all": ("default",),
        "bucketize": ("Scalar",),
        "max": ("default",),
        "min": ("default",),
        "median": ("default",),
        "nanmedian": ("default",),
        "norm": ("Scalar", "ScalarOpt_dtype"),
        "prod": ("default",),
        "scalar_tensor": ("default",),
        "searchsorted": ("Scalar",),
        "std": ("default",),
        "std_mean": ("default",),
        "var": ("default",),
        "var_mean": ("default",),
    }.items()
    for overload in overloads
}
# canonicalize takes them out.
NO_OPS = {"aten.alias.default", "aten.dropout.default", "aten.positive.default"}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tagged(in_place: bool) -> list[str]:
    """Overloads of ATen that torch tags pointwise, without those that write into `out`, and random ones."""
    out = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            op = getattr(packet, overload)
            writes = any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)
            skipped = torch.Tag.nondeterministic_seeded in op.tags or any(a.is_out for a in op._schema.arguments)
            if torch.Tag.pointwise in op.tags and not skipped and writes == in_place:
                out.append(str(op))
    return sorted(out)


@pytest.mark.parametrize("op", [op for op in ROWS if op not in NOT_RUN])
def test_row(op):
    cut = False
    for k, call in enumerate(CASES.get(op) or [elementwise_call(op)]):
        assert call is not None, f"no call of {op} is known: add one to op_cases.py"
        program = OpProgram(call)
        full = k == 0 and op in CASES  # the first call of each op is run in every way
        for name, dim in program.cuts(program.operands + (program.results if full or not program.operands else [])):
            for ranks in (2, 3) if full and name in program.operands else (3,):
                run = program.check(name, dim, ranks)
                cut = cut or run.cut
                assert not call.ruled or run.made_whole == 0, f"{op} has no rule for {call}"
        for operand, name in enumerate(program.operands if full else []):
            for dim, size in enumerate(program.inputs[name].shape):
                if size % 2 == 0 and size >= 4:
                    OpProgram(call, split=(operand, dim, 2)).check(name, dim + 1, 3)
    assert cut == (op not in NEVER_CUT | NO_OPS), "no plan cuts it: its rule is never used" if not cut else "it is cut after all"


POINTWISE = tagged(in_place=False)


def check_elementwise(op: str, most: int) -> bool:
    """Along `most` dims of its operands, on 3 ranks; False where no call of it is known."""
    call = elementwise_call(op)
    if call is None:
        return False
    program = OpProgram(call)
    for name, dim in program.cuts(program.operands)[:most]:
        run = program.check(name, dim, 3)
        assert (run.cut or op in NO_OPS) and run.made_whole == 0
    return True


@pytest.mark.parametrize("op", [op for op in POINTWISE if op not in ROWS])
def test_pointwise(op):
    if not check_elementwise(op, 3):
        pytest.skip("no simple call")


def test_enough_pointwise_ops_have_a_call():
    assert sum(elementwise_call(op) is not None for op in POINTWISE) >= 150


@pytest.mark.parametrize("op", tagged(in_place=True))
def test_pointwise_in_place(op):
    if not check_elementwise(op, 1):
        pytest.skip("no simple call")


def test_the_list_of_ops_is_up_to_date():
    tool = Path(__file__).resolve().parents[2] / "tools" / "gen_ops_doc.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
