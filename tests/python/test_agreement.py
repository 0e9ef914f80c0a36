"""Ranks agree, or each of them raises the same error within the time-out: as threads over a store in memory, then on gloo ranks."""

import re
import threading
import time

import pytest
import torch
import torch.distributed as dist

from autosp import agreement
from autosp.agreement import Agreement, parameters_agree
from autosp.errors import CompileError

TOGETHER = "All ranks of the group must compile the same model with the same options, inputs and versions of torch and autosp."
names = iter(range(10**6))


def ranks(n, body, timeout=5.0, store=None, **groups):
    """body(rank, agreement) on n threads that share a store; returns what each returned or the text of its CompileError."""
    store, name = store or dist.HashStore(), f"group{next(names)}"
    results = [None] * n

    def one(r):
        try:
            results[r] = body(r, Agreement(store, groups.get("ranks", range(n)), groups.get("ranks", range(n))[r], name, timeout))
        except CompileError as error:
            assert error.agreed
            results[r] = str(error)
        except Exception as error:
            results[r] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads), "a rank hangs"
    return results


def everywhere(results, text):
    assert results == [text] * len(results)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_equal_payloads_pass_again_and_again(n):
    def body(r, a):
        for k in range(20):
            a.same("plan", f"line\nplan {k}")
        a.ready()
        return "agreed"

    everywhere(ranks(n, body), "agreed")


@pytest.mark.parametrize("n", [2, 3])
def test_all_ranks_hear_whether_they_are_alike_and_what_the_first_decides(n):
    def body(rank, agreement):
        heard = []
        for k in range(4):
            heard.append(agreement.alike("program", f"{k} {rank == n - 1 and k % 2 == 1}"))
            heard.append(agreement.first("plan", f"plan {k} of {rank} " + "x" * 10_000 * k))
        agreement.same("end", "")
        return heard

    want = [x for k in range(4) for x in (k % 2 == 0, f"plan {k} of 0 " + "x" * 10_000 * k)]
    everywhere(ranks(n, body), want)


def test_one_rank_is_alike_and_first():
    assert Agreement.alone().alike("program", "x") is True
    assert Agreement.alone().first("plan", "mine") == "mine"


def test_bytes_and_text_are_the_same():
    everywhere(ranks(2, lambda r, a: a.same("plan", b"x" if r else "x")), None)


def test_a_difference_names_ranks_and_line():
    def body(r, a):
        a.same("plan", "a\nb\nc" if r != 2 else "a\nB\nc")

    everywhere(
        ranks(4, body),
        f"plan differs between ranks: rank 2 against ranks 0, 1, 3. {TOGETHER}\n  first difference, line 2:\n  rank 0: b\n  rank 2: B",
    )


def test_the_first_rank_may_be_the_odd_one():
    def body(r, a):
        a.same("plan", "a\nb" if r else "a")

    everywhere(
        ranks(3, body),
        f"plan differs between ranks: rank 0 against ranks 1, 2. {TOGETHER}\n  first difference, line 2:\n  rank 1: b\n"
        "  rank 0: (ends after 1 lines)",
    )


def test_all_different():
    text = ranks(3, lambda r, a: a.same("options", f"seed={r}", found="options differ", remedy="Give one seed"))
    everywhere(
        text, "options differ: ranks 1, 2 against rank 0. Give one seed.\n  first difference, line 1:\n  rank 0: seed=0\n  rank 1: seed=1"
    )


def test_global_ranks_are_named():
    text = ranks(2, lambda r, a: a.same("plan", str(r)), ranks=(3, 7))
    everywhere(
        text, f"plan differs between ranks: rank 7 against rank 3. {TOGETHER}\n  first difference, line 1:\n  rank 3: 0\n  rank 7: 1"
    )


def test_a_difference_at_a_later_step_and_in_step_again_after_it():
    def body(r, a):
        texts = []
        for k in range(6):
            try:
                a.same("plan", "odd" if (k, r) == (3, 1) else "even")
                texts.append("same")
            except CompileError as error:
                texts.append(error.notes[1:])
        return texts

    everywhere(ranks(2, body), ["same", "same", "same", ("rank 0: even", "rank 1: odd"), "same", "same"])


