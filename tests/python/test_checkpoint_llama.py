"""Activation checkpointing on joint graphs of Llama at published widths: saved bytes by formula, nothing dear repeated, budgets against the
integer optimum."""

from __future__ import annotations

import pathlib
import sys

import pytest
from autosp._core import Graph

pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
from bench_checkpoints import FULL, against_optimum, formulas, repeated, run  # noqa: E402
from joint_graph import Traced, cached_text, figures_of, joint_graph  # noqa: E402

MODEL, LOCAL = "llama-3.2-1b", 16384


@pytest.fixture(scope="module")
def two() -> Traced:
    return joint_graph(figures_of(MODEL, 2), LOCAL)


@pytest.fixture(scope="module")
def three() -> Traced:
    return joint_graph(figures_of(MODEL, 3), LOCAL)


@pytest.mark.parametrize("mode", ["stock", "sac", "full"])
def test_a_layer_saves_what_the_formula_says(two, three, mode):
    expected = formulas(figures_of(MODEL))["stock at kv heads" if mode == "stock" else mode]
    fewer, more = (run(traced.text, mode)[1]["saved"] for traced in (two, three))
    assert more - fewer == expected * LOCAL


@pytest.mark.parametrize(("mode", "attention", "collectives"), [("stock", 0, 0), ("sac", 0, 0), ("full", 2, 4)])
def test_what_the_backward_graph_repeats(two, mode, attention, collectives):
    found = repeated(two, mode)
    assert found["attention"] == (2 + attention, attention)
    assert found["collectives"][1] - collectives in (0, mode == "full")  # full may also repeat the sum of the loss
    report = run(two.text, mode)[1]
    assert report["recomputed_attention"] == attention
    if mode == "sac":
        assert report["recomputed_collectives"] == 0 and report["recomputed_matmuls"] > 0
        assert found["products"][1] == report["recomputed_matmuls"]


def within_two_percent(graph: Graph, seconds: float) -> None:
    pytest.importorskip("scipy")
    for sac in (False, True):
        for budget, ours, found, bound in against_optimum(graph, sac, 10, seconds):
            assert ours <= 1.02 * bound, f"budget {budget}, sac {sac}: {ours}, a plan of {found}, no plan below {bound}"


def test_budgets_of_two_layers_are_within_two_percent_of_the_optimum(two):
    within_two_percent(Graph.parse(two.text), 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("model", FULL)
def test_budgets_of_full_models_are_within_two_percent_of_the_optimum(model, tmp_path):
    within_two_percent(Graph.parse(cached_text(tmp_path, model, None, LOCAL)), 20.0)
