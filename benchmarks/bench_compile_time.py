"""Time of the core's forward pipeline on captured Llama-3.1-8B graphs of 8, 32 and 128 layers (P = 8, sequence 131,072), by autosp-opt --timing.

    python benchmarks/bench_compile_time.py [--repeat 5]

Prints the median over the repetitions, per pass and in total, in milliseconds of one core, and the growth from one size to the next.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from llama_graph import MODELS, graph_text

LAYERS = (8, 32, 128)


def timed(graph: Path, optimizer: str) -> dict[str, float]:
    """Milliseconds by pass of one run."""
    run = subprocess.run(
        [optimizer, str(graph), "--pipeline=forward", "--timing", "-o", "/dev/null"], capture_output=True, text=True, check=True
    )
    out: dict[str, float] = {}
    for name, ms in re.findall(r"^([\w-]+) +([\d.]+)", run.stdout + run.stderr, re.MULTILINE):
        out[name] = out.get(name, 0.0) + float(ms)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--optimizer", default="autosp-opt")
    args = parser.parse_args()
    medians: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for layers in LAYERS:
            graph = Path(folder) / f"llama{layers}.sp"
            graph.write_text(graph_text({**MODELS["llama-3.1-8b"], "num_hidden_layers": layers}, 131072, 8))
            runs = [timed(graph, args.optimizer) for _ in range(args.repeat)]
            medians.append({name: statistics.median(r[name] for r in runs) for name in runs[0]})
    print(f"{'pass':22}" + "".join(f"{n:>10}" for n in LAYERS) + "   growth 8->32, 32->128 (linear: 4)")
    for name in medians[0]:
        times = [m[name] for m in medians]
        growth = ", ".join(f"{b / max(a, 1e-6):.1f}" for a, b in zip(times, times[1:], strict=False))
        print(f"{name:22}" + "".join(f"{t:10.2f}" for t in times) + f"   {growth}")


if __name__ == "__main__":
    main()