def test_very_long_texts(monkeypatch):
    monkeypatch.setattr(agreement, "_TEXT_LIMIT", 1000)
    noise = "\n".join(str(hash((k, "x")) ** 3) for k in range(5000))
    text = ranks(2, lambda r, a: a.same("plan", f"first {r}\n{noise}"))
    everywhere(
        text,
        f"plan differs between ranks: rank 1 against rank 0. {TOGETHER}\n  first difference, line 1:\n  rank 0: first 0\n  rank 1: first 1",
    )
    text = ranks(2, lambda r, a: a.same("plan", f"{noise}\nlast {r}"))
    everywhere(text, f"plan differs between ranks: rank 1 against rank 0. {TOGETHER}\n  (the texts of the two ranks could not be compared)")


def test_ranks_at_different_steps():
    text = ranks(3, lambda r, a: a.same("plan" if r else "parameters", "x"))
    everywhere(text, f"ranks are at different steps of the compilation: ranks 1, 2 at 'plan'; rank 0 at 'parameters'. {TOGETHER}")


@pytest.mark.parametrize("missing", [0, 2])
def test_a_missing_rank_is_named_in_time(monkeypatch, missing):
    monkeypatch.setattr(agreement, "_GRACE", 0.5)
    start = time.monotonic()
    texts = ranks(3, lambda r, a: "stayed away" if r == missing else a.same("plan", "x"), timeout=0.5)
    present = ", ".join(str(r) for r in range(3) if r != missing)
    assert time.monotonic() - start < 3
    told = (
        f"rank {missing} did not come within 0.5 s to compare 'plan' with ranks {present}. Look at the output of the missing ranks. A rank "
        "that runs a graph it compiled before does not come here: all ranks must compile, and compile again, together."
    )
    assert texts == ["stayed away" if r == missing else told for r in range(3)]


def test_a_late_rank_learns_that_the_others_gave_up_and_all_are_in_step_again():
    def body(r, a):
        if r == 1:
            time.sleep(0.7)
        with pytest.raises(CompileError, match=r"rank 1 did not come within 0\.3 s to compare 'plan' with rank 0\."):
            a.same("plan", "x")
        a.timeout = 5
        a.same("plan", "y")
        return "in step"

    everywhere(ranks(2, body, timeout=0.3), "in step")


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_rank_stops_the_others_at_once(failing):
    def body(r, a):
        start = time.monotonic()
        if r == failing:
            time.sleep(0.2)
        with pytest.raises(RuntimeError) as raised, a.guard():
            if r == failing:
                raise CompileError("dim 1 is data dependent", op="aten.nonzero", location="model.py:7")
            a.same("plan", "x")
        assert time.monotonic() - start < 2
        a.same("next", "compile")  # in step again, although one rank failed by itself and the others in `same`
        return str(raised.value)

    texts = ranks(3, body, timeout=30)
    own = "aten.nonzero (model.py:7): dim 1 is data dependent."
    told = f"rank {failing} failed: CompileError: {own} The other ranks stopped with it: fix the error of rank {failing}."
    assert texts == [own if r == failing else told for r in range(3)]


def test_all_ranks_fail_alike():
    def body(r, a):
        with pytest.raises(ValueError, match="no sequence"), a.guard():
            raise ValueError("no sequence")
        a.same("next", "compile")
        return "in step"

    everywhere(ranks(3, body), "in step")


def test_a_rank_that_fails_between_two_comparisons():
    def body(r, a):
        with pytest.raises(RuntimeError) as raised, a.guard():
            a.same("plan", "x")
            if r == 1:
                raise RuntimeError("no compiler found")
            a.same("collectives", "y")
        return str(raised.value)

    told = "rank 1 failed: RuntimeError: no compiler found. The other ranks stopped with it: fix the error of rank 1."
    assert ranks(2, body, timeout=30) == [told, "no compiler found"]


