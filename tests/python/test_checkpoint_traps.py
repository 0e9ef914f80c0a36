"""What can go wrong in activation checkpointing: ops that must not run twice, tags of the user, ranks that differ, reports and budgets."""

import contextlib
import functools
import re

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import autosp
from autosp import _core, checkpoint, torch_compat
from autosp.agreement import Agreement
from autosp.checkpoint import Checkpointing
from autosp.config import Options
from autosp.errors import CompileError
from checkpoint_runs import ATTENTION, calls, under
from sharded_runs import Comparison, close
from small_models import Decoder, shifted_loss, tokens

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path, monkeypatch):
    """torch writes the graph it finds no cut for into the working directory."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.glob("min_cut_failed*"))


def loss_of(m, ids, labels):
    return shifted_loss(m(ids), labels)


def aligned(m, ids, labels):
    """A loss for which equal shards give equal programs: the shift of labels cuts the last rank's logits."""
    return m(ids).pow(2).mean()


def case(model, forward=loss_of, S=13, B=2, **options):
    torch.manual_seed(0)
    return Comparison(model(), tokens(B, S, 3), forward, **options)


def like_stock(result, stock):
    """Every gradient on every rank, to 1e-6; one that is zero but for rounding is measured by the largest."""
    for grads, expected in zip(result.grads, stock.grads, strict=True):
        floor = 1e-3 * max(float(g.norm()) for g in expected.values() if g is not None)
        for name, want in expected.items():
            assert (grads[name] is None) == (want is None)
            if want is not None:
                close(grads[name], want, 1e-6, f"gradient of {name}", floor)


def decoder(layers=1, **options):
    return lambda: Decoder(layers, **options)


def region(body, policy, *args):
    """body(*args) under a selective checkpoint; policy None: everything is run again."""
    selective = {} if policy is None else {"context_fn": functools.partial(create_selective_checkpoint_contexts, policy)}
    return torch.utils.checkpoint.checkpoint(body, *args, use_reentrant=False, **selective)


def saves(*ops):
    return lambda context, op, *args, **kwargs: CheckpointPolicy.MUST_SAVE if op in ops else CheckpointPolicy.MUST_RECOMPUTE


# ---- what runs once


def test_attention_without_dropout_is_not_random():
    """Its op has torch's tag of random ops all the same."""
    c = case(decoder())
    _, (plan,) = under(c, 1, checkpoint="full")
    again = [plan.imported.nodes[i].target for i in plan.recomputed]
    assert aten._scaled_dot_product_flash_attention_for_cpu.default in again
    assert torch.Tag.nondeterministic_seeded in aten._scaled_dot_product_flash_attention_for_cpu.default.tags


class Native(Decoder):
    def forward(self, ids):
        return self.head(F.dropout(self.hidden(ids), 0.5))


