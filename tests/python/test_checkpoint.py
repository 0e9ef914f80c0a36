"""Activation checkpointing on programs of every kind: whatever is saved and run again, gradients stay, and the graphs do what was planned."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import autosp
from autosp import torch_compat
from autosp.collective_list import collectives_of
from checkpoint_runs import ATTENTION, calls, every_mode, under
from lockstep import partitioned
from sharded_runs import Comparison, close
from small_models import VOCAB, Block, Decoder, shifted_loss, tokens

LENGTH = 13  # not a multiple of 2 or 3


def case(model, forward=None, B=2, S=LENGTH, **options):
    torch.manual_seed(0)
    return Comparison(model(), tokens(B, S, 3), forward or loss_of, **options)


def loss_of(m, ids, labels):
    return shifted_loss(m(ids), labels)


class LlamaBlock(Block):
    """RMSNorm, grouped-query attention, SwiGLU."""

    def __init__(self, width=32, heads=4, kv=2, causal=True, p=0.0):
        super().__init__(width, heads, kv, causal, p)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.gate = nn.Linear(width, 2 * width)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(B, S, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, D))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Shared(Decoder):
    """One block applied twice, the head's weight is the embedding's, and the embeddings (one of them padding) are read at both ends."""

    def __init__(self):
        super().__init__(1)
        self.tokens = nn.Embedding(VOCAB, 32, padding_idx=5)
        self.head.weight = self.tokens.weight
        self.blocks.append(self.blocks[0])

    def forward(self, ids):
        return self.head(self.hidden(ids) * self.tokens(ids).sigmoid())


class Views(Decoder):
    """A slice that is read by a product pins all it is cut from; an expanded value is smaller than it looks."""

    def forward(self, ids):
        h = self.hidden(ids)
        wide = torch.cat([h, h.sin(), h.cos()], -1)
        part = wide[..., 16:48]
        scale = h.mean(-1, keepdim=True).exp().expand(-1, -1, 32)
        return self.head(part * scale + part.transpose(1, 2).contiguous().transpose(1, 2).sigmoid() * wide[..., :32])


class Several(Decoder):
    """Ops with several results, some of which nothing reads."""

    def forward(self, ids):
        h = self.hidden(ids)
        a, b = h.exp().split(16, -1)
        largest, _ = a.max(-1, keepdim=True)
        best, where = b.topk(4, -1)
        var, mean = torch.var_mean(h, -1, keepdim=True)
        return self.head((h - mean) * torch.rsqrt(var + 1e-5) * largest.sigmoid() + best.mean(-1, keepdim=True) + where.sum())


def outputs(m, ids, labels):
    """Two losses need the hidden states, which are an output too; so does a teacher without gradients; a constant is made on the way."""
    with torch.no_grad():
        teacher = m(ids).softmax(-1)
    h = m.hidden(ids).tanh()
    logits = m.head(h * h) + torch.tensor([0.5])
    distance = F.kl_div(logits.log_softmax(-1), teacher, reduction="batchmean")
    return distance + shifted_loss(logits - logits.detach().mean(-1, True), labels) + (h @ m.tokens.weight.t()).pow(2).mean(), h


PROGRAMS = {
    "shared": (lambda: case(Shared), 2),
    "views": (lambda: case(lambda: Views(1)), 2),
    "several results": (lambda: case(lambda: Several(1)), 1),
    "outputs": (lambda: case(lambda: Decoder(1), outputs), 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_stocks_and_what_is_saved_is_what_was_planned(name):
    make, ranks = PROGRAMS[name]
    modes = every_mode(make(), ranks, percent="100%" if ranks == 1 else None)
    full, plans = modes["full"]
    for report, plan in zip(full.joint, plans, strict=True):
        numbers = report.checkpoints
        assert numbers["recomputed_matmuls"] > 0 and numbers["recomputed_attention"] > 0
        assert plan.saved, "nothing is saved"
    assert full.joint[0].checkpoints["saved"] < 0.7 * modes["stock"][0].joint[0].checkpoints["saved"]


def test_a_tensor_made_in_the_forward_is_no_data():
    """What depends on it and on parameters alone is no activation, so it hides no boundary between layers."""

    def forward(m, ids, labels):
        bias = (m.head.weight.sum() * torch.tensor([0.5, 0.25])).sum()
        x = m.tokens(ids)
        for block in m.blocks:
            x = block(x + bias)
        return shifted_loss(m.head(x), labels)

    c = case(lambda: Decoder(3), forward)
    result, (plan,) = under(c, 1, checkpoint="full")
    assert [kind for _, kind, *_ in plan.imported.graph.inputs].count("constant") == 1
    assert result.joint[0].checkpoints["saved_residual"] == 3 * 2 * LENGTH * 32 * 4  # what enters each layer


@pytest.fixture(scope="module")
def larger():
    """Two layers, large enough that a second run of a product costs less than what it saves is worth."""
    return case(lambda: Decoder(2, block=LlamaBlock), B=16, S=61)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_sequence_aware_runs_products_again_and_neither_attention_nor_collectives(larger, ranks):
    modes = every_mode(larger, ranks, percent="60%" if ranks == 1 else None)
    stock, _ = modes["stock"]
    for mode, attention in (("sac", 0), ("full", 2)):
        result, _ = modes[mode]
        for report, backward, reference in zip(result.joint, result.backward, stock.backward, strict=True):
            numbers = report.checkpoints
            assert numbers["recomputed_matmuls"] == calls(backward, "addmm") > 0
            assert (numbers["recomputed_attention"], numbers["recomputed_collectives"]) == (attention, 0)
            assert calls(backward, ATTENTION) == attention
            assert [c.op for c in collectives_of(backward)] == [c.op for c in collectives_of(reference)]  # the shards differ
            assert numbers["peak"] < 0.75 * stock.joint[0].checkpoints["peak"]


def test_torchs_budget_repeats_the_cpu_attention_kernel_and_ours_keeps_it(larger):
    """Its list of what is dear to compute lacks the kernel: it runs attention again before any product."""
    result, _ = under(larger, 1, checkpoint="sac")
    (joint,) = larger.joints(1)
    with torch_compat.activation_budget(0.75):
        _, theirs = partitioned(*joint, lambda *_: None)
    assert (calls(theirs, ATTENTION), calls(theirs, "addmm")) == (2, 0)
    assert calls(result.backward[0], ATTENTION) == 0 < calls(result.backward[0], "addmm")


# ---- dropout


def test_the_mask_of_the_forward_is_that_of_the_backward():
    """Masks are made by counting, so they may be made again: the numbers are the same."""
    c = case(lambda: Decoder(1, p=0.3))
    c.expect_one_rank()
    for ranks in (1, 2):
        modes = every_mode(c, ranks)
        assert modes["full"][0].joint[0].checkpoints["recomputed_matmuls"] > 0


# ---- buffers


class Normed(Decoder):
    """Batch normalisation over tokens in training mode, whose running statistics the forward overwrites and, in evaluation's formula,
    reads before."""

    def __init__(self):
        super().__init__(1)
        self.batch = nn.BatchNorm1d(32)

    def forward(self, ids):
        h = self.hidden(ids)
        shifted = h * self.batch.running_var.rsqrt() - self.batch.running_mean
        return self.head(self.batch(h.flatten(0, 1)).view_as(h) + shifted.tanh())


def test_batch_norm_in_training():
    """Running statistics are those of torch, and what reads their old contents is not run again."""
    c = case(Normed)
    buffers = [n for n in c.names if n in c.expected_buffers]
    assert {"batch.running_mean", "batch.running_var"} <= set(buffers)
    modes = every_mode(c, 2)
    full, plans = modes["full"]
    assert full.joint[0].checkpoints["recomputed_matmuls"] > 0
    for result, _ in modes.values():
        for written in result.written:
            for name, got in zip(buffers, written, strict=True):
                close(got, c.expected_buffers[name], 1e-5, name)
    for plan in plans:
        old = {n for n in plan.imported.nodes if n.op == "placeholder" and c.names[torch_compat.input_position(n)] in buffers}
        assert len(old) == len(buffers)
        for n in plan.nodes_run_again():
            assert not old & set(n.all_input_nodes), f"{n} reads what the forward overwrites"


@pytest.mark.parametrize("mode", ["sac", "full"])
def test_batch_norm_of_one_process(mode):
    """The compiled graph copies new contents into the buffers itself, here of two steps."""
    batch = tokens(2, LENGTH, 3)
    torch.compiler.reset()
    torch.manual_seed(0)
    eager = Normed()
    model = autosp.compile(copy.deepcopy(eager), inner="aot_eager", checkpoint=mode)
    for m in (eager, model):
        for _ in range(2):
            m.zero_grad()
            loss_of(m, **batch).backward()
    (report,) = autosp.explain(model).graphs
    assert (report.checkpoints["recomputed_matmuls"] > 0) == (mode == "full")
    for kind in ("named_parameters", "named_buffers"):
        for (name, got), (_, want) in zip(getattr(model, kind)(), getattr(eager, kind)(), strict=True):
            close(got.grad if got.grad is not None else got, want.grad if want.grad is not None else want, 1e-5, name, floor=1e-3)


# ---- low precision


def test_autocast():
    def forward(m, ids, labels):
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(m, ids, labels)

    c = case(lambda: Decoder(1, block=LlamaBlock), forward, tolerance=5e-2)
    every_mode(c, 2, tolerance=1e-2)


# ---- the user's own checkpoints


def must_save_products(ctx, op, *args, **kwargs):
    return (
        CheckpointPolicy.MUST_SAVE if op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default) else CheckpointPolicy.PREFER_RECOMPUTE
    )


def selective():
    return create_selective_checkpoint_contexts(must_save_products)


class Checkpointed(Decoder):
    """kind: "plain", "selective", or "nested" (a checkpoint around two blocks, one of which is checkpointed again, selectively)."""

    def __init__(self, kind, layers=1, p=0.0):
        super().__init__(layers, p=p)
        self.kind = kind

    def forward(self, ids):
        x = self.tokens(ids)
        if self.kind == "nested":
            x = checkpoint(self.inner, x, use_reentrant=False)
        else:
            for block in self.blocks:
                options = {"context_fn": selective} if self.kind == "selective" else {}
                x = checkpoint(block, x, use_reentrant=False, **options)
        return self.head(x)

    def inner(self, x):
        x = checkpoint(self.blocks[0], x, use_reentrant=False, context_fn=selective)
        return F.gelu(self.head(x) @ self.tokens.weight)


@pytest.mark.parametrize(("kind", "ranks"), [("plain", 1), ("selective", 2), ("nested", 1)])
def test_checkpoints_of_the_user_hold_in_every_mode(kind, ranks):
    """In a plain one all is run again; in a selective one what the policy saves is saved and the rest is run again."""
    layers = 2 if kind == "plain" else 1
    c = case(lambda: Checkpointed(kind, layers, p=0.3 if kind == "plain" else 0.0))
    if kind == "plain":
        c.expect_one_rank()
    for mode, (result, plans) in every_mode(c, ranks).items():
        for plan, backward in zip(plans, result.backward, strict=bool(plans)):
            saved, again = plan.nodes_saved(), plan.nodes_run_again()
            keep, recompute = ({n for n, said in plan.policies.items() if said == wanted} for wanted in ("keep", "recompute"))
            assert not keep & again and not recompute & saved, mode
            assert calls(backward, ATTENTION) == layers
            if kind == "plain":
                assert len(saved & keep) == 1, "the end of the first block"
            else:
                assert len(saved & keep) >= 3
            assert (calls(backward, "addmm") == 0) == (kind != "plain")
