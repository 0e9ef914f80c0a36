"""Ranks agree, or every one of them stops with the same error. Nothing here waits without a limit.

Comparisons at compile time go through the process group's *store*, never through a collective that a rank with a graph compiled before
would not enter. Each comparison takes the group's next slot:

    {slot}/{rank}   what the rank brings: the key and a digest         -> the first rank judges when all are there
    {slot}/v        the verdict, written once (the first writer wins)  -> every rank waits for this one key only
    {slot}/t/{i}    texts, asked for only when digests differ          {slot}/m  the message made of them
    {slot}/a        how many ranks have read the message

A rank that fails writes the verdict of its next slot itself, so the ranks that come there stop at once and all are in step again. Per
comparison a rank writes tens of bytes and reads one key; a rank deletes its keys once a later verdict shows that all have moved on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import torch_compat
from .content_hash import bit_hashes
from .errors import CompileError

COMPILE_TIMEOUT = 120.0  # seconds a rank waits for the others: the slowest compile minus the fastest must fit
_GRACE = 2.0  # seconds the other ranks give the judge beyond the time-out, so that its verdict is the one they report
_DETAIL_TIMEOUT = 30.0  # seconds for the texts of two ranks that have already arrived
_LINGER = 2.0  # seconds the judge keeps its process (it may host the store) for the others to read the message
_TEXT_LIMIT = 4 << 20  # bytes of compressed text in one key: c10d's TCP store refuses values above 8 MiB
_TOGETHER = "All ranks of the group must compile the same model with the same options, inputs and versions of torch and autosp"
_MISSING = (
    "Look at the output of the missing ranks. A rank that runs a graph it compiled before does not come here: "
    "all ranks must compile, and compile again, together"
)

_next_slot: dict[tuple[str, int], int] = defaultdict(int)  # per group and rank: survives the Agreement object, so slots never repeat


class Agreement:
    """Comparisons among `ranks` (global ranks, the first one judges) through `store`; `me` is this process's global rank.

    `name` must be the same on all of them and no other group's. With one rank every comparison holds and no store is needed.
    Every method that compares must be called by all ranks in the same order; a rank that does not come is named after `timeout` seconds.
    """

    def __init__(self, store, ranks: Sequence[int], me: int, name: str = "default", timeout: float = COMPILE_TIMEOUT):
        self.ranks, self.me, self.name, self.timeout = tuple(ranks), me, name, float(timeout)
        if me not in self.ranks:
            raise CompileError(
                f"rank {me} is not in the group of ranks {_listed(self.ranks)}", remedy="Call autosp.compile on the ranks of the mesh only"
            )
        digest = hashlib.blake2b(",".join(map(str, self.ranks)).encode(), digest_size=6).hexdigest()
        self._prefix = f"autosp/{name}/{digest}"
        self._store: Any = dist.PrefixStore(self._prefix, store) if len(self.ranks) > 1 else None
        self._stale: list[str] = []  # keys this rank deletes when all ranks have passed them

    @classmethod
    def of(cls, group=None, timeout: float = COMPILE_TIMEOUT) -> Agreement:
        """Bound to a process group (None: the default one) and the default store."""
        if not dist.is_initialized():
            raise CompileError(
                "torch.distributed is not initialised", remedy="Call torch.distributed.init_process_group before autosp.compile"
            )
        group = group if group is not None else dist.group.WORLD
        ranks = dist.get_process_group_ranks(group)
        store = torch_compat.default_store() if len(ranks) > 1 else None
        return cls(store, ranks, dist.get_rank(), torch_compat.group_name(group), timeout)

    @classmethod
    def alone(cls) -> Agreement:
        """One rank agreeing with itself: sp = 1, and ranks run in lock step in one process."""
        return cls(None, (0,), 0)

    # ---- what ranks compare

    def same(self, key: str, payload: str | bytes, *, found: str | None = None, remedy: str = _TOGETHER) -> None:
        """CompileError on every rank unless all bring the same `payload`; it names the ranks that differ and the first differing line.

        `key` says what is compared ("plan"); `found` replaces "{key} differs between ranks" in the message.
        """
        text = payload if isinstance(payload, str) else payload.decode("utf-8", "replace")
        raw = payload.encode() if isinstance(payload, str) else payload

        def judge(brought: Mapping[int, bytes]):
            groups = _groups(brought)
            if len(groups) == 1:
                return None
            (_, most), (_, others) = groups[0], groups[1]
            odd = sorted(r for _, rs in groups[1:] for r in rs)
            what = f"{found or key + ' differs between ranks'}: {_named(odd)} against {_named(most)}"
            a, b = most[0], others[0]
            return [(a, ""), (b, "")], lambda texts: CompileError(what, remedy=remedy, notes=_first_difference(a, texts[0], b, texts[1]))

        self._round(key, hashlib.blake2b(raw, digest_size=16).digest(), judge, lambda item: text)

    def paired(self, key: str, sends: Sequence[str], receives: Sequence[str], *, remedy: str = _TOGETHER) -> None:
        """CompileError on every rank unless what rank i sends to rank j is what j expects from i, for every pair.

        `sends[j]` and `receives[j]`: text about the j-th rank of the group, one line per message, in order.
        """
        n = len(self.ranks)
        if len(sends) != n or len(receives) != n:
            raise ValueError(f"{key}: {len(sends)} send and {len(receives)} receive texts for a group of {n}")
        summary = b"".join(hashlib.blake2b(t.encode(), digest_size=8).digest() for t in (*sends, *receives))

        def judge(brought: Mapping[int, bytes]):
            cells = {r: [b[k : k + 8] for k in range(0, len(b), 8)] for r, b in brought.items()}
            for i, src in enumerate(self.ranks):
                for j, dst in enumerate(self.ranks):
                    if cells[src][j] != cells[dst][n + i]:
                        what = f"{key}: what rank {src} sends to rank {dst} is not what rank {dst} expects"

                        def compose(texts, src=src, dst=dst, what=what):
                            return CompileError(
                                what, remedy=remedy, notes=_first_difference(src, texts[0], dst, texts[1], (" sends", " expects"))
                            )

                        return [(src, f"send {j}"), (dst, f"receive {i}")], compose
            return None

        def detail(item: str) -> str:
            side, k = item.split()
            return (sends if side == "send" else receives)[int(k)]

        self._round(key, summary, judge, detail)

    def alike(self, key: str, payload: str) -> bool:
        """Whether all ranks bring the same `payload`; the same answer on every rank."""
        digest = hashlib.blake2b(payload.encode(), digest_size=16).digest()
        _, verdict = self._round(key, digest, lambda brought: None, str, lambda brought: len(set(brought.values())) == 1)
        return verdict.get("said", True)

    def first(self, key: str, payload: str) -> str:
        """The `payload` that the group's first rank brings, on every rank."""
        slot, _ = self._round(key, _pack(payload) if self.me == self.ranks[0] else b"", lambda brought: None, str)
        if self.me == self.ranks[0]:
            return payload
        # Still there: its rank deletes it after a later comparison, to which this rank comes after reading.
        return _unpack(self._store.get(f"{slot}/{self.ranks[0]}").partition(b"\n")[2])

    def ready(self, key: str = "compiled") -> None:
        """Every rank has come this far: call it after the last step that can fail and before the first collective."""
        self.same(key, "")

    def fail(self, message: str) -> None:
        """Tell the others that this rank failed: they raise at their next comparison, at once. Does not raise, does not wait."""
        if self._store is None:
            return
        slot = self._take_slot()
        with contextlib.suppress(Exception):  # the failure being reported matters more than a store that is gone
            remedy = f"The other ranks stopped with it: fix the error of rank {self.me}"
            self._write_verdict(slot, _failed(f"rank {self.me} failed: {message}", remedy))

    @contextlib.contextmanager
    def guard(self):
        """A block that all ranks run alike: an error inside it that the others do not share already is published by `fail`."""
        try:
            yield self
        except BaseException as error:
            if not getattr(error, "agreed", False):
                self.fail(f"{type(error).__name__}: {error}")
            raise

    # ---- one slot

    def _round(
        self, key: str, summary: bytes, judge: Callable, detail: Callable[[str], str], say: Callable | None = None
    ) -> tuple[int, dict]:
        """(slot, verdict) of a comparison that holds; say(brought): what the verdict tells beyond that."""
        if self._store is None:
            return 0, {}
        slot = self._take_slot()
        try:
            self._store.set(f"{slot}/{self.me}", key.encode() + b"\n" + summary)
            self._stale.append(f"{slot}/{self.me}")
            compose = None
            if self.me == self.ranks[0]:
                verdict, compose = self._judge(slot, key, judge, say)
            else:
                verdict = self._wait(slot, [f"{slot}/v"], self.timeout + _GRACE) or self._time_out(slot, key)
            if verdict["kind"] == "differ":
                raise self._difference(slot, key, verdict, compose, detail)
            if verdict["kind"] != "ok":
                raise CompileError(**verdict["error"], agreed=True)
            for old in [k for k in self._stale if not k.startswith(f"{slot}/")]:
                self._store.delete_key(old)
            self._stale = [k for k in self._stale if k.startswith(f"{slot}/")]
            return slot, verdict
        except RuntimeError as error:
            if isinstance(error, CompileError):
                raise
            raise CompileError(
                f"the store of the process group cannot be reached while the ranks compare '{key}' ({' '.join(str(error).split())[:200]})",
                remedy=f"The process that hosts it (usually rank {self.ranks[0]}) has ended: look at its output for the first error",
                agreed=True,
            ) from error

    def _judge(self, slot: int, key: str, judge: Callable, say: Callable | None):
        """The first rank: wait for all, compare, write the verdict. Returns it and the composer of a difference's message."""
        verdict = self._wait(slot, [f"{slot}/{r}" for r in self.ranks], self.timeout)
        if verdict is None:
            return self._time_out(slot, key), None
        if verdict["kind"] != "arrived":
            return verdict, None
        keys, brought = {}, {}
        for r in self.ranks:
            name, _, brought[r] = self._store.get(f"{slot}/{r}").partition(b"\n")
            keys[r] = name
        self._stale.append(f"{slot}/v")
        compose = None
        if len(set(keys.values())) > 1:
            groups = [(k.decode(), rs) for k, rs in _groups(keys)]
            where = "; ".join(f"{_named(rs)} at '{k}'" for k, rs in groups)
            verdict = _failed(f"ranks are at different steps of the compilation: {where}", _TOGETHER)
        else:
            fault = judge(brought)
            verdict = {"kind": "ok"} if say is None else {"kind": "ok", "said": say(brought)}
            if fault:
                verdict, compose = {"kind": "differ", "items": fault[0]}, fault[1]
        return self._write_verdict(slot, verdict), compose

    def _difference(self, slot: int, key: str, verdict: dict, compose, detail) -> CompileError:
        """The error about a difference, the same on every rank: the texts asked for go to the first rank, the message comes back."""
        for i, (rank, item) in enumerate(verdict["items"]):
            if rank == self.me:
                self._store.set(f"{slot}/t/{i}", _pack(detail(item)))
        if compose is None:
            if self._poll(lambda: self._store.check([f"{slot}/m"]), 2 * _DETAIL_TIMEOUT):
                error = json.loads(self._store.get(f"{slot}/m"))
                self._store.add(f"{slot}/a", 1)
                return CompileError(**error, agreed=True)
            return CompileError(f"{key} differs between ranks", remedy=_TOGETHER, agreed=True)
        names = [f"{slot}/t/{i}" for i in range(len(verdict["items"]))]
        here = self._poll(lambda: self._store.check(names), _DETAIL_TIMEOUT)
        error = compose([_unpack(self._store.get(n)) if here else "" for n in names])
        self._store.set(f"{slot}/m", json.dumps({"found": error.found, "remedy": error.remedy, "notes": error.notes}))
        self._poll(lambda: self._store.add(f"{slot}/a", 0) >= len(self.ranks) - 1, _LINGER)
        self._stale += [*names, f"{slot}/m", f"{slot}/a"]
        return CompileError(error.found, remedy=error.remedy, notes=error.notes, agreed=True)

    def _wait(self, slot: int, keys: list[str], timeout: float) -> dict | None:
        """The verdict if there is one, {"kind": "arrived"} when all keys are there, None after `timeout` seconds."""
        v = f"{slot}/v"

        def look():
            if self._store.check([v]):
                return json.loads(self._store.get(v))
            return {"kind": "arrived"} if keys != [v] and self._store.check(keys) else None

        return self._poll(look, timeout)

    @staticmethod
    def _poll(look: Callable, timeout: float):
        deadline, pause = time.monotonic() + timeout, 0.0005
        while True:
            result = look()
            if result or time.monotonic() >= deadline:
                return result or None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def _time_out(self, slot: int, key: str) -> dict:
        missing = [r for r in self.ranks if not self._store.check([f"{slot}/{r}"])]
        if missing:
            present = [r for r in self.ranks if r not in missing]
            found = f"{_named(missing)} did not come within {self.timeout:g} s to compare '{key}' with {_named(present)}"
        else:
            found = f"rank {self.ranks[0]} came to compare '{key}' but gave no verdict within {self.timeout:g} s"
        return self._write_verdict(slot, _failed(found, _MISSING))

    def _write_verdict(self, slot: int, verdict: dict) -> dict:
        """Write it unless there is one already; the one that stands."""
        return json.loads(self._store.compare_set(f"{slot}/v", "", json.dumps(verdict)))

    def _take_slot(self) -> int:
        _next_slot[self._prefix, self.me] += 1
        return _next_slot[self._prefix, self.me]


