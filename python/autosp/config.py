"""The options of `autosp.compile`: one frozen dataclass, checked when it is built.

Options arrive as Python values or as text (`{"fullgraph": "False"}`); text is read by the type of its field. An unknown name is refused
with the nearest one, a wrong value with the values that exist. An option whose part is not built accepts its one meaning and refuses
every other *by name*, so a program never runs with something it did not ask for. All refusals are `CompileError`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import CompileError

# What each option that is a word may say: (accepted now, known but not built yet).
_WORDS = {
    "inner": (("inductor", "aot_eager", "eager"), ()),
    "objective": (("memory", "time"), ()),
    "gradients": (("reduced", "partial"), ()),
    "outputs": (("auto", "whole"), ()),
    "attention": (("auto", "ulysses"), ("gather", "ring", "2d:UxR")),
    "checkpoint": (("sac", "stock", "full"), ()),
    "check_inputs": (("always", "shapes", "off"), ()),
    "on_unsupported": (("replicate", "error"), ()),
}
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_BUDGET_FORMS = '"40GiB" (units ' + ", ".join(_UNITS) + ') or "60%" of the stock plan\'s peak'


class MemoryBudget(NamedTuple):
    """Peak bytes allowed per rank (`nbytes`), or a share of the stock plan's peak (`fraction`, in (0, 1]). One of the two is None."""

    nbytes: int | None
    fraction: float | None


@dataclass(frozen=True)
class Options:
    """Options of `autosp.compile(model, mesh, **options)`. The same on every rank: their text is compared at each compile.

    inner           what compiles the local graph: "inductor" | "aot_eager" | "eager"
    sequence_dims   "auto", or input name -> its sequence dim; as text "input_ids:1,labels:1"
    objective       "memory": whatever carries the sequence is cut, then the fastest such plan | "time": every form is allowed and priced
    gradients       "reduced": .grad is the whole gradient on every rank | "partial": left for DDP over dp x sp to average
    outputs         "auto": float outputs left sharded come back as DTensor when the graph also returns a scalar loss, else whole | "whole"
    attention       "auto" | "ulysses" (the same while no other way is built)
    checkpoint      what the forward saves for the backward. "sac": attention, random ops and collectives run once, linears and what lies
                    between them are run again | "stock": torch's own choice | "full": the inputs of the layers only
    memory_budget   None, or what a step may allocate on a rank beyond parameters and inputs: "40GiB", or "60%" of the stock plan's peak.
                    The fastest plan whose simulated peak fits is taken, whatever `checkpoint` says
    machine         None: the default cost table (no other is built)
    check_inputs    "always": shapes and the contents of integer inputs are compared over the ranks at every call | "shapes": without the
                    contents | "off": ranks with different inputs may hang, or train on a mixture
    on_unsupported  an op without a rule: "replicate" makes its operands whole and says so | "error" refuses
    fullgraph       True: a graph break is an error | False: values crossing a break are made whole, with a warning
    dynamic         False: one compile per length (True is not built)

    Building one raises CompileError for a value that is not accepted; it names the option and the values that are.
    """

    inner: str = "inductor"
    sequence_dims: str | dict[str, int] = field(default="auto", hash=False)
    objective: str = "memory"
    gradients: str = "reduced"
    outputs: str = "auto"
    attention: str = "auto"
    checkpoint: str = "sac"
    memory_budget: MemoryBudget | None = None
    machine: str | None = None
    check_inputs: str = "always"
    on_unsupported: str = "replicate"
    fullgraph: bool = True
    dynamic: bool = False

    def __post_init__(self):
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, _read(f.name, getattr(self, f.name)))
        asked = "memory_budget" if self.memory_budget is not None else f'checkpoint="{self.checkpoint}"'
        if self.inner == "eager" and (self.memory_budget is not None or self.checkpoint == "full"):
            raise CompileError(
                f'option {asked} does nothing with inner="eager", where eager autograd saves what it needs',
                remedy='Use inner="aot_eager" or "inductor"',
            )

    @classmethod
    def parse(cls, mapping: Mapping[str, Any] | None = None) -> Options:
        """Options from names and values (or their texts). Raises CompileError for an unknown name or a value that is not accepted."""
        names = [f.name for f in dataclasses.fields(cls)]
        for name in mapping or {}:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
                raise CompileError(
                    f"there is no option {name!r}", remedy=(f"Did you mean {near[0]!r}? " if near else "") + "Options: " + ", ".join(names)
                )
        return cls(**(mapping or {}))

    def text(self) -> str:
        """One `name=value` line per option, in a fixed order: what ranks compare."""
        return "\n".join(f"{f.name}={_canonical(getattr(self, f.name))}" for f in dataclasses.fields(self))


