"""Options: every default, every text form, and the literal message of every refusal; the layout of the two exceptions."""

import dataclasses
import pickle

import pytest

from autosp.config import MemoryBudget, Options, parse_memory_budget
from autosp.errors import CompileError, InternalError


def test_defaults():
    assert dataclasses.asdict(Options()) == {
        "inner": "inductor",
        "sequence_dims": "auto",
        "objective": "memory",
        "gradients": "reduced",
        "outputs": "auto",
        "attention": "auto",
        "checkpoint": "sac",
        "memory_budget": None,
        "machine": None,
        "check_inputs": "always",
        "on_unsupported": "replicate",
        "fullgraph": True,
        "dynamic": False,
    }
    assert Options.parse({}) == Options.parse(None) == Options()


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("inner", "aot_eager", "aot_eager"),
        ("inner", " eager ", "eager"),
        ("fullgraph", "False", False),
        ("fullgraph", "0", False),
        ("fullgraph", "TRUE", True),
        ("fullgraph", False, False),
        ("dynamic", "false", False),
        ("sequence_dims", "auto", "auto"),
        ("sequence_dims", "input_ids:1,labels:1", {"input_ids": 1, "labels": 1}),
        ("sequence_dims", " input_ids : -1 , batch.mask:2,", {"input_ids": -1, "batch.mask": 2}),
        ("sequence_dims", {"x": 0}, {"x": 0}),
        ("memory_budget", "None", None),
        ("machine", "none", None),
        ("attention", "ulysses", "ulysses"),
        ("check_inputs", "off", "off"),
        ("on_unsupported", "error", "error"),
        ("gradients", "partial", "partial"),
        ("objective", "time", "time"),
        ("outputs", "whole", "whole"),
    ],
)
def test_values_and_texts(name, given, read):
    value = getattr(Options.parse({name: given}), name)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            {"objectiv": "time"},
            "there is no option 'objectiv'. Did you mean 'objective'? Options: inner, sequence_dims, objective, gradients, outputs, "
            "attention, checkpoint, memory_budget, machine, check_inputs, on_unsupported, fullgraph, dynamic.",
        ),
        ({"zzz": 1}, "there is no option 'zzz'. Options: inner, "),
        (
            {"inner": "inductr"},
            'option inner=\'inductr\' is not a value it can have. Did you mean "inductor"? Allowed: "inductor", "aot_eager", "eager".',
        ),
        ({"objective": 3}, 'option objective=3 is not a value it can have. Allowed: "memory", "time".'),
        ({"outputs": "sharded"}, 'option outputs=\'sharded\' is not a value it can have. Allowed: "auto", "whole".'),
        (
            {"checkpoint": "sacc"},
            'option checkpoint=\'sacc\' is not a value it can have. Did you mean "sac"? Allowed: "sac", "stock", "full".',
        ),
        ({"checkpoint": None}, 'option checkpoint=None is not a value it can have. Allowed: "sac", "stock", "full".'),
        (
            {"inner": "eager", "checkpoint": "full"},
            'option checkpoint="full" does nothing with inner="eager", where eager autograd saves what it needs. '
            'Use inner="aot_eager" or "inductor".',
        ),
        ({"inner": "eager", "memory_budget": "1GiB"}, 'option memory_budget does nothing with inner="eager", '),
        ({"memory_budget": "0GiB"}, "option memory_budget='0GiB' is not a value it can have. Allowed: a positive number of bytes."),
        ({"attention": "ring"}, 'option attention="ring" is not built yet. Accepted today: "auto", "ulysses".'),
        ({"attention": "2d:4x2"}, 'option attention="2d:4x2" is not built yet. Accepted today: "auto", "ulysses".'),
        ({"attention": "2d:4"}, 'option attention=\'2d:4\' is not a value it can have. Allowed: "auto", "ulysses".'),
        ({"dynamic": True}, "option dynamic=True is not built yet. Each new length is compiled once. Accepted today: False."),
        ({"machine": "h100"}, "option machine='h100' is not built yet. Only the default cost table exists. Accepted today: None."),
        (
            {"memory_budget": "40"},
            'option memory_budget=\'40\' has no unit. Write "40GiB" (units B, KB, MB, GB, TB, KiB, MiB, GiB, TiB) or "60%" of the stock '
            "plan's peak.",
        ),
        ({"memory_budget": 40}, "option memory_budget=40 has no unit. Write "),
        ({"memory_budget": "3 parsecs"}, "option memory_budget='3 parsecs' has the unknown unit 'parsecs'. Write "),
        ({"memory_budget": "150%"}, "option memory_budget='150%' is not a value it can have. Allowed: a share above 0% and up to 100%."),
        ({"memory_budget": "lots"}, "option memory_budget='lots' is not a value it can have. Allowed: \"40GiB\""),
        (
            {"fullgraph": "maybe"},
            "option fullgraph='maybe' is not a value it can have. Allowed: True, False, or as text true, 1, yes, on, ",
        ),
        (
            {"sequence_dims": "input_ids=1"},
            "option sequence_dims='input_ids=1' is not a value it can have. Allowed: \"auto\", or input name -> dim, as a dict or as text "
            '"input_ids:1,labels:1".',
        ),
        ({"sequence_dims": "a:1,a:2"}, "option sequence_dims='a:1,a:2' names an input twice. Give each input one dim."),
        ({"sequence_dims": {"a": "1"}}, "option sequence_dims={'a': '1'} is not a value it can have. "),
        ({"sequence_dims": {}}, "option sequence_dims={} is not a value it can have. "),
        ({"sequence_dims": 1}, "option sequence_dims=1 is not a value it can have. "),
    ],
)
def test_refusals(mapping, message):
    with pytest.raises(CompileError) as refused:
        Options.parse(mapping)
    text = str(refused.value)
    assert text.startswith(message)
    assert text == message or not message.endswith(".")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("40GiB", MemoryBudget(40 * 2**30, None)),
        ("1.5 gb", MemoryBudget(1_500_000_000, None)),
        ("512B", MemoryBudget(512, None)),
        ("60%", MemoryBudget(None, 0.6)),
        ("100 %", MemoryBudget(None, 1.0)),
    ],
)
def test_memory_budget_is_read_in_full(text, budget):
    assert parse_memory_budget(text) == budget


