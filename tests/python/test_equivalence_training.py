"""What training code adds to a model (cases.md: GRAD 25, MEM 36, COMP, RNG, API, PREC, EVAL): experts, dropout, low precision, evaluation,
frozen weights, adapters, buffers, regions without gradients, in-place updates."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autosp import torch_compat
from autosp.errors import CompileError
from sharded_runs import Comparison, tensors
from small_models import VOCAB, Block, Decoder, PackedBlock, WrittenOutBlock, shifted_loss, tokens


def with_loss(m, ids, labels, **rest):
    logits = m(ids, **rest)
    return shifted_loss(logits, labels), logits


def case(model=None, B=2, S=13, forward=with_loss, **options):
    return Comparison(model or Decoder(2), tokens(B, S, 3), forward, **options)


# ---- experts


class Experts(Block):
    """Row 25: four experts, the best two of each token by a router; every expert computes every token. `balance` is Switch's loss."""

    def __init__(self, *args):
        super().__init__(*args)
        width = self.norm1.normalized_shape[0]
        self.router = nn.Linear(width, 4, bias=False)
        self.first, self.second = nn.Parameter(torch.randn(4, width, 2 * width) * 0.2), nn.Parameter(torch.randn(4, 2 * width, width) * 0.2)

    def forward(self, x, mask=None):
        x = super().forward(x, mask)
        flat = x.reshape(-1, x.shape[-1])
        p = self.router(flat).softmax(-1)
        weight, chosen = p.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        dispatch = F.one_hot(chosen, 4).to(x.dtype)
        combine = (dispatch * weight[..., None]).sum(1)
        h = F.silu(torch.einsum("td,edf->tef", flat, self.first))
        y = torch.einsum("tef,efd,te->td", h, self.second, combine)
        self.balance = 4 * (dispatch.sum(1).mean(0) * p.mean(0)).sum()
        return x + y.view_as(x)


class BatchedExperts(Experts):
    """The same by bmm over experts and a scatter of the router's weights."""

    def forward(self, x, mask=None):
        x = Block.forward(self, x, mask)
        flat = x.view(-1, x.shape[-1])
        p = self.router(flat).softmax(-1)
        weight, chosen = torch.topk(p, 2, -1)
        combine = torch.zeros_like(p).scatter(1, chosen, weight / weight.sum(-1, keepdim=True))
        h = F.silu(torch.bmm(flat.unsqueeze(0).expand(4, -1, -1), self.first))
        y = (torch.bmm(h, self.second) * combine.t().unsqueeze(-1)).sum(0)
        used = (combine > 0).float().mean(0)
        self.balance = 4 * (used * p.mean(0)).sum()
        return x + y.view_as(x)


@pytest.mark.parametrize("block", [Experts, BatchedExperts], ids=lambda b: b.__name__)
def test_mixture_of_experts(block):
    torch.manual_seed(0)

    def forward(m, ids, labels):
        loss = shifted_loss(m(ids), labels)
        return loss + 0.1 * sum(b.balance for b in m.blocks), loss.detach()

    case(Decoder(2, block=block), forward=forward).check(2, 3, 4)


def test_experts_by_data_dependent_split():
    """Row 59: refused, naming the line."""

    class M(Decoder):
        def forward(self, ids):
            h = self.hidden(ids)
            counts = torch.bincount(ids.flatten(), minlength=VOCAB).tolist()
            return self.head(torch.cat([x * 2 for x in h.flatten(0, 1).split(counts)]).view_as(h))

    with pytest.raises(Exception) as info:
        case(M(1))
    found = torch_compat.compile_failure(info.value)
    assert found is not None and "test_equivalence_training.py" in found["location"]


# ---- dropout


@pytest.mark.parametrize("block", [Block, WrittenOutBlock], ids=lambda b: b.__name__)
def test_dropout_masks_do_not_depend_on_ranks(block):
    """Rows 103-106: loss, logits and gradients with the same seed on 1, 2, 3 and 4 ranks; on weights of attention written out too."""

    class Dropped(block):
        def forward(self, x, mask=None):
            return F.dropout(super().forward(F.dropout(x, 0.2), mask), 0.5)

    torch.manual_seed(0)
    c = case(Decoder(2, p=0.3, block=Dropped))
    eager = c.expected[0]
    c.expect_one_rank()
    assert not torch.allclose(c.expected[0], eager)
    c.check(2, 3, 4)