def _canonical(value) -> str:
    return ",".join(f"{k}:{v}" for k, v in sorted(value.items())) if isinstance(value, dict) else str(value)


def _read(name: str, value):
    if name in _WORDS:
        return _word(name, value)
    if name in ("fullgraph", "dynamic"):
        flag = _flag(name, value)
        if name == "dynamic" and flag:
            raise _not_built(name, "True", ("False",), "Each new length is compiled once")
        return flag
    if name == "sequence_dims":
        return _sequence_dims(value)
    if isinstance(value, str) and value.strip().lower() in ("none", ""):
        value = None
    if name == "memory_budget":
        return None if value is None else parse_memory_budget(value)
    if name == "machine" and value is not None:
        raise _not_built(name, repr(value), ("None",), "Only the default cost table exists")
    return value


def _not_built(name: str, value: str, accepted, why: str = "") -> CompileError:
    return CompileError(
        f"option {name}={value} is not built yet" + (f". {why}" if why else ""), remedy=f"Accepted today: {', '.join(accepted)}"
    )


def _wrong(name: str, value, allowed: str) -> CompileError:
    return CompileError(f"option {name}={value!r} is not a value it can have", remedy=f"Allowed: {allowed}")


def _word(name: str, value) -> str:
    accepted, later = _WORDS[name]
    listed = tuple(f'"{w}"' for w in accepted)
    if isinstance(value, str):
        word = value.strip()
        if word in accepted:
            return word
        if word in later or (name == "attention" and re.fullmatch(r"2d:\d+x\d+", word)):
            raise _not_built(name, f'"{word}"', listed)
        near = difflib.get_close_matches(word, accepted, n=1)
        if near:
            raise CompileError(
                f"option {name}={value!r} is not a value it can have", remedy=f'Did you mean "{near[0]}"? Allowed: {", ".join(listed)}'
            )
    raise _wrong(name, value, ", ".join(listed))


def _flag(name: str, value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE + _FALSE:
        return value.strip().lower() in _TRUE
    raise _wrong(name, value, "True, False, or as text " + ", ".join(_TRUE + _FALSE))


def _sequence_dims(value):
    form = '"auto", or input name -> dim, as a dict or as text "input_ids:1,labels:1"'
    if isinstance(value, str):
        if value.strip() == "auto":
            return "auto"
        pairs = []
        for part in filter(None, (p.strip() for p in value.split(","))):
            m = re.fullmatch(r"([A-Za-z_][\w.]*)\s*:\s*(-?\d+)", part)
            if not m:
                raise _wrong("sequence_dims", value, form)
            pairs.append((m[1], int(m[2])))
        if len({n for n, _ in pairs}) != len(pairs):
            raise CompileError(f"option sequence_dims={value!r} names an input twice", remedy="Give each input one dim")
        value = dict(pairs)
    elif not isinstance(value, Mapping):
        raise _wrong("sequence_dims", value, form)
    if not value or any(not isinstance(k, str) or isinstance(v, bool) or not isinstance(v, int) for k, v in value.items()):
        raise _wrong("sequence_dims", dict(value), form)
    return dict(value)


def parse_memory_budget(value) -> MemoryBudget:
    """ "40GiB" -> bytes, "60%" -> a fraction of the stock plan's peak. CompileError for a bare number, which may mean either, an unknown
    unit, a share outside (0%, 100%], or less than a byte."""
    if isinstance(value, MemoryBudget):
        return value
    m = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+|%)\s*", value) if isinstance(value, str) else None
    if not m:
        needs = (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            or isinstance(value, str)
            and re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value)
        )
        if needs:
            raise CompileError(f"option memory_budget={value!r} has no unit", remedy=f"Write {_BUDGET_FORMS}")
        raise _wrong("memory_budget", value, _BUDGET_FORMS + ", or None")
    number, unit = float(m[1]), m[2]
    if unit == "%":
        if not 0 < number <= 100:
            raise _wrong("memory_budget", value, "a share above 0% and up to 100%")
        return MemoryBudget(None, number / 100)
    scale = {u.lower(): n for u, n in _UNITS.items()}.get(unit.lower())
    if scale is None:
        raise CompileError(f"option memory_budget={value!r} has the unknown unit {unit!r}", remedy=f"Write {_BUDGET_FORMS}")
    if number * scale < 1:
        raise _wrong("memory_budget", value, "a positive number of bytes")
    return MemoryBudget(int(number * scale), None)
