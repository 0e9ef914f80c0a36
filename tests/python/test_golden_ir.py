"""Golden IR text: every case of tests/ir/**/*.sp through autosp-opt (from $AUTOSP_OPT, or PATH).

A file is one case, or several parted by lines `// -----`. Lines of a case:

    // RUN: --flags            flags of autosp-opt; a case without one takes that of the case before
    autosp.graph ...           the input, on stdin with the lines above it (places in errors count from the case's first line)
    // CHECK:                  what follows is the expected output, exactly
    // STDERR: text            a line expected on stderr, with exit status 0 (remarks, by --report)
    // ERROR: text             a line expected on stderr, with exit status 1

AUTOSP_UPDATE_GOLDEN=1 rewrites the expected lines from what autosp-opt does; read the diff before you keep it.
"""

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "ir"
SEPARATOR = "// -----"
UPDATE = os.environ.get("AUTOSP_UPDATE_GOLDEN") == "1"


@dataclass(frozen=True)
class Outcome:
    status: int
    output: str
    stderr: str


@dataclass(frozen=True)
class Case:
    flags: str
    source: str  # without the expectations
    expected: Outcome


def read_case(text: str, inherited_flags: str) -> Case:
    source, check, output = text.partition("// CHECK:\n")
    flags, kept, stderr, status = inherited_flags, [], [], 0
    for line in source.splitlines():
        if line.startswith("// RUN:"):
            flags = line.removeprefix("// RUN:").strip()
        if line.startswith(("// ERROR: ", "// STDERR: ")):
            status = max(status, int(line.startswith("// ERROR: ")))
            stderr.append(line.split(": ", 1)[1])
        else:
            kept.append(line)
    return Case(flags, "\n".join(kept).strip("\n") + "\n", Outcome(status, output.rstrip("\n"), "\n".join(stderr)))


def read_file(path: Path) -> list[Case]:
    cases: list[Case] = []
    for text in path.read_text().split(SEPARATOR + "\n"):
        cases.append(read_case(text, cases[-1].flags if cases else ""))
    return cases


def autosp_opt() -> str:
    tool = os.environ.get("AUTOSP_OPT") or shutil.which("autosp-opt")
    if not tool:
        pytest.skip("autosp-opt is neither in $AUTOSP_OPT nor on PATH")
    return tool


def run_case(case: Case) -> Outcome:
    command = [autosp_opt(), "-", *shlex.split(case.flags)]
    done = subprocess.run(command, input=case.source, capture_output=True, text=True, timeout=60)
    return Outcome(done.returncode, done.stdout.rstrip("\n"), done.stderr.rstrip("\n"))


def written(case: Case, outcome: Outcome) -> str:
    """The case's text, expecting this outcome."""
    mark = "// ERROR: " if outcome.status else "// STDERR: "
    text = case.source + "".join(f"{mark}{line}\n" for line in outcome.stderr.splitlines())
    return text + (f"// CHECK:\n{outcome.output}\n" if outcome.output else "")


FILES = sorted(ROOT.rglob("*.sp"))


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_golden(path: Path) -> None:
    cases = read_file(path)
    outcomes = [run_case(case) for case in cases]
    assert all(outcome.status in (0, 1) for outcome in outcomes), [o.stderr for o in outcomes if o.status not in (0, 1)]
    if UPDATE:
        path.write_text((SEPARATOR + "\n").join(written(case, outcome) for case, outcome in zip(cases, outcomes, strict=True)))
        return
    for number, (case, outcome) in enumerate(zip(cases, outcomes, strict=True), 1):
        where = f"case {number} of {path.relative_to(ROOT)}, autosp-opt - {case.flags}"
        assert written(case, outcome) == written(case, case.expected), where
        assert outcome.status == case.expected.status, where