def test_options_are_checked_however_they_are_built():
    with pytest.raises(CompileError, match="option inner=5"):
        Options(inner=5)
    with pytest.raises(CompileError, match="not built yet"):
        dataclasses.replace(Options(), attention="ring")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().inner = "eager"


def test_text_does_not_depend_on_the_order_of_the_dims():
    one, two = Options(sequence_dims={"a": 1, "b": 2}), Options(sequence_dims="b:2,a:1")
    assert one == two
    assert hash(one) == hash(two)
    assert one.text() == two.text()
    assert "sequence_dims=a:1,b:2\n" in one.text()
    assert one.text() != Options().text()


def test_the_caller_keeps_its_dict():
    dims = {"a": 1}
    options = Options(sequence_dims=dims)
    dims["a"] = 2
    assert options.sequence_dims == {"a": 1}


def test_layout_of_an_error():
    error = CompileError("dim 1 is sharded", op="aten.sort", location="model.py:88", remedy="Set x", notes=["one", "two\nthree"])
    assert str(error) == "aten.sort (model.py:88): dim 1 is sharded. Set x.\n  one\n  two\n  three"
    assert str(CompileError("found", op="aten.sort")) == "aten.sort: found."
    assert str(CompileError("found.", location="model.py:1")) == "model.py:1: found."
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.op, again.location, again.notes) == (str(error), "aten.sort", "model.py:88", ("one", "two\nthree"))
    assert str(InternalError("a value is lost", dump="d/3.sp")) == (
        "a value is lost. The graph is in d/3.sp. This is a fault of autosp, not of the model: please report it with this text."
    )
    assert pickle.loads(pickle.dumps(InternalError("x", dump="y"))).dump == "y"
