"""Every call of a compiled model begins with one small collective: do all ranks pass the same inputs?

A rank with another shape would run another graph and the group would hang; a rank with other token ids would train on a mixture without
a word. So each rank contributes four 64-bit words: mode, hash of the shapes, hash of the contents of integer inputs, dropout seed. All
see all of them, so all find a difference at the same call, and all enter the second exchange that names the input. It comes before a
rank knows whether it will compile, recompile, or run a graph that it has, so it does not depend on that.

Cost, measured by tests/python/test_input_check.py (2 gloo ranks sharing 2 busy cores): for two inputs of 2 x 2048 ids, 2 x the bare
collective of four words and 0.001 x one step of a single MLP (256-1024-256) on those tokens; the hash adds about 4 ns per id.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import torch_compat
from .content_hash import bit_hashes
from .errors import CompileError

MODES = ("always", "shapes", "off")
_WORDS = 4
_REMEDY = (
    "Every rank of the sp group passes the same full batch: a sampler that deals out data must deal by the dp rank, not by the global rank"
)


class InputCheck:
    """The check at the beginning of every call, over `group` (None: the default group).

    mode     "always": shapes, dtypes, Python scalars, grad mode, autocast, and the contents of integer and bool tensors; "shapes": all of
             it but the contents; "off": nothing is compared, and there is no collective unless a seed travels. The same on every rank.
    forward  the model's forward: gives positional arguments their names, so `f(ids)` and `f(input_ids=ids)` agree
    device   where the words travel: the group's device ("cpu" for gloo, "cuda" for NCCL; there the host waits for the result)
    """

    def __init__(self, group=None, mode: str = "always", forward=None, device: str | torch.device = "cpu"):
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is not one of {MODES}")
        self.group = group if group is not None else dist.group.WORLD
        self.ranks = dist.get_process_group_ranks(self.group)
        self.mode, self.device = mode, torch.device(device)
        self._names = _positional_names(forward) if forward is not None else ()
        self._every = torch.empty(len(self.ranks) * _WORDS, dtype=torch.int64, device=self.device)

    def check(self, args: Sequence = (), kwargs: Mapping | None = None, *, seed: int | None = None, state: str = "") -> int | None:
        """Compare this call's inputs over the group; returns the first rank's `seed` (None if this rank gave none).

        `state`: whatever else decides which graph runs ("training"). Whether a seed is given must not depend on the rank.
        Raises CompileError on every rank when ranks differ.
        """
        if len(self.ranks) == 1 or (self.mode == "off" and seed is None):
            return seed
        named = list(self._named(args, kwargs or {})) if self.mode != "off" else []
        signature = [f"{name}\t{_signature(value)}" for name, value in named] + [f"state\t{state} {_global_state()}"]
        watched = [(name, v) for name, v in named if self.mode == "always" and _has_ids(v)]
        hashes = bit_hashes([v for _, v in watched])
        mine = [
            _mode_word(self.mode),
            _hash64("\n".join(signature)) if self.mode != "off" else 0,
            _hash64(",".join(map(str, hashes))) if hashes else 0,
            seed or 0,
        ]
        torch_compat.all_gather(self._every, torch.tensor(mine, dtype=torch.int64, device=self.device), self.group)
        every = self._every.tolist()
        rows = [every[k : k + _WORDS] for k in range(0, len(every), _WORDS)]
        if any(r[:3] != rows[0][:3] for r in rows):
            self._explain(rows, signature, {name: h for (name, _), h in zip(watched, hashes, strict=True)})
        return None if seed is None else rows[0][3]

    def _named(self, args: Sequence, kwargs: Mapping) -> Iterator[tuple[str, Any]]:
        """Leaves of the inputs by name, in the order of the names: the order in which keywords are given does not matter."""
        given = dict(kwargs)
        for k, value in enumerate(args):
            given[self._names[k] if k < len(self._names) else f"args[{k}]"] = value
        for name in sorted(given):
            yield from _leaves(name, given[name])

    def _explain(self, rows: list[list[int]], signature: list[str], contents: dict[str, int]) -> None:
        """All ranks come here, for all have seen the same rows."""
        if len({r[0] for r in rows}) > 1:
            raise CompileError(
                "check_inputs differs between ranks: "
                + "; ".join(f"{_named_ranks(rs)} {_mode_name(w)}" for w, rs in _by_value(self.ranks, [r[0] for r in rows])),
                remedy="Give the same options on every rank",
                agreed=True,
            )
        every: list = [None] * len(self.ranks)
        dist.all_gather_object(every, (signature, contents), group=self.group)
        column = 1 if len({r[1] for r in rows}) > 1 else 2
        groups = _by_value(self.ranks, [r[column] for r in rows])
        most, odd = groups[0][1], sorted(r for _, rs in groups[1:] for r in rs)
        a, b = most[0], groups[1][1][0]
        (sig_a, con_a), (sig_b, con_b) = every[self.ranks.index(a)], every[self.ranks.index(b)]
        if column == 1:
            table_a, table_b = (dict(line.partition("\t")[::2] for line in sig) for sig in (sig_a, sig_b))
            names = [n for n in (*table_a, *(n for n in table_b if n not in table_a)) if table_a.get(n) != table_b.get(n)]
            notes = [
                f"{n}: rank {a} {table_a.get(n, 'does not pass it')[:200]}, rank {b} {table_b.get(n, 'does not pass it')[:200]}"
                for n in names[:8]
            ]
            what = "shapes, dtypes, scalars or modes of the inputs"
        else:
            names = [n for n in con_a if con_a[n] != con_b.get(n)]
            notes = [f"{n}: same shape, other contents on rank {b} than on rank {a}" for n in names[:8]]
            what = "contents of the inputs"
        raise CompileError(
            f"{what} differ between ranks: {_named_ranks(odd)} against {_named_ranks(most)} ({', '.join(names[:8])})",
            remedy=_REMEDY,
            notes=notes,
            agreed=True,
        )


def _positional_names(forward) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in inspect.signature(forward).parameters.values() if p.kind in kinds)


def _leaves(name: str, value) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(f"{name}.{key}", value[key])
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        yield f"{name}.len", len(value)
        for k, item in enumerate(value):
            yield from _leaves(f"{name}[{k}]", item)
    else:
        yield name, value


def _signature(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} {value.device.type}{' grad' if value.requires_grad else ''}"
    if value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.Size)):
        return repr(value)
    return f"object of {type(value).__qualname__}"


def _has_ids(value) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and not (value.is_floating_point() or value.is_complex())
        and not hasattr(value, "to_local")
        and not value.is_meta
    )


def _global_state() -> str:
    casts = [f"{kind} autocast {torch.get_autocast_dtype(kind)}" for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return " ".join(["grad" if torch.is_grad_enabled() else "no_grad", *casts])


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _mode_word(mode: str) -> int:
    return MODES.index(mode) + 1


def _mode_name(word: int) -> str:
    return f'"{MODES[word - 1]}"' if 1 <= word <= len(MODES) else "unknown"


def _by_value(ranks: Sequence[int], values: Sequence[int]) -> list[tuple[int, list[int]]]:
    groups: dict[int, list[int]] = {}
    for r, v in zip(ranks, values, strict=True):
        groups.setdefault(v, []).append(r)
    return sorted(groups.items(), key=lambda g: (-len(g[1]), g[1][0]))


def _named_ranks(ranks: Sequence[int]) -> str:
    return (
        f"rank{'s' if len(ranks) != 1 else ''} "
        + ", ".join(map(str, ranks[:8]))
        + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    )
