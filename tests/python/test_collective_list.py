"""The list of collectives of a graph, its text, and its comparison: what must be equal is, all-to-all splits pair, anything else raises."""

import threading
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from autosp.agreement import Agreement
from autosp.collective_list import Collective, collectives_of, compare, text_of
from autosp.errors import CompileError

C10D = torch.ops._c10d_functional
names = iter(range(10**6))


def graph(build):
    """A GraphModule from build(graph, x), x an int or float placeholder with a [6, 4] value."""
    g = torch.fx.Graph()
    x = g.placeholder("x")
    x.meta["val"] = torch.empty(6, 4)
    g.output(build(g, x))
    return torch.fx.GraphModule(torch.nn.Module(), g)


def call(g, op, *args, shape=(6, 4), **kwargs):
    node = g.call_function(op, args, kwargs)
    node.meta["val"] = torch.empty(*shape)
    return node


def every_kind(g, x):
    y = call(g, C10D.wait_tensor.default, call(g, C10D.all_reduce.default, x, "sum", "sp"))
    y = call(g, C10D.all_gather_into_tensor.default, y, 2, SimpleNamespace(group_name="sp"), shape=(12, 4))
    y = call(g, C10D.wait_tensor.default, y, shape=(12, 4))
    y = call(g, C10D.reduce_scatter_tensor.default, y, "sum", 2, group_name="sp")
    y = call(g, C10D.all_to_all_single.default, y, [3, 1], [2, 4], "sp", shape=(4, 4))
    y = call(g, torch.ops._c10d_functional_autograd.all_to_all_single.default, y, [2, 2], [2, 2], "sp", shape=(4, 4))
    many = call(g, C10D.all_reduce_coalesced.default, [x, y], "sum", "tp")
    return call(g, C10D.broadcast.default, many, src=0, group_name="sp")


def test_list_and_text():
    gm = graph(every_kind)
    found = collectives_of(gm)
    assert found[3] == ("all_to_all_single", "sp", "float32", ((6, 4),), (2, 4), (3, 1), "")
    assert text_of(found) == "\n".join(
        [
            "0 all_reduce group sp float32 [6,4] reduce_op=sum",
            "1 all_gather_into_tensor group sp float32 [6,4] group_size=2",
            "2 reduce_scatter_tensor group sp float32 [12,4] reduce_op=sum group_size=2",
            "3 all_to_all_single group sp float32 [6,4] sends [2, 4] receives [3, 1]",
            "4 all_to_all_single group sp float32 [4,4] sends [2, 2] receives [2, 2]",
            "5 all_reduce_coalesced group tp float32 [6,4] [4,4] reduce_op=sum",
            "6 broadcast group sp float32 [6,4] src=0",
        ]
    )
    assert text_of(collectives_of(gm)) == text_of(found)
    assert collectives_of(graph(lambda g, x: call(g, torch.ops.aten.sin.default, x))) == []


def test_sub_graphs_are_listed_where_they_are_called():
    inner = graph(lambda g, x: call(g, C10D.all_reduce.default, x, "sum", "sp"))
    g = torch.fx.Graph()
    x = g.placeholder("x")
    x.meta["val"] = torch.empty(2)
    first = call(g, C10D.broadcast.default, x, 0, "sp", shape=(2,))
    region = g.get_attr("region")
    called = g.call_function(torch.ops.higher_order.invoke_subgraph, (region, "region", first))
    g.call_module("region", (called,))
    g.output(called)
    outer = torch.fx.GraphModule({"region": inner}, g)
    assert [c.op for c in collectives_of(outer)] == ["broadcast", "all_reduce", "all_reduce"]


def a2a(sends, receives, rest=4, group="sp", op="all_to_all_single"):
    return Collective(op, group, "float32", ((sum(sends) if sends else 6, rest),), tuple(sends), tuple(receives))


def reduce(shape=(5, 3), dtype="float32", group="sp", op="all_reduce", detail="reduce_op=sum"):
    return Collective(op, group, dtype, (shape,), (), (), detail)


def compared(*lists):
    """What `compare` says on each rank of lists[rank] = (forward, backward): one text if all say the same."""
    store, prefix, n = dist.HashStore(), next(names), len(lists)
    results = [None] * n

    def one(r):
        agreement = Agreement(dist.PrefixStore(str(prefix), store), range(n), r, "sp", 5)
        try:
            results[r] = compare(*lists[r], agreement) or "fits"
        except CompileError as error:
            results[r] = str(error)

    threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert results == [results[0]] * n
    return results[0]


REPORT = "A group whose ranks run these would hang: please report it, with AUTOSP_DUMP=DIR set."


def test_equal_lists():
    fw, bw = [reduce(), a2a([3, 3], [3, 3])], [a2a([3, 3], [3, 3]), reduce((7,), "bfloat16")]
    assert compared((fw, bw), (fw, bw)) == "fits"
    assert compared(([], []), ([], [])) == "fits"


def test_uneven_splits_that_pair():
    rows = [[2, 3, 0], [1, 1, 4], [5, 0, 2]]  # rows[i][j]: from i to j
    lists = [([a2a(rows[r], [rows[i][r] for i in range(3)])], [reduce()]) for r in range(3)]
    assert compared(*lists) == "fits"


