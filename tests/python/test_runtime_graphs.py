"""The runtime functions under AOTAutograd and Inductor, as calls in an FX graph, against one process.

Gradients are right, and every rank has the same collectives in the same order in its forward graph and in its backward graph: also
a rank without rows (3 positions on 4 ranks) and a rank without heads (3 heads on 4 ranks).
"""

import pytest
import torch
import torch.distributed as dist
from functorch.compile import aot_module, make_boxed_func, min_cut_rematerialization_partition
from torch.nn import functional

from autosp import torch_compat
from autosp.collective_list import collectives_of
from autosp.runtime.attention import attention
from autosp.runtime.conversions import (
    all_reduce,
    all_reduce_partial,
    enter_partial,
    gather,
    gather_partial,
    keep_on_first,
    reduce_scatter,
    shard,
    shard_partial,
)
from autosp.runtime.dropout import dropout
from autosp.runtime.exchange import exchange
from autosp.runtime.loss import cross_entropy
from ranks import run_ranks
from test_runtime_conversions import balanced, grouped

CALLS = (
    all_reduce, all_reduce_partial, attention, cross_entropy, dropout, enter_partial, exchange, gather, gather_partial,
    keep_on_first, reduce_scatter, shard, shard_partial,
)  # fmt: skip
BATCH, SIZE, CLASSES = 2, 4, 5


