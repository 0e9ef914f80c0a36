"""autosp.compile on gloo ranks: the contract, its options, and what bad input does. Values against the eager single process."""

from __future__ import annotations

import warnings

import pytest
import torch
import transformers
from torch.distributed.device_mesh import init_device_mesh

import autosp

VOCAB = 61


def llama(seed: int = 0, heads: int = 8, kv: int = 2, **figures) -> torch.nn.Module:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=kv, vocab_size=VOCAB,
        use_cache=False, attn_implementation="sdpa", **figures,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).train()


def batch(seed: int, length: int, rows: int = 1) -> dict:
    ids = torch.randint(0, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))
    labels = ids.clone()
    labels[:, : length // 3 + seed % 3] = -100
    return dict(input_ids=ids, labels=labels)


def sp_mesh(world: int):
    return init_device_mesh("cpu", (world,), mesh_dim_names=("sp",))


def relative(got: torch.Tensor, truth: torch.Tensor) -> float:
    return float((got - truth).norm() / truth.norm().clamp_min(1e-12))


def worst(model, truth) -> float:
    return max(relative(p.grad, q.grad) for p, q in zip(model.parameters(), truth.parameters(), strict=True))


def refused(call, *args, **kwargs) -> str:
    try:
        call(*args, **kwargs)
    except autosp.CompileError as error:
        return str(error)
    raise AssertionError("nothing was refused")


# ---- numbers


def accumulates(rank: int, world: int):
    """Micro-batches of different lengths and valid counts, accumulated; then evaluation; then training again."""
    model, truth = llama(), llama()
    autosp.compile(model, sp_mesh(world), inner="aot_eager")
    batches = [batch(0, 12), batch(1, 12), batch(2, 17)]
    losses = []
    for b in batches:
        loss, right = model(**b).loss, truth(**b).loss
        loss.backward()
        right.backward()
        losses.append(relative(loss.detach(), right.detach()))
    first = worst(model, truth)
    model.eval(), truth.eval()
    with torch.no_grad():
        evaluation = relative(model(**batches[2]).loss, truth(**batches[2]).loss)
    model.train(), truth.train()
    model(**batches[0]).loss.backward()
    truth(**batches[0]).loss.backward()
    return max(losses), first, evaluation, worst(model, truth), len(autosp.explain(model).graphs)


def test_accumulation_lengths_and_evaluation(spawn):
    for loss, grads, evaluation, again, graphs in spawn(2, accumulates, timeout=120):
        assert loss < 1e-6
        assert grads < 1e-5
        assert evaluation < 1e-6
        assert again < 1e-5
        assert graphs == 3  # two lengths, and evaluation; training again found its graph


def trains_with_ddp(rank: int, world: int):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "sp"))
    model, truth = llama(), llama()
    wrapped = torch.nn.parallel.DistributedDataParallel(autosp.compile(model, mesh["sp"], gradients="partial", inner="aot_eager"))
    optimizer, right = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(truth.parameters(), 0.1)
    for step in range(3):
        batches = [batch(2 * step, 13), batch(2 * step + 1, 13)]
        optimizer.zero_grad()
        wrapped(**batches[rank // 2]).loss.backward()
        optimizer.step()
        right.zero_grad()
        (sum(truth(**b).loss for b in batches) / 2).backward()
        right.step()
    error = max(relative(p.detach(), q.detach()) for p, q in zip(model.parameters(), truth.parameters(), strict=True))
    return error, torch.cat([p.detach().flatten() for p in model.parameters()])


def test_ddp_over_dp_and_sp_gives_the_true_gradient(spawn):
    results = spawn(4, trains_with_ddp, timeout=180)
    assert max(error for error, _ in results) < 1e-5
    assert all(torch.equal(flat, results[0][1]) for _, flat in results)


def two_models(rank: int, world: int):
    """Different head counts in one process, through both entries, interleaved."""
    one, other, truths = llama(0, 8, 2), llama(1, 4, 4), (llama(0, 8, 2), llama(1, 4, 4))
    autosp.compile(one, sp_mesh(world), inner="aot_eager")
    other.compile(backend="autosp", options={"inner": "aot_eager"})
    for seed in (0, 1):
        for model, truth in zip((one, other), truths, strict=True):
            model(**batch(seed, 10)).loss.backward()
            truth(**batch(seed, 10)).loss.backward()
    return worst(one, truths[0]), worst(other, truths[1])


def test_several_models_in_one_process_and_the_named_backend(spawn):
    for errors in spawn(2, two_models, timeout=120):
        assert max(errors) < 1e-5


def sharded_logits(rank: int, world: int):
    model, truth = llama(), llama()
    autosp.compile(model, sp_mesh(world), inner="aot_eager")
    out, right = model(**batch(0, 12)), truth(**batch(0, 12))
    local = out.logits.to_local().shape
    whole = llama()
    autosp.compile(whole, sp_mesh(world), inner="aot_eager", outputs="whole")
    ids = batch(0, 12)["input_ids"]
    mine = whole(input_ids=ids).logits
    torch.nn.functional.cross_entropy(mine[0, :-1], ids[0, 1:]).backward()
    theirs = truth(input_ids=ids).logits
    torch.nn.functional.cross_entropy(theirs[0, :-1], ids[0, 1:]).backward()
    return tuple(local), relative(out.logits.full_tensor(), right.logits), relative(mine, theirs), worst(whole, truth)


def test_logits_stay_sharded_beside_a_loss_and_come_whole_without(spawn):
    for local, beside, without, grads in spawn(2, sharded_logits, timeout=120):
        assert local == (1, 6, VOCAB)
        assert beside < 1e-5
        assert without < 1e-5
        assert grads < 1e-5


def dropped(rank: int, world: int):
    torch.manual_seed(rank)  # ranks seeded differently still drop the same elements

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            self.w = torch.nn.Parameter(torch.randn(8, 8, generator=generator))

        def forward(self, x):
            y = torch.nn.functional.dropout(x @ self.w, 0.5, self.training)
            q = y.unsqueeze(1)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q).squeeze(1).sum(), y

    model = autosp.compile(Model(), sp_mesh(world), inner="aot_eager")
    x = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(1))
    loss, y = model(x)
    loss.backward()
    again = model(x)[1]
    return y.full_tensor().detach(), again.full_tensor().detach(), model.w.grad, loss.detach(), x @ model.w.detach()


