"""What the compiled program looks like: what is sent, how often, and what is never held."""

from __future__ import annotations

import pytest
import torch
import transformers
from autosp._core import Graph

import llama_graphs
from autosp import CompileError, collective_list
from lockstep import Program

LAYERS, SEQ = 2, 24


@pytest.fixture(scope="module")
def program() -> Program:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=2, vocab_size=97,
        use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).train()
    ids = torch.arange(SEQ).remainder(97).unsqueeze(0)
    return Program(model, lambda m: m(input_ids=ids, labels=ids))


def exchanges(graph) -> list[int]:
    """Bytes this rank sends to others in each all-to-all."""
    out = []
    for c in collective_list.collectives_of(graph):
        if c.op == "all_to_all_single":
            size = torch.tensor([], dtype=getattr(torch, c.dtype.removeprefix("torch."))).element_size()
            out.append((c.sends, size))
    return out


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_exchanges_a_layer_each_way_and_the_bytes_of_ulysses(program, ranks):
    result = program.run(ranks)
    heads, kv, head_size = 8, 2, 4
    # paper.md: e S d (2H + 2 max(K, P)) (P-1) / P^2 bytes a rank a layer, and the same again backward.
    formula = 4 * SEQ * head_size * (2 * heads + 2 * max(kv, ranks)) * (ranks - 1) // ranks**2
    for graphs in (result.forward, result.backward):
        for rank, graph in enumerate(graphs):
            sent = [size * sum(s for j, s in enumerate(sends) if j != rank) for sends, size in exchanges(graph)]
            assert len(sent) == 2 * LAYERS
            assert sum(sent) == LAYERS * formula


def test_weight_gradients_are_reduced_in_one_bucket(program):
    result = program.run(2)
    ops = [c.op for c in collective_list.collectives_of(result.backward[0])]
    assert ops.count("all_reduce") == 1
    assert set(ops) == {"all_reduce", "all_to_all_single"}
    forward = [c.op for c in collective_list.collectives_of(result.forward[0])]
    assert forward.count("all_reduce") == 1  # the loss: its sum and its count together
    assert set(forward) == {"all_reduce", "all_to_all_single"}


def test_partial_gradients_are_not_reduced(program):
    result = program.run(2, gradients="partial")
    assert {c.op for c in collective_list.collectives_of(result.backward[0])} == {"all_to_all_single"}


@pytest.mark.parametrize("ranks", [2, 8])
def test_no_value_has_two_full_sequence_dims(ranks):
    seq = 131072
    graph = Graph.parse(llama_graphs.at_ranks(llama_graphs.text(layers=2), ranks))
    graph.run_forward([], [], "")
    local = graph.localize(ranks - 1)
    for name, _args, results, _origin, _location in local.ops():
        for value in results:
            if name.startswith("torch."):
                continue
            assert sum(size == seq for size in local.shape(value)) <= 1, name


def test_only_what_attention_reads_and_the_labels_are_longer_than_a_shard():
    ranks, seq = 8, 131072
    graph = Graph.parse(llama_graphs.at_ranks(llama_graphs.text(layers=2), ranks))
    graph.run_forward([], [], "")
    local = graph.localize(0)
    whole = {name for name, _a, results, _o, _l in local.ops() for v in results if not name.startswith("torch.") and seq in local.shape(v)}
    assert whole == {"autosp.convert", "autosp.attention"}


USERS_OP = """autosp.graph "forward" ranks=2 {
  input %0 : f32[1,1,8,4] grad user "x"
  %1 : f32[1,1,8,4] grad = aten.scaled_dot_product_attention.default(query=%0, key=%0, value=%0, attn_mask=none, dropout_p=0.0, is_causal=true, \
scale=none, enable_gqa=false) from 1
  %2 : f32[] grad = mylib.score.default(self=%1, reduction=1) from 2
  output %2 "loss"
}
""".replace("\\\n", "")


def test_a_users_mean_runs_whole_whatever_its_arguments_are_called():
    graph = Graph.parse(USERS_OP)
    graph.run_forward([], [("mylib.score.default", "b h s d -> () mean b h s d")], "")
    (score,) = [op for op in graph.ops() if op[0].startswith("mylib")]
    assert dict(score[1])["reduction"] == 1  # not turned into a sum of which nothing is known
    (operand,) = [v for _, v in score[1] if hasattr(v, "index")]
    assert graph.form(operand.index)[0] in ("R", "Q")


def test_a_sequence_of_length_one_is_refused_as_such(program):
    ids = torch.zeros(1, 1, dtype=torch.int64)
    one = Program(program.model, lambda m: m(input_ids=ids, labels=ids))
    with pytest.raises(CompileError, match="the sequence that attention runs over has length 1: there is nothing to cut"):
        one.run(2)


def test_the_plan_is_the_same_text_every_time():
    def text() -> str:
        graph = Graph.parse(llama_graphs.text(layers=2))
        graph.run_forward([], [], "")
        return graph.text()

    assert text() == text()
    assert Graph.parse(text()).text() == text()