@pytest.mark.parametrize("options", [{"checkpoint": "sac"}, {"checkpoint": "full"}, {"memory_budget": "100%"}], ids=str)
def test_torchs_own_dropout_keeps_the_mask_of_the_forward(options):
    """The same seed gives the same gradients under torch's plan: a mask drawn twice would not."""

    def gradients(**given):
        torch.manual_seed(0)
        model = autosp.compile(Native(1, p=0.3), inner="aot_eager", **given)
        torch.manual_seed(1)
        loss_of(model, **tokens(2, 13, 3)).backward()
        return [p.grad for p in model.parameters()]

    torch.compiler.reset()
    for got, want in zip(gradients(**options), gradients(checkpoint="stock"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)


class Written(Decoder):
    """A buffer that the program reads, and then overwrites."""

    def __init__(self, inside=None):
        super().__init__(1)
        self.inside = inside
        self.register_buffer("scale", torch.linspace(0.1, 0.2, 32))

    def scaled(self, h):
        return (h * self.scale.exp()).sin()

    def forward(self, ids):
        h = self.hidden(ids)
        h = self.scaled(h) if self.inside is None else region(self.scaled, self.inside, h)
        with torch.no_grad():
            self.scale.mul_(0.9)
        return self.head(h)


@pytest.mark.parametrize("ranks", [1, 2])
def test_ops_that_read_an_overwritten_buffer_run_once(ranks):
    c = case(Written)
    stock, _ = under(c, ranks, checkpoint="stock")
    for options in ({"checkpoint": "full"}, {"memory_budget": f"{stock.joint[0].checkpoints['frontier'][0][0]}B"}):
        result, plans = under(c, ranks, **options)
        like_stock(result, stock)
        for plan in plans:
            (exp,) = (n for n in plan.imported.nodes if n.target is aten.exp.default)
            assert exp.name not in plan.names(plan.recomputed)
            assert plan.imported.values[exp] in plan.saved


def test_a_checkpoint_around_an_op_that_may_run_only_once_is_refused():
    everything = case(lambda: Written(saves()))
    with pytest.raises(CompileError) as refused:
        everything.run(1)
    found = re.sub(r" on %\d+", "", str(refused.value))
    assert re.sub(r":\d+\)", ":N)", found) == (
        "aten.exp.default (test_checkpoint_traps.py:N): the backward would have to run this op again, but it reads an input that the program "
        "overwrites, or changes its operands, so a second run would give other numbers. "
        "Take it out of the checkpointed region, or let the checkpoint policy save it."
    )
    result, (plan,) = under(case(lambda: Written(saves(aten.exp.default))), 1)  # the remedy
    assert "exp" not in plan.names(plan.recomputed) and "sin" not in plan.names(plan.saved)
    assert result.joint[0].checkpoints["recomputed_ops"] > 0


def test_every_result_of_attention_that_the_backward_reads_is_saved_together():
    """The sums of the softmax are neither an output of the program nor made from tangents."""
    _, plans = under(case(decoder()), 2)
    for plan in plans:
        (attention,) = (n for n in plan.imported.nodes if str(n.target) == f"aten.{ATTENTION}.default")
        items = plan.imported.items[attention]
        assert len(items) == 2 and all(plan.imported.values[i] in plan.saved for i in items)


# ---- the user's tags


class Selective(Decoder):
    def forward(self, ids):
        return self.head(region(self.blocks[0], saves(aten._scaled_dot_product_flash_attention_for_cpu.default), self.tokens(ids)))


@pytest.mark.parametrize("options", [{"checkpoint": "stock"}, {"checkpoint": "sac"}, {"memory_budget": "100%"}], ids=str)
def test_a_policy_that_saves_an_op_with_several_results(options):
    """The items go with their op: one saved and the other run again has no cut."""
    c = case(Selective)
    for ranks in (1, 2):
        result, _ = under(c, ranks, **options)
        for forward, backward in zip(result.forward, result.backward, strict=True):
            assert (calls(forward, ATTENTION), calls(backward, ATTENTION)) == (1, 0)
            assert calls(backward, "gelu") == 1


class Unread(Decoder):
    """The policy saves a result that no gradient needs."""

    def forward(self, ids):
        def body(h):
            best, where = h.detach().topk(4, -1)
            return h.sin(), where

        h, where = region(body, saves(aten.topk.default), self.hidden(ids))
        return self.head(h), where


@pytest.mark.parametrize("mode", ["stock", "sac", "full"])
def test_a_policy_on_what_the_backward_does_not_need(mode):
    def forward(m, ids, labels):
        logits, where = m(ids)
        return shifted_loss(logits, labels), where

    result, _ = under(case(Unread, forward), 1, checkpoint=mode)
    assert calls(result.backward[0], "topk") == 0


def no_policy():
    return contextlib.nullcontext(), contextlib.nullcontext()


def test_a_context_that_is_no_selective_policy_is_refused():
    class M(Decoder):
        def forward(self, ids):
            return self.head(torch.utils.checkpoint.checkpoint(self.hidden, ids, use_reentrant=False, context_fn=no_policy))

    with pytest.raises(Exception, match="which is no selective checkpoint policy") as info:
        case(lambda: M(1))
    found = torch_compat.compile_failure(info.value)
    assert isinstance(found, CompileError)
    assert found.found == "a checkpoint's context_fn gives a nullcontext, which is no selective checkpoint policy"
    assert found.remedy == "Use torch.utils.checkpoint.create_selective_checkpoint_contexts, or no context_fn"
    assert "test_checkpoint_traps.py:" in found.location


# ---- an op that the core does not know


@torch.library.custom_op("autosp_checkpoint_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * x


twice.register_fake(lambda x: torch.empty_like(x))
twice.register_autograd(
    lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_unknown_op_is_kept_and_named(ranks):
    c = case(decoder(), lambda m, ids, labels: shifted_loss(m.head(twice(m.hidden(ids)).sin()), labels))
    result, plans = under(c, ranks, checkpoint="full", rules={"autosp_checkpoint_tests.twice.default": "b s d -> b s d"})
    for report, plan in zip(result.joint, plans, strict=True):
        remarks = [text for text, _, _ in report.diagnostics]
        assert any("ops without a price are never run again: autosp_checkpoint_tests.twice.default" in text for text in remarks)
        assert not [name for name in plan.names(plan.recomputed) if "twice" in name]
        assert [v for v in plan.saved if "twice" in plan.imported.node_of[v].name]


# ---- ranks


def collectives(graph):
    return [str(n.target) for n in graph.graph.nodes if str(n.target).startswith("_c10d_functional.") and "wait" not in str(n.target)]


def test_attention_and_collectives_are_not_repeated_unless_all_is():
    c = case(decoder(), aligned, S=12)
    stock, _ = under(c, 2, checkpoint="stock")
    sac, plans = under(c, 2)
    full, full_plans = under(c, 2, checkpoint="full")
    for result in (sac, full):
        like_stock(result, stock)
    once = collectives(stock.backward[0])
    for rank in (0, 1):
        assert collectives(sac.backward[rank]) == once and calls(sac.backward[rank], ATTENTION) == 0
        assert len(collectives(full.backward[rank])) > len(once) and calls(full.backward[rank], ATTENTION) == 1
    assert collectives(full.backward[0]) == collectives(full.backward[1])
    assert full_plans[0].recomputed == full_plans[1].recomputed and full_plans[0].saved == full_plans[1].saved
    assert plans[0].saved == plans[1].saved


@pytest.mark.parametrize(("S", "ranks"), [(2, 3), (13, 2)])
def test_ranks_with_different_programs_repeat_no_collective(S, ranks):
    c = case(decoder(), S=S)
    result, plans = under(c, ranks, checkpoint="full")
    assert len({len(p.imported.nodes) for p in plans}) > 1
    assert [r.checkpoints["recomputed_collectives"] for r in result.joint] == [0] * ranks


def test_identity_changes_with_the_core_and_with_options(tmp_path, monkeypatch):
    def identity(**options):
        checkpoint.core_digest.cache_clear()
        return Checkpointing(Options.parse(options), Agreement.alone()).identity

    before = identity()
    assert identity() == before
    assert len({before, identity(checkpoint="full"), identity(memory_budget="50%"), identity(memory_budget="60%")}) == 4
    (tmp_path / "core.so").write_bytes(b"another")
    monkeypatch.setattr(_core, "__file__", str(tmp_path / "core.so"))
    assert identity() != before
    monkeypatch.undo()
    assert identity() == before


# ---- reports and budgets


def step(batch, **options):
    """(the model, after one step, the peak of the second step) in one process."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = autosp.compile(Decoder(2), inner="aot_eager", **options)
    for _ in range(2):
        model.zero_grad()
        with autosp.memory.PeakMeter() as meter:
            loss_of(model, **batch).backward()
    return model, meter.max_memory_allocated()


def adds_up(numbers):
    parts = ("saved_attention", "saved_mlp", "saved_residual", "saved_loss", "saved_other")
    assert numbers["saved"] == sum(numbers[p] for p in parts) > 0
    peaks, times = zip(*numbers["frontier"], strict=True)
    assert list(peaks) == sorted(set(peaks)) and list(times) == sorted(set(times), reverse=True)


def test_explain_shows_what_is_saved_and_budgets_bound_the_measured_peak():
    batch = tokens(4, 64, 3)
    model, _ = step(batch, checkpoint="sac")
    (report,) = autosp.explain(model).graphs
    adds_up(report.checkpoints)
    text = str(autosp.explain(model))
    for line in ("checkpoints (sac):", "  saved: ", "  run again: ", "  simulated peak: ", "  frontier (peak, time run again), of "):
        assert line in text
    points = report.checkpoints["frontier"]
    assert len(points) >= 3
    measured = []
    for peak, time in (points[0], points[len(points) // 2], points[-1]):
        model, bytes_ = step(batch, memory_budget=f"{peak}B")
        (report,) = autosp.explain(model).graphs
        adds_up(report.checkpoints)
        assert (report.checkpoints["peak"], report.checkpoints["recompute_time"]) == (peak, time)
        assert "checkpoints (budget):" in report.text() and report.text().count(" <- taken") == 1
        measured.append(bytes_)
    assert measured == sorted(measured) and measured[0] < measured[-1]


def test_a_smaller_budget_never_has_a_larger_simulated_peak():
    c = case(decoder(2), S=64)
    points = c.run(1, checkpoint="stock").joint[0].checkpoints["frontier"]
    least, most = points[0][0], points[-1][0]
    assert most > least
    peaks = []
    for k in range(10):
        budget = least + (most - least) * k // 9
        numbers = c.run(1, memory_budget=f"{budget}B").joint[0].checkpoints
        assert numbers["peak"] <= budget and (numbers["peak"], numbers["recompute_time"]) in points
        peaks.append(numbers["peak"])
    assert peaks == sorted(peaks) and peaks[0] == least and peaks[-1] == most


def test_a_budget_that_nothing_fits_names_the_length_that_would(monkeypatch):
    monkeypatch.setattr("lockstep.Checkpointing", functools.partial(Checkpointing, sequence=12))
    c = case(decoder(), aligned, S=12)
    numbers = c.run(2).joint[0].checkpoints
    least, gradients = numbers["frontier"][0][0], numbers["gradients"]
    budget = gradients + (least - gradients) // 2
    with pytest.raises(CompileError) as refused:
        c.run(2, memory_budget=f"{budget}B")
    assert re.sub(r"[0-9.]+ KiB", "N KiB", str(refused.value)) == (
        "no checkpointing plan fits memory_budget (N KiB): the smallest simulated peak is N KiB, N KiB of it gradients. Raise memory_budget "
        f"to N KiB, or shorten the sequence from 12 to about {12 * (budget - gradients) // (least - gradients)}, or use more ranks."
    )
    with pytest.raises(CompileError, match="no sequence is short enough, since the gradients alone take"):
        c.run(2, memory_budget="1KiB")