def test_dropout_is_one_global_mask_and_new_at_each_call(spawn):
    results = spawn(2, dropped, timeout=120)
    y, again, _, loss, before = results[0]
    assert all(torch.equal(r[0], y) and torch.equal(r[2], results[0][2]) and torch.equal(r[3], loss) for r in results)
    kept = y != 0
    assert torch.allclose(y[kept], 2 * before[kept], rtol=1e-5)
    assert 0.35 < kept.float().mean() < 0.65
    assert not torch.equal(kept, again != 0)
    assert not torch.equal(kept[:, :8], kept[:, 8:])  # the shards' masks are not copies


# ---- bad input


def contract(rank: int, world: int):
    mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("dp", "sp"))
    model = llama()
    texts = dict(
        two_dims=refused(autosp.compile, model, mesh),
        no_mesh=refused(autosp.compile, model, "sp"),
        option=refused(autosp.compile, model, mesh["sp"], gradient="partial"),
        later=refused(autosp.compile, model, mesh["sp"], attention="ring"),
        module=refused(autosp.compile, lambda x: x, mesh["sp"]),
        early=refused(autosp.explain, autosp.compile(model, mesh["sp"], inner="aot_eager")),
        device=refused(autosp.compile, torch.nn.Linear(2, 2, device="meta"), mesh["sp"]),
        rule=refused(autosp.register_rule, "mylib::op", "b s -> b -"),
    )
    wrong = autosp.compile(llama(), mesh["sp"], inner="aot_eager", sequence_dims="tokens:1")
    texts["input"] = refused(wrong, **batch(0, 8))
    plain = autosp.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), mesh["sp"], inner="aot_eager")
    texts["nothing"] = refused(plain, torch.ones(2, 4))
    return texts