def parameters_agree(module: torch.nn.Module, agreement: Agreement) -> None:
    """CompileError on every rank unless all parameters and buffers hold the same bits everywhere; it names the first that differs.

    A DTensor is held in parts, so only its global shape is compared; a meta tensor has no contents.
    """
    named = [*module.named_parameters(), *module.named_buffers()]
    local = [(n, t) for n, t in named if not hasattr(t, "to_local") and not t.is_meta]
    hashes = dict(zip((n for n, _ in local), bit_hashes([t for _, t in local]), strict=True))
    lines = [
        f"{n} {str(t.dtype).removeprefix('torch.')}{list(t.shape)} {'grad' if t.requires_grad else 'fixed'} "
        + (f"{hashes[n] & (2**64 - 1):016x}" if n in hashes else "whole tensor not held here")
        for n, t in named
    ]
    agreement.same(
        "parameters",
        "\n".join(lines),
        found="parameters or buffers differ between ranks",
        remedy="Build the model from the same seed or checkpoint on every rank, or broadcast it from one rank before autosp.compile",
    )


def _failed(found: str, remedy: str) -> dict:
    return {"kind": "failed", "error": {"found": found, "remedy": remedy}}


def _groups(brought: Mapping[int, bytes]) -> list[tuple[bytes, list[int]]]:
    """(value, ranks that bring it), the largest group first, then by lowest rank."""
    by = defaultdict(list)
    for r, value in brought.items():
        by[value].append(r)
    return sorted(((v, sorted(rs)) for v, rs in by.items()), key=lambda g: (-len(g[1]), g[1][0]))


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {_listed(ranks)}"


def _first_difference(a: int, text_a: str, b: int, text_b: str, verbs=("", "")) -> list[str]:
    lines_a, lines_b = text_a.splitlines(), text_b.splitlines()
    k = next((k for k, (x, y) in enumerate(zip(lines_a, lines_b, strict=False)) if x != y), min(len(lines_a), len(lines_b)))
    if k == max(len(lines_a), len(lines_b)):
        return ["(the texts of the two ranks could not be compared)"]
    shown = [lines[k][:400] if k < len(lines) else f"(ends after {len(lines)} lines)" for lines in (lines_a, lines_b)]
    return [f"first difference, line {k + 1}:", f"rank {a}{verbs[0]}: {shown[0]}", f"rank {b}{verbs[1]}: {shown[1]}"]


def _pack(text: str) -> bytes:
    data = zlib.compress(text.encode())
    while len(data) > _TEXT_LIMIT:
        text = text[: len(text) // 2]
        data = zlib.compress(text.encode())
    return data


def _unpack(data: bytes) -> str:
    return zlib.decompress(data).decode()