def test_pairs():
    table = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]  # table[i][j]: rows from i to j

    def body(r, a, wrong=None):
        sends = [f"forward 0 {table[r][j]}\nforward 1 9" for j in range(3)]
        receives = [f"forward 0 {table[i][r]}\nforward 1 {8 if (i, r) == wrong else 9}" for i in range(3)]
        a.paired("splits", sends, receives)
        return "paired"

    everywhere(ranks(3, body), "paired")
    text = ranks(3, lambda r, a: body(r, a, wrong=(2, 1)))
    everywhere(
        text,
        f"splits: what rank 2 sends to rank 1 is not what rank 1 expects. {TOGETHER}\n  first difference, line 2:\n"
        "  rank 2 sends: forward 1 9\n  rank 1 expects: forward 1 8",
    )
    with pytest.raises(ValueError, match="splits: 1 send and 2 receive texts for a group of 3"):
        Agreement(dist.HashStore(), range(3), 0, "p").paired("splits", ["a"], ["a", "b"])


def test_one_rank_needs_no_store():
    a = Agreement.alone()
    a.same("plan", "x")
    a.paired("splits", ["1"], ["1"])
    a.ready()
    a.fail("nobody listens")
    with pytest.raises(KeyError), a.guard():
        raise KeyError("x")


def test_a_rank_outside_the_group():
    with pytest.raises(
        CompileError, match=r"rank 5 is not in the group of ranks 0, 1\. Call autosp.compile on the ranks of the mesh only\."
    ):
        Agreement(dist.HashStore(), (0, 1), 5)


def test_no_process_group():
    message = r"torch.distributed is not initialised\. Call torch.distributed.init_process_group before autosp.compile\."
    with pytest.raises(CompileError, match=message):
        Agreement.of()


def test_keys_are_cleaned_up():
    store = dist.HashStore()

    def body(r, a):
        for _ in range(30):
            a.same("plan", "x")
        for k in range(3):
            with pytest.raises(CompileError):
                a.same("plan", str(r * k) if k else f"{r} first")
        a.same("plan", "y")
        a.same("plan", "z")

    everywhere(ranks(3, body, store=store), None)
    assert store.num_keys() <= 8  # one slot, and nothing of the 34 before it


def test_a_store_that_is_gone():
    class Gone:
        def __init__(self, *_):
            pass

        def set(self, *_):
            raise dist.DistNetworkError("Connection reset by peer")

    a = Agreement(dist.HashStore(), (0, 1), 1, "gone")
    a._store = Gone()
    with pytest.raises(CompileError) as raised:
        a.same("plan", "x")
    assert str(raised.value) == (
        "the store of the process group cannot be reached while the ranks compare 'plan' (Connection reset by peer). "
        "The process that hosts it (usually rank 0) has ended: look at its output for the first error."
    )
    a.fail("does not raise")


def test_cost(capsys):
    def body(r, a):
        start = time.perf_counter()
        for _ in range(50):
            a.same("plan", "x" * 100000)
        return (time.perf_counter() - start) / 50

    seconds = max(ranks(2, body))
    with capsys.disabled():
        print(f"\nAgreement.same of 100 kB, 2 ranks, store in memory: {seconds * 1e3:.2f} ms")
    assert seconds < 0.2


# ---- gloo ranks


def model(rank, change=None):
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2, bias=False))
    if change and rank == 1:
        with torch.no_grad():
            change(m)
    return m


def last_bit(m):
    m[2].weight.view(torch.int32)[1, 2] ^= 1


def count(m):
    m[1].num_batches_tracked += 1


def freeze(m):
    m[0].weight.requires_grad_(False)


def report(fn):
    try:
        return fn() or "agreed"
    except CompileError as error:
        return str(error)


def on_gloo(rank, world):
    a = Agreement.of(timeout=20)
    out = {}
    for k in range(3):
        a.same("plan", f"plan {k}")
    out["first"] = report(lambda: a.same("plan", f"op\nrank {rank}"))
    out["later"] = report(lambda: a.same("plan", "equal again"))
    for change in (None, last_bit, count, freeze):
        out[getattr(change, "__name__", "none")] = report(lambda change=change: parameters_agree(model(rank, change), a))
    signed = model(rank)
    signed[0].bias.data.zero_()
    if rank == 1:
        signed[0].bias.data.neg_()
    out["signed zero"] = report(lambda: parameters_agree(signed, a))
    sub = dist.new_group([0, 1])
    if rank < 2:
        out["sub"] = report(lambda: Agreement.of(sub, timeout=20).same("plan", str(rank)))
        out["sub again"] = report(lambda: Agreement.of(sub, timeout=20).same("plan", "x"))
    out["end"] = report(a.ready)
    return out