class Block:
    """One attention block with a loss: x [B, S, D] whole, weights whole; the local program and the global one."""

    def __init__(self, rank, world, group, length, heads, kv_heads, drop=0.0, gathered=False):
        self.rank, self.world, self.group = rank, world, group
        self.length, self.heads, self.kv_heads, self.drop = length, heads, kv_heads, drop
        generator = torch.Generator().manual_seed(length)
        width = heads * SIZE
        shapes = [(BATCH, length, width), (width, width), (kv_heads * SIZE, width), (kv_heads * SIZE, width), (CLASSES, width), (width,)]
        self.values = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        self.labels = torch.randint(CLASSES, (BATCH, length), generator=generator)
        self.labels[0, 0] = -100
        self.seed = torch.tensor(77)
        self.program = self.local_gathered if gathered else self.local_exchanged

    def split(self, x, heads):
        return x.unflatten(-1, (heads, SIZE)).transpose(1, 2)

    def project(self, x, wq, wk, wv):
        q, k, v = functional.linear(x, wq), functional.linear(x, wk), functional.linear(x, wv)
        return self.split(q, self.heads), self.split(k, self.kv_heads), self.split(v, self.kv_heads)

    def finish(self, out, x, wo, wn, labels):
        """The epilogue on local rows: residual, norm, dropout, head, loss."""
        rows = balanced(self.length, self.world)
        y = functional.rms_norm(out.transpose(1, 2).flatten(2) + x, (x.shape[-1],), wn)
        y = dropout(y, self.drop, self.seed, 3, (1, 1, 1, rows), (BATCH, self.length, x.shape[-1]), self.rank)
        logits = functional.linear(y, wo).flatten(0, 1)
        return cross_entropy(logits, labels.flatten(), None, 1, -100, 0.1, BATCH * self.length, self.group)

    def enter(self, *values):
        rows = balanced(self.length, self.world)
        x, labels, *weights = values
        weights = enter_partial(weights, self.world, self.group, True)
        x = shard([x], ((1, 1, 1, rows),), self.rank, self.group)[0]
        labels = shard([labels], ((1, 1, 1, rows),), self.rank, self.group)[0]
        return x, labels, [weights[i] for i in range(5)]

    def local_exchanged(self, x, labels, wq, wk, wv, wo, wn):
        x, labels, (wq, wk, wv, wo, wn) = self.enter(x, labels, wq, wk, wv, wo, wn)
        q, k, v = self.project(x, wq, wk, wv)
        rows = (2, 1, 1, balanced(self.length, self.world))
        by_head = (1, 1, 1, balanced(self.heads, self.world))
        group_size = self.heads // self.kv_heads
        by_kv = (1, 1, 1, grouped(self.heads, group_size, self.world))
        exchanged = exchange([q, k, v], (rows, rows, rows), (by_head, by_kv, by_kv), self.rank, self.group)
        (lo, hi), first = by_head[3][self.rank], by_kv[3][self.rank][0]
        index = tuple(j // group_size - first for j in range(lo, hi))
        out = attention(exchanged[0], exchanged[1], exchanged[2], None, True, None, index, None)
        out = exchange([out], (by_head,), (rows,), self.rank, self.group)[0]
        return self.finish(out, x, wo, wn, labels)

    def local_gathered(self, x, labels, wq, wk, wv, wo, wn):
        x, labels, (wq, wk, wv, wo, wn) = self.enter(x, labels, wq, wk, wv, wo, wn)
        q, k, v = self.project(x, wq, wk, wv)
        rows = (2, 1, 1, balanced(self.length, self.world))
        keys = gather_partial([k, v], (rows, rows), self.rank, self.group)
        out = attention(q, keys[0], keys[1], None, True, None, None, rows[3][self.rank][0])
        return self.finish(out, x, wo, wn, labels)

    def whole(self, x, labels, wq, wk, wv, wo, wn):
        q, k, v = self.project(x, wq, wk, wv)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        y = functional.rms_norm(out.transpose(1, 2).flatten(2) + x, (x.shape[-1],), wn)
        y = dropout(y, self.drop, self.seed, 3, None, (BATCH, self.length, x.shape[-1]), 0)
        logits = functional.linear(y, wo).flatten(0, 1)
        return functional.cross_entropy(logits, labels.flatten(), label_smoothing=0.1)


class Mixed:
    """Every conversion once, with a global meaning: the local program returns a scalar that is whole on every rank."""

    def __init__(self, rank, world, group, length):
        self.rank, self.world, self.group, self.length = rank, world, group, length
        generator = torch.Generator().manual_seed(length)
        self.values = [torch.randn(s, generator=generator, dtype=torch.float64) for s in ((2, length, 3), (3, 3), (length, 3))]
        self.labels = torch.zeros(1)
        self.program = self.local

    def local(self, x, labels, w, u):
        rows = balanced(self.length, self.world)
        middle, first, flat = (1, 1, 1, rows), (0, 1, 1, rows), (0, 2, 3, rows)
        w = enter_partial([w], self.world, self.group, True)[0]
        u = enter_partial([u], self.world, self.group, True)[0]
        a = shard([x], (middle,), self.rank, self.group)[0] @ w  # S
        b = shard_partial([u], (first,), self.rank)[0] + a  # S
        whole = gather([b], (middle,), self.rank, self.group)[0].tanh()  # R
        partial = gather_partial([b.sin()], (middle,), self.rank, self.group)[0]  # Q
        c = partial.exp() * shard([whole], (middle,), self.rank, self.group)[0].sum(1, keepdim=True)  # P
        d = reduce_scatter([c], (middle,), self.rank, self.group)[0]  # S
        e = all_reduce_partial([d.sum(1) + a.sum(1)], self.group)[0]  # Q
        f = shard([keep_on_first([e], self.rank)[0].cos()[0].expand(self.length, 3).clone()], (first,), self.rank, self.group)[0]  # S
        g = exchange([(f + d).flatten()], (flat,), ((0, 1, 1, balanced(6 * self.length, self.world)),), self.rank, self.group)[0]
        return all_reduce([(g * g).sum() + (b * d).sum()], self.group)[0]

    def whole(self, x, labels, w, u):
        a = x @ w
        b = u + a
        c = b.sin().exp() * b.tanh().sum(1, keepdim=True)
        e = c.sum(1) + a.sum(1)
        f = e.cos()[0].expand(self.length, 3)
        return ((f + c) ** 2).sum() + (b * c).sum()


def trace(program, arguments):
    """The program as an FX graph that calls the runtime functions, run through FX's printer."""
    tracer = torch.fx.Tracer(autowrap_functions=CALLS)
    graph = tracer.trace(FromArguments(program, len(arguments)))
    return torch.fx.GraphModule(tracer.root, graph)


class FromArguments(torch.nn.Module):
    def __init__(self, program, count):
        super().__init__()
        self.program, self.count = program, count

    def forward(self, x, labels, w0, w1, w2=None, w3=None, w4=None):
        return (self.program(*(x, labels, w0, w1, w2, w3, w4)[: self.count]),)


def run(case, compiled):
    """Loss and gradients of the local program against the global one; returns the collectives of both graphs."""
    inputs = [v.clone().requires_grad_() for v in case.values]
    expected = case.whole(inputs[0], case.labels, *inputs[1:])
    gradients = torch.autograd.grad(expected, inputs)
    arguments = [inputs[0], case.labels, *inputs[1:]]
    graphs = {}
    function = compiled(case.program, arguments, graphs)
    got = function(*arguments)
    (got,) = got if isinstance(got, (list, tuple)) else (got,)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    for a, b in zip(torch.autograd.grad(got, inputs), gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    return graphs


def eager(program, arguments, graphs):
    return program


def decomposed(program, arguments, graphs):
    """AOTAutograd with ops taken apart, as Inductor does: there a `zeros` no longer depends on the tensor it was made like."""

    def partition(*args, **kwargs):
        graphs["forward"], graphs["backward"] = min_cut_rematerialization_partition(*args, **kwargs)
        return graphs["forward"], graphs["backward"]

    def run_graph(gm, inputs):
        return make_boxed_func(gm.forward)

    table = {op: rule for op, rule in torch.export.default_decompositions().items() if "scaled_dot_product" not in str(op)}
    return aot_module(trace(program, arguments), run_graph, run_graph, partition_fn=partition, decompositions=table)


def inductor(program, arguments, graphs):
    def keep(forward, backward):
        graphs["forward"], graphs["backward"] = forward, backward

    return torch_compat.compile_inner(
        "inductor", trace(program, arguments), arguments, torch_compat.partitioner(lambda gm, n: None, keep, "runtime graphs")
    )


def lists(graphs):
    """What must be the same on every rank."""
    found = {}
    for side, gm in graphs.items():
        found[side] = [(c.op, c.dtype, () if c.op == "all_to_all_single" else c.sizes) for c in collectives_of(gm)]
    return found


def copies(gm):
    """The nodes of a graph that move memory."""
    moving = ("clone", "cat", "copy", "constant_pad_nd", "index_select")
    names = [str(n.target).split(".") for n in gm.graph.nodes if str(n.target).startswith("aten.")]
    return [name[1] for name in names if name[1] in moving]


CASES = {
    2: {
        "exchange": lambda *where: Block(*where, 8, 4, 2),
    },
    4: {
        "exchange, a rank without rows": lambda *where: Block(*where, 3, 4, 4, drop=0.4),
        "exchange, a rank without heads": lambda *where: Block(*where, 6, 3, 3),
        "gather, a rank without rows": lambda *where: Block(*where, 3, 4, 2, drop=0.4, gathered=True),
        "mixed, a rank without rows": lambda *where: Mixed(*where, 3),
    },
}


def under_aot(rank, world):
    """{case: (collectives, copies in the forward)} of this rank, in groups of 4 and of 2."""
    found = {}
    for size, cases in CASES.items():
        group = dist.new_group(list(range(size)))
        for name, make in cases.items() if rank < size else ():
            try:
                run(make(rank, size, group.group_name), eager)
                graphs = run(make(rank, size, group.group_name), decomposed)
            except Exception as error:
                raise AssertionError(name) from error
            found[name] = (lists(graphs), copies(graphs["forward"]))
    return found


def test_same_collectives_on_every_rank():
    found = run_ranks(4, under_aot, timeout=400)
    for name, (expected, _) in found[0].items():
        assert expected["forward"] and expected["backward"], name
        for rank in range(1, 4):
            assert name not in found[rank] or found[rank][name][0] == expected, f"{name}: rank {rank}"
    even, moved = found[0]["exchange"]
    assert [op for op, _, _ in even["forward"]] == ["all_to_all_single", "all_to_all_single", "all_reduce"]
    assert [op for op, _, _ in even["backward"]] == [
        "all_to_all_single", "all_to_all_single", "all_gather_into_tensor", "all_reduce",
    ]  # fmt: skip
    # x cut; q, k and v packed into one buffer; heads put together after the way back; labels cut; the two sums of the loss side by side.
    assert moved == ["clone", "clone", "clone", "clone", "cat", "clone", "clone", "cat"]


def under_inductor(rank, world):
    group = dist.group.WORLD.group_name
    run(Block(rank, world, group, 5, 3, 1, drop=0.4), inductor)


@pytest.mark.inductor
def test_inductor():
    run_ranks(2, under_inductor, timeout=400)