class DroppedWeights(PackedBlock):
    """Dropout of the attention weights: written out, or inside the kernel."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.drop = nn.Dropout(0.4)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        q, k, v = (t.view(B, S, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(D, 2))
        if self.flash:
            return x + self.o(F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=True).transpose(1, 2).reshape(B, S, D))
        scores = (q @ k.transpose(-2, -1) * 0.3).masked_fill(self.bias[..., :S, :S] == 0, float("-inf"))
        return x + self.o((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).reshape(B, S, D))


def test_dropout_of_attention_weights():
    class Written(DroppedWeights):
        flash = False

    torch.manual_seed(0)
    c = case(Decoder(1, block=Written))
    c.expect_one_rank()
    c.check(2, 3, 4)


def test_dropout_inside_the_kernel_is_refused():
    """Rows 103, 104: by op, source line and remedy."""
    torch.manual_seed(0)
    with pytest.raises(CompileError, match="attention dropout is not supported under sequence parallelism") as refused:
        case(Decoder(1, block=DroppedWeights)).threads(2)
    assert "aten.scaled_dot_product_attention.default" in str(refused.value)
    assert "test_equivalence_training.py:" in str(refused.value)
    assert "attention_dropout=0.0" in str(refused.value)


def test_shards_drop_different_elements():
    """Row 105: the masks of the two halves, and of two places, are independent."""

    def forward(m, ids, labels):
        x = torch.ones(2, ids.shape[1], 32) + 0 * m.hidden(ids)
        a, b = F.dropout(x, 0.5), F.dropout(x, 0.5)
        return a.mean() + b.mean(), a, b

    c = case(Decoder(1), S=64, forward=forward)
    c.expect_one_rank()
    c.check(2, 4)
    a, b = (t != 0 for t in c.returned[1:3])
    for x, y in ((a[:, :32], a[:, 32:]), (a, b), (a[0], a[1])):
        assert abs(float(torch.corrcoef(torch.stack([x.flatten(), y.flatten()]).float())[0, 1])) < 0.05
    assert abs(float(a.float().mean()) - 0.5) < 0.03


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
        lambda x: x + torch.randn_like(x),
        lambda x: x * (torch.rand(x.shape[0], 1, 1) > 0.2),
        lambda x: F.alpha_dropout(x, 0.1, True),
    ],
    ids=["bernoulli", "randn_like", "drop path", "alpha_dropout"],
)
def test_other_random_ops_are_refused(draw):
    c = case(Decoder(1), forward=lambda m, ids, labels: shifted_loss(m.head(draw(m.hidden(ids))), labels))
    with pytest.raises(CompileError, match="random") as info:
        c.threads(2)
    assert "test_equivalence_training.py" in str(info.value)


def test_dropout_in_evaluation():
    torch.manual_seed(0)
    case(Decoder(2, p=0.5).eval()).check(2, 3)


# ---- precision


@pytest.mark.parametrize("block", [Block, WrittenOutBlock], ids=lambda b: b.__name__)
@pytest.mark.parametrize("mode", ["bfloat16", "autocast", "autocast inside"])
def test_low_precision(mode, block):
    """Rows 113, 115. Truth is the single process in the same precision."""
    torch.manual_seed(0)
    model = Decoder(2, block=block)

    def forward(m, ids, labels):
        if mode == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                return with_loss(m, ids, labels)
        if mode == "autocast inside":
            with torch.autocast("cpu", torch.bfloat16):
                h = m.hidden(ids)
                with torch.autocast("cpu", enabled=False):
                    logits = m.head(h.float())
            return shifted_loss(logits, labels), logits
        return with_loss(m, ids, labels)

    c = case(model.bfloat16() if mode == "bfloat16" else model, forward=forward, tolerance=3e-2)
    c.check(2, 3)
    loss, got = float(c.expected[0]), float(c.returned[0])
    assert abs(got - loss) <= 3e-3 * abs(loss)


def test_double_precision():
    torch.manual_seed(0)
    case(Decoder(2).double(), tolerance=1e-12).check(2, 3)


# ---- evaluation, frozen weights, adapters


@pytest.mark.parametrize("model", [lambda: Decoder(2), lambda: Decoder(2).eval()], ids=["train", "eval"])
def test_no_grad(model):
    """Rows 116, 117: the graph without gradients is sharded too."""
    torch.manual_seed(0)
    with torch.no_grad():
        case(model()).check(2, 4)


def test_inference_without_labels():
    torch.manual_seed(0)
    with torch.no_grad():
        Comparison(Decoder(2), dict(ids=tokens(2, 13)["ids"]), lambda m, ids: dict(logits=m(ids), last=m(ids)[:, -1].argmax(-1))).check(
            2, 3
        )


class Lora(nn.Module):
    """Row 111: a frozen linear and a low-rank update."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Linear(base.in_features, 4, bias=False), nn.Linear(4, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + 2.0 * self.b(self.a(x))


