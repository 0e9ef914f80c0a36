"""The check at the beginning of every call: equal inputs pass, any difference raises the same error on every rank at that very call."""

import time

import pytest
import torch
import torch.distributed as dist

from autosp import torch_compat
from autosp.errors import CompileError
from autosp.input_check import InputCheck

REMEDY = (
    "Every rank of the sp group passes the same full batch: a sampler that deals out data must deal by the dp rank, not by the global rank."
)


def forward(input_ids, labels=None, *, scale=1.0, **rest):
    pass


def report(fn):
    try:
        return fn()
    except CompileError as error:
        assert error.agreed
        return str(error)


def ids(n=8, at=None, value=0, dtype=torch.int64):
    x = torch.arange(n, dtype=dtype).reshape(2, -1)
    if at is not None:
        x.view(-1)[at] = value
    return x


def many(rank, world):
    """One entry per case; after each the group must still be usable, so all collectives pair."""
    out = {}
    odd = rank == 1
    check = InputCheck(forward=forward)
    out["equal"] = report(lambda: check.check((ids(),), {"labels": ids(), "scale": 2.0}, seed=100 + rank, state="training"))
    out["no seed"] = report(lambda: check.check((ids(),)))
    out["by name"] = report(lambda: check.check((), {"labels": ids(), "input_ids": ids()}) if odd else check.check((ids(), ids())))
    out["order"] = report(lambda: check.check((), {"b": {"x": 1, "y": ids()}, "a": 2} if odd else {"a": 2, "b": {"y": ids(), "x": 1}}))
    for step in range(4):
        out[f"step {step}"] = report(
            lambda step=step: check.check((ids(at=5, value=9 if odd and step == 2 else 5),), {"labels": ids()}, seed=step)
        )
    out["length"] = report(lambda: check.check((ids(10 if odd else 8),), {"labels": ids()}))
    out["dtype"] = report(lambda: check.check((ids(),), {"labels": ids(dtype=torch.int32 if odd else torch.int64)}))
    out["scalar"] = report(lambda: check.check((ids(),), {"scale": 2.0 if odd else 1.0}))
    out["extra"] = report(lambda: check.check((ids(),), {"labels": ids()} if odd else {}))
    out["list"] = report(lambda: check.check((ids(),), {"past": [1, 2] if odd else [1]}))
    out["state"] = report(lambda: check.check((ids(),), state="eval" if odd else "training"))
    with torch.set_grad_enabled(not odd):
        out["grad mode"] = report(lambda: check.check((ids(),)))
    with torch.autocast("cpu", torch.bfloat16, enabled=odd):
        out["autocast"] = report(lambda: check.check((ids(),)))
    out["requires_grad"] = report(lambda: check.check((torch.ones(2, requires_grad=odd),)))
    out["bool"] = report(lambda: check.check((ids(),), {"mask": torch.tensor([True, not odd])}))
    out["two inputs"] = report(lambda: check.check((ids(at=0, value=int(odd)),), {"labels": ids(at=1, value=int(odd))}))
    out["swapped"] = report(lambda: check.check((torch.tensor([[2, 1]] if odd else [[1, 2]]),)))
    out["float contents"] = report(lambda: check.check((torch.full((2,), float(rank)),)))
    out["strided"] = report(lambda: check.check((ids().t().contiguous().t() if odd else ids(),)))
    out["empty"] = report(lambda: check.check((torch.empty(0, dtype=torch.int64),)))
    out["nothing"] = report(lambda: check.check())
    shapes = InputCheck(mode="shapes")
    out["shapes only: contents"] = report(lambda: shapes.check((ids(at=1, value=rank),), seed=7))
    out["shapes only: shapes"] = report(lambda: shapes.check((ids(8 + 2 * rank),)))
    off = InputCheck(mode="off")
    out["off"] = report(lambda: off.check((ids(8 + 2 * rank),)))
    out["off, seed"] = report(lambda: off.check((ids(8 + 2 * rank),), seed=50 + rank))
    out["modes"] = report(lambda: (shapes if odd else check).check((ids(),)))
    sub = dist.new_group([1, 2])
    if rank:
        out["sub"] = report(lambda: InputCheck(sub).check((ids(at=0, value=rank),), seed=rank))
        out["sub seed"] = report(lambda: InputCheck(sub).check((ids(),), seed=rank))
    out["still in step"] = report(lambda: check.check((ids(),), seed=-(2**63) + rank))
    return out


