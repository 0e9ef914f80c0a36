"""The two exceptions of autosp, by who is at fault.

`CompileError`: the model, the options, the inputs or the set-up; its text says what was found, where, and what to do.
`InternalError`: autosp itself; it carries what is needed to report it.

Layout of a CompileError, fixed so that tests and logs may rely on it::

    {op} ({location}): {found}. {remedy}
      {note}

The part before the colon is absent where neither op nor location is known, the remedy where there is none; each note is a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence


class CompileError(RuntimeError):
    """The program cannot be compiled, or the ranks do not agree. Fields: `found`, `op`, `location` ("model.py:88"), `remedy`, `notes`.

    `agreed` is True where every rank of the group raises this error (see `agreement.Agreement.guard`); it is not part of the text.
    """

    def __init__(
        self,
        found: str,
        *,
        op: str | None = None,
        location: str | None = None,
        remedy: str | None = None,
        notes: Sequence[str] = (),
        agreed: bool = False,
    ):
        self.found, self.op, self.location, self.remedy = found, op, location, remedy
        self.notes, self.agreed = tuple(notes), agreed
        super().__init__(_layout(found, op, location, remedy, self.notes))

    def __reduce__(self):
        return _rebuild, (
            type(self),
            self.found,
            {"op": self.op, "location": self.location, "remedy": self.remedy, "notes": self.notes, "agreed": self.agreed},
        )


class InternalError(RuntimeError):
    """A fault of autosp. `dump`: path of the graph being worked on, where one was written."""

    def __init__(self, message: str, *, dump: str | None = None):
        self.message, self.dump = message, dump
        where = f" The graph is in {dump}." if dump else ""
        super().__init__(f"{_sentence(message)}{where} This is a fault of autosp, not of the model: please report it with this text.")

    def __reduce__(self):
        return _rebuild, (type(self), self.message, {"dump": self.dump})


def _rebuild(cls, found, fields):
    return cls(found, **fields)


def _sentence(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else text + "."


def _layout(found, op, location, remedy, notes) -> str:
    head = f"{op} ({location}): " if op and location else f"{op or location}: " if op or location else ""
    text = head + _sentence(found) + (f" {_sentence(remedy)}" if remedy else "")
    return "\n".join([text] + ["  " + line for note in notes for line in note.splitlines()])
