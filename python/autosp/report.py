"""What one compile did, as numbers and as text: `autosp.explain(model)`."""

from __future__ import annotations

from dataclasses import dataclass

from . import _core


@dataclass
class Report:
    """One compiled graph. core: the core's report; timing: a table of its passes, in milliseconds; ranks: the sp degree; joint: the core's
    report on this rank's joint forward and backward graph, None where nothing is differentiated. But for that and the times the same on
    every rank."""

    core: _core.Report
    timing: str
    ranks: int
    joint: _core.Report | None = None

    def add_checkpoints(self, joint: _core.Report, timing: str) -> None:
        """Take the report on the joint graph, which is compiled after the first."""
        self.joint = joint
        self.timing += timing

    @property
    def sequence_length(self) -> int:
        """Of the longest input that holds the sequence; 0 where it is not known."""
        return self.core.summary["sequence_length"]

    @property
    def checkpoints(self) -> dict | None:
        """What the forward saves and the backward runs again: bytes of this rank ("saved", "saved_attention", "saved_mlp",
        "saved_residual", "saved_loss", "saved_other", "peak", "gradients"), picoseconds ("recompute_time", "step_time"), counts
        ("recomputed_ops", ...), "frontier": (peak, time run again) of the plans there are. None where nothing is differentiated."""
        return self.joint.checkpoints if self.joint is not None else None

    @property
    def values_cut(self) -> int:
        """How many float activations carry the sequence and are computed cut; views are not counted."""
        return self.core.summary["values_cut"]

    @property
    def values_whole(self) -> int:
        """How many float activations carry the sequence and are computed whole on every rank; views are not counted."""
        return self.core.summary["values_whole"]

    @property
    def ops_made_whole(self) -> int:
        """How many ops read the sequence and have no sharding rule."""
        return self.core.summary["ops_made_whole"]

    @property
    def collectives(self) -> list[tuple[str, int]]:
        """(name, bytes a rank sends, forward and backward together) of each conversion that communicates, one entry a value: values that
        travel in one collective are listed apart. The name is "all-to-all", or "all-gather / reduce-scatter" where the two ways differ."""
        out = []
        for c in self.core.conversions:
            names = [n for n in (c["forward"], c["backward"]) if n not in ("none", "slice", "pad")]
            if names:
                out.append((" / ".join(dict.fromkeys(names)), c["bytes"]))
        return out

    def made_whole_warning(self) -> str:
        """One sentence on what was made whole for want of a rule."""
        s = self.core.summary
        worst = next((text for text, op, _ in self.core.diagnostics if "no sharding rule" in text), "")
        return f"autosp: {s['ops_made_whole']} ops have no sharding rule and run on whole operands ({s['bytes_made_whole']} bytes). {worst}"

    def text(self) -> str:
        """The whole report."""
        s = self.core.summary
        head = (
            f"sequence parallel over {self.ranks} ranks: {s['values_cut']} activations cut, {s['values_whole']} whole "
            f"({s['whole_bytes']} of {s['sequence_bytes']} bytes)"
        )
        return head + "\n" + self.core.text() + (self.joint.text() if self.joint is not None else "")

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Reports:
    """One report a compiled graph, in the order of compilation; str() is their text. The numbers below are those of the first graph."""

    graphs: tuple[Report, ...]

    @property
    def values_cut(self) -> int:
        return self.graphs[0].values_cut

    @property
    def values_whole(self) -> int:
        return self.graphs[0].values_whole

    @property
    def collectives(self) -> list[tuple[str, int]]:
        return self.graphs[0].collectives

    def __str__(self) -> str:
        return "\n\n".join(f"graph {i}: {report}" for i, report in enumerate(self.graphs))