def test_adapters_on_a_frozen_model():
    torch.manual_seed(0)
    model = Decoder(2).requires_grad_(False)
    for block in model.blocks:
        block.q, block.v = Lora(block.q), Lora(block.v)
    c = case(model)
    c.check(2, 3)
    assert {n for n, g in c.expected_grads.items() if g is not None} == {n for n, p in model.named_parameters() if p.requires_grad}


def test_frozen_first_layers():
    torch.manual_seed(0)
    model = Decoder(2)
    model.tokens.requires_grad_(False)
    model.places.requires_grad_(False)
    model.blocks[0].requires_grad_(False)
    case(model).check(2, 3)


def test_tied_embeddings():
    torch.manual_seed(0)
    model = Decoder(2)
    model.head.weight = model.tokens.weight
    case(model).check(2, 3)


def test_block_applied_twice():
    torch.manual_seed(0)
    model = Decoder(1)
    model.blocks.append(model.blocks[0])
    case(model).check(2, 3)


def test_prompt_vectors():
    """Learned vectors in front of the tokens, and embeddings as input that require a gradient."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.prompt = Decoder(1), nn.Parameter(torch.randn(5, 32))

        def forward(self, embeds, labels):
            x = torch.cat([self.prompt.expand(embeds.shape[0], -1, -1), embeds], 1)
            for block in self.body.blocks:
                x = block(x)
            return shifted_loss(self.body.head(x[:, 5:]), labels)

    torch.manual_seed(0)
    Comparison(M(), dict(embeds=torch.randn(2, 13, 32, requires_grad=True), labels=tokens(2, 13)["labels"])).check(2, 3, whole_share=0.1)


# ---- state and control


class Counting(Decoder):
    """Buffers written in the forward: a counter, and a running mean of what carries the sequence."""

    def __init__(self):
        super().__init__(1)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(32))

    def forward(self, ids):
        self.steps += 1
        h = self.hidden(ids)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(h.mean((0, 1)), alpha=0.1)
        return self.head(h - self.mean)


def test_buffers_written_in_forward():
    torch.manual_seed(0)
    case(Counting()).check(2, 3)


def test_region_without_gradients():
    """A teacher under no_grad, a stop-gradient, and a constant made in forward."""

    def forward(m, ids, labels):
        with torch.no_grad():
            teacher = m(ids).softmax(-1)
        logits = m(ids) + torch.tensor([0.5])
        centre = logits.detach().mean(-1, keepdim=True)
        return F.kl_div((logits - centre).log_softmax(-1), teacher, reduction="batchmean") + shifted_loss(logits, labels)

    torch.manual_seed(0)
    case(Decoder(1), forward=forward).check(2, 3)


def test_in_place_updates():
    """Writes to intermediates: whole ones, slices, by mask, by index."""

    def forward(m, ids, labels):
        h = m.hidden(ids).clone()
        h *= 2
        h[:, 0] = 0
        h[:, 3:5] += 1
        h[..., :4].mul_(0.5)
        h.masked_fill_((ids == 5)[..., None], 0.25)
        logits = m.head(h)
        logits[..., 0] = -5.0
        return shifted_loss(logits, labels), logits

    torch.manual_seed(0)
    case(Decoder(1), forward=forward, through_outputs=True).check(2, 3, whole_share=0.6)


def test_nested_outputs():
    def forward(m, ids, labels):
        h = m.hidden(ids)
        return {"loss": shifted_loss(m.head(h), labels), "states": (h, [h[:, 0], None]), "ids": ids, "length": ids.shape[1], "h": h}

    torch.manual_seed(0)
    case(Decoder(1), forward=forward, through_outputs=True).check(2, 4)


def test_gradient_norm_penalty_free_heads():
    """A second branch over the same hidden states that never meets the sequence again: a head on pooled states."""

    def forward(m, ids, labels):
        h = m.hidden(ids)
        pooled = torch.tanh(h.mean(1) @ m.tokens.weight.t())
        return shifted_loss(m.head(h), labels) + pooled.pow(2).sum(), pooled

    torch.manual_seed(0)
    case(Decoder(1), forward=forward, through_outputs=True).check(2, 3)


def test_unused_parameters_have_no_gradient():
    torch.manual_seed(0)
    model = Decoder(1)
    model.unused = nn.Linear(4, 4)
    c = case(model)
    c.check(2)
    assert c.expected_grads["unused.weight"] is None


# ---- memory, errors


def test_saved_bytes_fall_with_ranks():
    """Row 36: what the forward keeps for the backward, weights apart, on 4 ranks is at most 0.3 of one rank's."""
    torch.manual_seed(0)
    c = case(Decoder(2), B=1, S=64, forward=lambda m, ids, labels: with_loss(m, ids, labels)[0])

    def saved(ranks):
        graph = c.run(ranks).forward[0].graph
        outputs = next(n for n in graph.nodes if n.op == "output").args[0]
        bases = {stored(n) for n in outputs if isinstance(n, torch.fx.Node)}
        return sum(n.meta["val"].numel() * n.meta["val"].element_size() for n in bases if n.op != "placeholder")

    def stored(node):
        """What a chain of views is a view of."""
        while any(str(node.target).startswith(f"aten.{view}.") for view in ("view", "t", "permute", "transpose", "detach", "slice")):
            node = node.args[0]
        return node

    assert saved(4) <= 0.3 * saved(1)