def test_the_contract_is_kept_with_clear_errors(spawn):
    results = spawn(2, contract, timeout=120)
    assert results[0] == results[1]
    text = results[0]
    assert text["two_dims"] == "the argument mesh has 2 dims ('dp', 'sp'). Pass mesh['sp']: the ranks that share one batch."
    assert text["no_mesh"].startswith("the argument mesh is a str.")
    assert "Did you mean 'gradients'?" in text["option"]
    assert 'option attention="ring" is not built yet' in text["later"]
    assert text["module"].startswith("autosp.compile takes a torch.nn.Module, found function.")
    assert text["early"].startswith("the model has not been called yet.")
    assert text["device"].startswith("the mesh is on cpu and the model's parameters are on meta.")
    assert "position" in text["rule"]
    assert text["input"].startswith("sequence_dims names an input that the program does not have: 'tokens'. Its tensor inputs are: ")
    assert text["nothing"].startswith("no sequence dimension was found: the program has no attention")


def test_without_a_process_group_the_argument_is_named(monkeypatch):
    text = "torch.distributed is not initialised, so the argument mesh has no process group"
    assert refused(autosp.compile, llama()).startswith(text)
    monkeypatch.setenv("WORLD_SIZE", "2")  # a launcher started others: this process would train on its own
    assert refused(lambda: autosp.compile(llama(), checkpoint="full")).startswith(text)


def disagreeing(rank: int, world: int, how: str):
    model = llama(rank if how == "parameters" else 0)
    autosp.compile(model, sp_mesh(world), inner="aot_eager", **({"outputs": ("auto", "whole")[rank]} if how == "options" else {}))
    if how == "plan":
        from autosp import compiler, fx_import

        right = fx_import.import_graph
        compiler.import_graph = lambda captured, ranks, stays: right(captured, ranks, stays and rank == 0)
    if how == "late":
        model(**batch(0, 8))
        return refused(model, **batch(1 + rank, 8))
    if how in ("compile", "internal"):
        from autosp import compiler

        if rank == 1:

            def fail(*args):
                raise (RuntimeError if how == "compile" else autosp.InternalError)("this rank's compiler is broken")

            compiler.export_graph = fail
        try:
            model(**batch(0, 8))
        except Exception as error:
            return str(error)
        raise AssertionError("nothing was refused")
    return refused(model, **batch(0, 8 + 2 * rank if how == "shapes" else 8))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("shapes", "shapes, dtypes, scalars or modes of the inputs differ between ranks"),
        ("late", "contents of the inputs differ between ranks"),
        ("parameters", "model.embed_tokens.weight"),
        ("plan", "plan differs between ranks"),
        ("options", "plan differs between ranks"),
        ("compile", "this rank's compiler is broken"),
        ("internal", "This is a fault of autosp, not of the model"),
    ],
)
def test_ranks_that_differ_all_stop(spawn, how, said):
    for text in spawn(2, disagreeing, how, timeout=150):
        assert said in text


def breaks(rank: int, world: int):
    model, truth = llama(), llama()
    inner = model.model.layers[0].mlp.forward

    @torch.compiler.disable
    def outside(x):
        return x * 1.0

    def broken(x):
        return inner(outside(x))

    model.model.layers[0].mlp.forward = broken
    error = refused(autosp.compile(model, sp_mesh(world), inner="aot_eager"), **batch(0, 11))
    torch.compiler.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        autosp.compile(model, sp_mesh(world), inner="aot_eager", fullgraph=False)
        model(**batch(0, 11)).loss.backward()
    truth(**batch(0, 11)).loss.backward()
    return error, [str(w.message) for w in caught if "autosp" in str(w.message)], worst(model, truth)


def test_a_graph_break_is_an_error_or_a_warning_that_names_it(spawn):
    for error, said, grads in spawn(2, breaks, timeout=150):
        assert "cannot be captured as one graph" in error
        assert "test_end_to_end.py" in error
        assert any("the graph breaks at test_end_to_end.py" in text and "bytes) that cross it are made whole" in text for text in said)
        assert grads < 1e-5


def data_dependent(rank: int, world: int):
    class Model(torch.nn.Module):
        def forward(self, x):
            q = x.unsqueeze(1)
            y = torch.nn.functional.scaled_dot_product_attention(q, q, q).squeeze(1)
            return y[x.abs() > 1].sum()

    return refused(
        autosp.compile(Model(), sp_mesh(world), inner="aot_eager"), torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(0))
    )


def test_data_dependent_shapes_are_refused_with_their_line(spawn):
    for text in spawn(2, data_dependent, timeout=120):
        assert "test_end_to_end.py:" in text