def test_on_gloo_ranks(spawn):
    results = spawn(3, on_gloo, timeout=90)
    for out in results:
        assert out["first"].startswith("plan differs between ranks: ranks 1, 2 against rank 0. ")
        assert out["first"].endswith("first difference, line 2:\n  rank 0: rank 0\n  rank 1: rank 1")
        assert out["later"] == out["none"] == out["end"] == "agreed"
        head = "parameters or buffers differ between ranks: rank 1 against ranks 0, 2. Build the model from the same seed"
        for change, line in [
            ("last_bit", "2.weight float32[2, 3] grad"),
            ("count", "1.num_batches_tracked int64[] fixed"),
            ("freeze", "0.weight float32[3, 4] "),
            ("signed zero", "0.bias float32[3] grad"),
        ]:
            assert out[change].startswith(head)
            assert re.search(rf"first difference, line \d:\n  rank 0: {re.escape(line)}.*\n  rank 1: {re.escape(line)}", out[change]), out[
                change
            ]
        assert out["first"] == results[0]["first"]
    for out in results[:2]:
        assert out["sub"].startswith("plan differs between ranks: rank 1 against rank 0.")
        assert out["sub again"] == "agreed"


def one_fails_to_compile(rank, world):
    """A compile step on each rank; rank 1 fails in it. Nobody may reach the collective, or it would hang."""
    a = Agreement.of(timeout=30)
    start = time.monotonic()
    try:
        with a.guard():
            a.same("plan", "equal")
            if rank == 1:
                raise NotImplementedError("aten.sort has no rule")
            a.ready()
            dist.barrier()
    except (CompileError, NotImplementedError) as error:
        return str(error), time.monotonic() - start
    return "no error", 0


def test_a_rank_that_fails_to_compile_on_gloo(spawn):
    (other, t0), (own, t1) = spawn(2, one_fails_to_compile, timeout=60)
    assert own == "aten.sort has no rule"
    assert other == "rank 1 failed: NotImplementedError: aten.sort has no rule. The other ranks stopped with it: fix the error of rank 1."
    assert max(t0, t1) < 10


def one_does_not_come(rank, world):
    if rank == 1:
        time.sleep(4)
        return "ran a graph it had"
    start = time.monotonic()
    return report(lambda: Agreement.of(timeout=1).same("plan", "x")), time.monotonic() - start


def test_a_rank_that_does_not_come_on_gloo(spawn):
    (text, seconds), other = spawn(2, one_does_not_come, timeout=60)
    assert text.startswith("rank 1 did not come within 1 s to compare 'plan' with rank 0. Look at the output of the missing ranks.")
    assert seconds < 3
    assert other == "ran a graph it had"


def tcp_store_protocol(rank, world):
    """The same protocol over a TCP store, which torchrun uses."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, world, True, wait_for_workers=False)
        box = [store.port]
    else:
        box = [None]
    dist.broadcast_object_list(box)
    if rank:
        store = dist.TCPStore("127.0.0.1", box[0], world, False)
    a = Agreement(store, range(world), rank, "tcp", 20)
    for k in range(5):
        a.same("plan", str(k))
    text = report(lambda: a.same("plan", f"equal\n{'x' if rank else 'y'}"))
    a.same("plan", "again")
    start = time.perf_counter()
    for _ in range(20):
        a.same("plan", "x")
    seconds = (time.perf_counter() - start) / 20
    keys = store.num_keys()
    dist.barrier()
    return text, seconds, keys


def test_over_a_tcp_store(spawn, capsys):
    results = spawn(2, tcp_store_protocol, timeout=60)
    for text, _, keys in results:
        assert text.endswith("first difference, line 2:\n  rank 0: y\n  rank 1: x")
        assert keys <= 8
    with capsys.disabled():
        print(f"\nAgreement.same, 2 ranks, TCP store: {max(r[1] for r in results) * 1e3:.2f} ms")