def test_unknown_attention_is_refused():
    """Row 108: attention by an op that autosp does not know is an error, not a model that runs unsharded."""

    @torch.library.custom_op("autosp_tests::attention", mutates_args=())
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v).clone()

    attention.register_fake(lambda q, k, v: torch.empty_like(q))
    attention.register_autograd(lambda ctx, g: (g, g, g), setup_context=lambda ctx, inputs, output: None)

    class M(PackedBlock):
        def forward(self, x, mask=None):
            B, S, D = x.shape
            q, k, v = (t.view(B, S, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(D, 2))
            return x + self.o(attention(q, k, v).transpose(1, 2).reshape(B, S, D))

    c = case(Decoder(1, block=M))
    with pytest.raises(CompileError, match="no sequence dimension was found"):
        c.threads(2)
    with pytest.raises(CompileError, match=r"autosp_tests.attention.default .*test_equivalence_training.py"):
        c.threads(2, sequence_dims={"ids": 1, "labels": 1}, on_unsupported="error")


def test_function_with_its_own_backward_is_refused():
    """Tracing would keep its forward and lose its backward."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(Exception, match="backward of its own") as info:
        case(Decoder(1), forward=lambda m, ids, labels: shifted_loss(m.head(Double.apply(m.hidden(ids))), labels))
    found = torch_compat.compile_failure(info.value)
    assert isinstance(found, CompileError) and "test_equivalence_training.py" in found.location


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_the_user_are_honoured(reentrant):
    """What stands in a checkpointed block runs again in the backward, attention too; the collectives around it do not."""

    class M(Decoder):
        def forward(self, ids):
            x = self.tokens(ids)
            for block in self.blocks:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
            return self.head(x)

    torch.manual_seed(0)
    c = case(M(2))
    c.check(2, 3)
    for ranks in (1, 2, 3):
        result = c.check_compiled(ranks)
        for forward, backward in zip(result.forward, result.backward, strict=True):
            assert [calls(g, "_scaled_dot_product_flash_attention_for_cpu") for g in (forward, backward)] == [2, 2]
    torch.manual_seed(0)
    assert calls(case(Decoder(2)).run(2).backward[0], "_scaled_dot_product_flash_attention_for_cpu") == 0


def calls(graph, packet):
    """How often a graph calls an op, by itself or under torch's keeping of the generator's state."""
    found = [t for n in graph.graph.nodes for t in (n.target, *n.args[:2])]
    return sum(getattr(getattr(t, "overloadpacket", None), "__name__", "") == packet for t in found)


def test_two_models_in_one_process():
    """Different head counts, one after the other and the first again."""
    torch.manual_seed(0)
    cases = [case(Decoder(1, heads=4, kv=2)), case(Decoder(1, heads=8, kv=8), reset=False)]
    for c in (*cases, cases[0]):
        run = c.threads(3)
        assert len(tensors(run.outputs)) == 6
        c.compare(run, 3)