def test_flat_buffers_pair_with_rows():
    one = a2a([1, 2], [1, 4], rest=4)
    other = Collective("all_to_all_single", "sp", "float32", ((36,),), (16, 20), (8, 20))
    assert compared(([one], []), ([other], [])) == "fits"


def test_no_splits_divide_evenly():
    assert compared(([a2a([], [])], []), ([a2a([3, 3], [3, 3])], [])) == "fits"


def test_splits_that_do_not_pair():
    good = ([a2a([3, 3], [3, 3])] * 2, [a2a([1, 2], [1, 3])])
    bad = ([a2a([3, 3], [3, 3])] * 2, [a2a([4, 2], [2, 2])])
    assert compared(good, bad) == (
        f"split sizes of all-to-all: what rank 1 sends to rank 0 is not what rank 0 expects. {REPORT}\n  first difference, line 3:\n"
        "  rank 1 sends: backward 2 all_to_all_single 16 elements\n  rank 0 expects: backward 2 all_to_all_single 12 elements"
    )


SUM = "all_reduce float32 [5,3] reduce_op=sum"


@pytest.mark.parametrize(
    ("odd", "line", "here", "there"),
    [
        (([reduce()], [reduce(), reduce()]), 3, "(ends after 2 lines)", f"backward 2 {SUM}"),
        (([reduce(), reduce()], []), 2, f"backward 1 {SUM}", f"forward 1 {SUM}"),
        (([reduce((5, 4))], [reduce()]), 1, f"forward 0 {SUM}", "forward 0 all_reduce float32 [5,4] reduce_op=sum"),
        (([a2a([1, 1], [1, 1])], [reduce()]), 1, f"forward 0 {SUM}", "forward 0 all_to_all_single float32"),
        (([reduce(detail="reduce_op=max")], [reduce()]), 1, f"forward 0 {SUM}", "forward 0 all_reduce float32 [5,3] reduce_op=max"),
        (([reduce(group="tp")], [reduce()]), 1, f"forward 0 {SUM}", "forward 0 all_reduce another group float32"),
        (([reduce(dtype="bfloat16")], [reduce()]), 1, f"forward 0 {SUM}", "forward 0 all_reduce bfloat16 [5,3] reduce_op=sum"),
    ],
)
def test_lists_that_differ(odd, line, here, there):
    usual = ([reduce()], [reduce()])
    assert compared(usual, odd, usual) == (
        f"the lists of collectives (forward, then backward) differ between ranks: rank 1 against ranks 0, 2. {REPORT}\n"
        f"  first difference, line {line}:\n  rank 0: {here}\n  rank 1: {there}"
    )


def test_other_groups_may_differ_in_name_and_splits():
    one = [a2a([1, 2], [1, 2], group="tp0"), reduce(group="tp0")]
    two = [a2a([2, 2], [3, 1], group="tp1"), reduce((9,), group="tp1")]
    assert compared((one, []), (two, [])) == "fits"


def captured(rank, world):
    """Lists of the graphs that AOTAutograd makes of an uneven exchange, compared over the group before they run."""
    from functorch.compile import aot_module_simplified

    group = dist.group.WORLD.group_name
    rows = [[2, 1], [1, 1]]
    splits = [rows[i][rank] for i in range(2)], rows[rank]
    graphs = []

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return C10D.wait_tensor(C10D.all_to_all_single(x.contiguous(), *splits, group))

        @staticmethod
        def backward(ctx, g):
            return C10D.wait_tensor(C10D.all_to_all_single(g.contiguous(), splits[1], splits[0], group))

    def keep(gm, inputs):
        graphs.append(gm)
        return gm

    def backend(gm, inputs):
        return aot_module_simplified(gm, inputs, fw_compiler=keep, bw_compiler=keep)

    fn = torch.compile(lambda x: Exchange.apply(x * 2).sin().sum(), backend=backend, fullgraph=True)
    x = torch.randn(sum(rows[rank]), 5, requires_grad=True)
    fn(x).backward()
    lists = [collectives_of(gm) for gm in graphs]
    agreement = Agreement.of(timeout=20)
    fits = compare(*lists, agreement) or "fits"
    seeded = lists[1] if rank == 0 else []
    try:
        compare(lists[0], seeded, agreement)
    except CompileError as error:
        return [text_of(side) for side in lists], fits, str(error)


def test_captured_graphs_on_gloo(spawn):
    one, two = spawn(2, captured, timeout=90)
    name = one[0][0].split()[3]
    assert one[0] == [
        f"0 all_to_all_single group {name} float32 [3,5] sends [2, 1] receives [2, 1]",
        f"0 all_to_all_single group {name} float32 [3,5] sends [2, 1] receives [2, 1]",
    ]
    assert two[0] == [f"0 all_to_all_single group {name} float32 [2,5] sends [1, 1] receives [1, 1]"] * 2
    assert one[1] == two[1] == "fits"
    assert one[2] == two[2]
    assert "first difference, line 2:\n  rank 0: backward 1 all_to_all_single float32\n  rank 1: (ends after 1 lines)" in one[2]