CONTENTS = f"contents of the inputs differ between ranks: rank 1 against ranks 0, 2 ({{}}). {REMEDY}\n  {{}}"
SHAPES = f"shapes, dtypes, scalars or modes of the inputs differ between ranks: rank 1 against ranks 0, 2 ({{}}). {REMEDY}\n  {{}}"
OTHER = "same shape, other contents on rank 1 than on rank 0"
EXPECTED = {
    "equal": 100,
    "no seed": None,
    "by name": None,
    "order": None,
    "step 0": 0,
    "step 1": 1,
    "step 2": CONTENTS.format("input_ids", f"input_ids: {OTHER}"),
    "step 3": 3,
    "length": SHAPES.format("input_ids", "input_ids: rank 0 int64[2, 4] cpu, rank 1 int64[2, 5] cpu"),
    "dtype": SHAPES.format("labels", "labels: rank 0 int64[2, 4] cpu, rank 1 int32[2, 4] cpu"),
    "scalar": SHAPES.format("scale", "scale: rank 0 1.0, rank 1 2.0"),
    "extra": SHAPES.format("labels", "labels: rank 0 does not pass it, rank 1 int64[2, 4] cpu"),
    "list": SHAPES.format("past.len, past[1]", "past.len: rank 0 1, rank 1 2\n  past[1]: rank 0 does not pass it, rank 1 2"),
    "state": SHAPES.format("state", "state: rank 0 training grad, rank 1 eval grad"),
    "grad mode": SHAPES.format("state", "state: rank 0  grad, rank 1  no_grad"),
    "autocast": SHAPES.format("state", "state: rank 0  grad, rank 1  grad cpu autocast torch.bfloat16"),
    "requires_grad": SHAPES.format("input_ids", "input_ids: rank 0 float32[2] cpu, rank 1 float32[2] cpu grad"),
    "bool": CONTENTS.format("mask", f"mask: {OTHER}"),
    "two inputs": CONTENTS.format("input_ids, labels", f"input_ids: {OTHER}\n  labels: {OTHER}"),
    "swapped": CONTENTS.format("input_ids", f"input_ids: {OTHER}"),
    "float contents": None,
    "strided": None,
    "empty": None,
    "nothing": None,
    "shapes only: contents": 7,
    "off": None,
    "modes": 'check_inputs differs between ranks: ranks 0, 2 "always"; rank 1 "shapes". Give the same options on every rank.',
    "sub seed": 1,
    "still in step": -(2**63),
}


def test_every_kind_of_difference(spawn):
    results = spawn(3, many, timeout=90)
    for rank, out in enumerate(results):
        for case, expected in EXPECTED.items():
            if case.startswith("sub") and rank == 0:
                continue
            assert out[case] == expected, (rank, case, out[case])
        assert out["off, seed"] == 50
        assert out["shapes only: shapes"].startswith(
            "shapes, dtypes, scalars or modes of the inputs differ between ranks: ranks 1, 2 against rank 0 ("
        )
    assert results[1]["sub"] == results[2]["sub"]
    assert results[1]["sub"].startswith("contents of the inputs differ between ranks: rank 2 against rank 1 (args[0]). ")


def one_has_to_recompile(rank, world):
    """A rank that is late (it compiles after the check) is in step: the check does not depend on what follows it."""
    check = InputCheck()
    for step in range(3):
        assert check.check((ids(),), seed=step) == step
        if rank == step % world:
            time.sleep(0.3)
        x = torch.ones(1)
        dist.all_reduce(x)
    return report(lambda: check.check((ids(8 + 2 * rank),)))


def test_with_one_rank_recompiling(spawn):
    for text in spawn(2, one_has_to_recompile):
        assert "args[0]: rank 0 int64[2, 4] cpu, rank 1 int64[2, 5] cpu" in text


def cost(rank, world):
    """Milliseconds of a check by mode for two inputs of 2 x 2048 and of 1 x 2**20 ids, of a bare collective, of a small step."""
    torch.manual_seed(0)
    out = {}
    for name, shape in (("2x2048", (2, 2048)), ("1x1M", (1, 1 << 20))):
        batch = {"input_ids": torch.randint(0, 50000, shape), "labels": torch.randint(0, 50000, shape)}
        for mode in ("always", "shapes"):
            check = InputCheck(mode=mode)
            out[name, mode] = clock(lambda check=check, batch=batch: check.check((), batch, seed=1))
    word, every = torch.zeros(4, dtype=torch.int64), torch.zeros(4 * world, dtype=torch.int64)
    out["collective"] = clock(lambda: torch_compat.all_gather(every, word, dist.group.WORLD))
    layer = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    x = torch.randn(2 * 2048, 256)
    out["step"] = clock(lambda: layer(x).sum().backward(), 5)
    return out


def clock(fn, repeat=30):
    fn()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def test_cost(spawn, capsys):
    ms = spawn(2, cost, timeout=90)[0]
    shown = ", ".join(f"{' '.join(k) if isinstance(k, tuple) else k} {v:.2f}" for k, v in ms.items())
    of_collective, of_step = ms["2x2048", "always"] / ms["collective"], ms["2x2048", "always"] / ms["step"]
    with capsys.disabled():
        print(f"\nInputCheck, 2 gloo ranks, least ms: {shown}; 2x2048 always = {of_collective:.1f} x collective = {of_step:.4f} x step")
    assert ms["2x2048", "always"] < 50


def test_modes_are_checked_and_one_rank_needs_no_collective(spawn):
    assert spawn(1, alone) == [41]
    with pytest.raises(ValueError, match="mode 'sometimes' is not one of"):
        InputCheck(mode="sometimes")


def alone(rank, world):
    return InputCheck().check((ids(),), seed=41)
