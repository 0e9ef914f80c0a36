"""Models written by hand (cases.md: DIV, HEAD, A2A, PACK rows on positions): ways to lay out, split and write attention, sequence-first and
bidirectional models, pooling, uneven heads and lengths."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sharded_runs import Comparison
from small_models import VOCAB, Block, Decoder, PackedBlock, WrittenOutBlock, shifted_loss, tokens


def language_model(model, B=2, S=13, forward=None, **extra):
    def loss(m, ids, labels, **rest):
        logits = m(ids, **rest)
        return shifted_loss(logits, labels), logits

    return Comparison(model, tokens(B, S, 3) | extra, forward or loss, through_outputs=True)


# ---- attention, as people write it


class EinsumBlock(Block):
    """Attention by einsum over [B, S, H, D], heads never moved; keys repeated for grouped queries."""

    scores, values = "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, S, self.heads, self.size)
        k = self.k(h).view(B, S, self.kv, self.size).repeat_interleave(self.heads // self.kv, 2)
        v = self.v(h).view(B, S, self.kv, self.size).repeat_interleave(self.heads // self.kv, 2)
        scores = torch.einsum(self.scores, q, k) * self.size**-0.5
        causal = torch.ones(S, S, dtype=torch.bool, device=x.device).triu(1)
        causal = causal[:, None] if self.scores.endswith("qhk") else causal
        a = torch.einsum(self.values, scores.masked_fill(causal, float("-inf")).softmax(-1), v)
        x = x + self.o(a.reshape(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class QueryFirstEinsumBlock(EinsumBlock):
    """Scores [B, Q, H, K]: the query dim is not beside the key dim."""

    scores, values = "bqhd,bkhd->bqhk", "bqhk,bkhd->bqhd"


class GroupedEinsumBlock(Block):
    """Queries [B, S, kv, group, D] over keys that are not repeated."""

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, S, self.kv, -1, self.size)
        k, v = (p(h).view(B, S, self.kv, self.size) for p in (self.k, self.v))
        scores = torch.einsum("bqkgd,bskd->bkgqs", q, k) * self.size**-0.5
        causal = torch.ones(S, S, dtype=torch.bool, device=x.device).tril()
        a = torch.einsum("bkgqs,bskd->bqkgd", scores.masked_fill(~causal, torch.finfo(x.dtype).min).softmax(-1), v)
        x = x + self.o(a.reshape(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class FlatHeadsBlock(Block):
    """Attention by bmm over [B * H, S, D], an additive mask of large negative numbers, a soft cap of the scores."""

    def __init__(self, width=32, heads=4, kv=4, causal=True, p=0.0):
        super().__init__(width, heads, heads, causal, p)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)

        def heads(y):
            return y.view(B, S, -1, self.size).permute(0, 2, 1, 3).reshape(-1, S, self.size)

        q, k, v = heads(self.q(h)), heads(self.k(h)), heads(self.v(h))
        scores = torch.bmm(q, k.transpose(1, 2)) / self.size**0.5
        scores = 5.0 * torch.tanh(scores / 5.0)
        bias = torch.full((S, S), -1e9, device=x.device).triu(1)
        p = torch.softmax((scores + bias).float(), dim=-1).to(x.dtype)
        a = torch.bmm(p, v).view(B, self.heads, S, self.size).transpose(1, 2).contiguous().view(B, S, D)
        x = x + self.o(a)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ChunkedBlock(Block):
    """Heads by unflatten and permute of one projection viewed as [B, S, 3, H, D]; unbind."""

    def __init__(self, width=32, heads=4, kv=4, causal=True, p=0.0):
        super().__init__(width, heads, heads, causal, p)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + F.silu(gate) * up


class NormedHeadsBlock(Block):
    """Row 88: queries and keys normalised a head, as Qwen3; rotary angles from positions 0..S-1."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.q_norm, self.k_norm = nn.RMSNorm(self.size), nn.RMSNorm(self.size)

    def rotate(self, x, S):
        t = torch.arange(S, device=x.device, dtype=torch.float32)
        inv = 1.0 / 10000 ** (torch.arange(0, self.size, 2, device=x.device).float() / self.size)
        angles = torch.outer(t, inv)
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.rotate(self.q_norm(self.q(h).view(B, S, self.heads, self.size)).transpose(1, 2), S)
        k = self.rotate(self.k_norm(self.k(h).view(B, S, self.kv, self.size)).transpose(1, 2), S)
        v = self.v(h).view(B, S, self.kv, self.size).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ComplexRotaryBlock(NormedHeadsBlock):
    """Rotary by complex numbers, as Meta's Llama."""

    def rotate(self, x, S):
        inv = 1.0 / 10000 ** (torch.arange(0, self.size, 2, device=x.device).float() / self.size)
        angles = torch.outer(torch.arange(S, device=x.device).float(), inv)
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


class SinkBlock(Block):
    """Alibi: a bias that falls with the distance, by head; written out."""

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, S, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(B, S, self.kv, self.size).transpose(1, 2).repeat_interleave(2, 1)
        v = self.v(h).view(B, S, self.kv, self.size).transpose(1, 2).repeat_interleave(2, 1)
        place = torch.arange(S, device=x.device)
        slopes = 2.0 ** -torch.arange(1, self.heads + 1, device=x.device)
        bias = slopes[:, None, None] * (place[None, None, :] - place[None, :, None])
        bias = bias.masked_fill(place[None, :] > place[:, None], float("-inf"))
        a = torch.softmax(q @ k.mT * self.size**-0.5 + bias, -1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class AlibiFlashBlock(SinkBlock):
    """The same bias handed to the kernel."""

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, S, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(B, S, self.kv, self.size).transpose(1, 2)
        v = self.v(h).view(B, S, self.kv, self.size).transpose(1, 2)
        place = torch.arange(S, device=x.device)
        slopes = 2.0 ** -torch.arange(1, self.heads + 1, device=x.device)
        bias = slopes[:, None, None] * (place[None, None, :] - place[None, :, None])
        bias = bias.masked_fill(place[None, :] > place[:, None], float("-inf"))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(x.dtype), enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


BLOCKS = [
    Block,
    PackedBlock,
    WrittenOutBlock,
    EinsumBlock,
    QueryFirstEinsumBlock,
    GroupedEinsumBlock,
    FlatHeadsBlock,
    ChunkedBlock,
    NormedHeadsBlock,
    ComplexRotaryBlock,
    SinkBlock,
    AlibiFlashBlock,
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.__name__)
def test_way_to_write_attention(block):
    torch.manual_seed(0)
    language_model(Decoder(2, block=block)).check(2, 3, 4, whole_share=0.02)


def test_multihead_attention_module():
    """torch's own nn.MultiheadAttention, batch first, causal mask given."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Decoder(1)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, ids):
            x = self.body.tokens(ids)
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            return self.body.head(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])

    torch.manual_seed(0)
    language_model(M()).check(2, 3)


def test_transformer_encoder_layer():
    """torch's nn.TransformerEncoder in training mode, sequence first by default."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCAB, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, VOCAB)

        def forward(self, ids):
            return self.head(self.encoder(self.tokens(ids.t()))).transpose(0, 1)

    torch.manual_seed(0)
    language_model(M()).check(2, 3)


# ---- layouts


class SequenceFirst(nn.Module):
    """Rows 42, 85: [S, B, H, D] from the embedding to the logits, as Megatron. Logits [S, B, VOCAB]."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(VOCAB, 8 * heads), nn.Parameter(torch.randn(64, 1, 8 * heads) * 0.1)
        self.norm, self.qkv, self.o = nn.LayerNorm(8 * heads), nn.Linear(8 * heads, 24 * heads), nn.Linear(8 * heads, 8 * heads)
        self.head = nn.Linear(8 * heads, VOCAB)

    def forward(self, ids):
        x = self.tokens(ids).transpose(0, 1).contiguous() + self.places[: ids.shape[1]]
        S, B, D = x.shape
        q, k, v = torch.split(self.qkv(self.norm(x)).view(S, B, self.heads, 24), 8, dim=-1)
        q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.o(a.permute(2, 0, 1, 3).reshape(S, B, D)))


@pytest.mark.parametrize("S, heads, ranks", [(13, 4, (2, 3)), (12, 4, (2, 4)), (13, 5, (2, 3))])
def test_sequence_first(S, heads, ranks):
    torch.manual_seed(0)

    def loss(m, ids, labels):
        logits = m(ids)
        return F.cross_entropy(logits[:-1].reshape(-1, VOCAB), labels[:, 1:].t().reshape(-1), ignore_index=-100), logits

    language_model(SequenceFirst(heads), S=S, forward=loss).check(*ranks)


def test_inputs_sequence_first():
    """ids and labels themselves are [S, B]."""
    torch.manual_seed(0)
    batch = {k: v.t().contiguous() for k, v in tokens(3, 13, 4).items()}

    def loss(m, ids, labels):
        logits = m(ids.t())
        return F.cross_entropy(logits[:-1].flatten(0, 1), labels[1:].flatten(), ignore_index=-100)

    Comparison(SequenceFirst(), batch, loss).check(2, 3)


def test_batch_of_one_without_a_batch_dim():
    """[S] ids, 3-D attention [H, S, D]."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.qkv, self.head = nn.Embedding(VOCAB, 32), nn.Linear(32, 96), nn.Linear(32, VOCAB)

        def forward(self, ids):
            q, k, v = self.qkv(self.tokens(ids)).view(-1, 3, 4, 8).permute(1, 2, 0, 3)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.head(a.transpose(0, 1).flatten(1))

    torch.manual_seed(0)
    batch = {k: v[0] for k, v in tokens(1, 13, 4).items()}
    Comparison(M(), batch, lambda m, ids, labels: F.cross_entropy(m(ids)[:-1], labels[1:])).check(2, 3, whole_share=0.2)


# ---- bidirectional models


class Patches(nn.Module):
    """Row 50, ViT: patches of an image by a strided convolution, a class token in front, no mask; classifies by the class token."""

    def __init__(self, cls=True):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, 32)) if cls else None
        self.places = nn.Parameter(torch.randn(1, 12 + cls, 32) * 0.1)
        self.blocks = nn.ModuleList([Block(causal=False), Block(causal=False)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, image, label):
        x = self.patch(image).flatten(2).transpose(1, 2)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.places
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits = self.head(x[:, 0] if self.cls is not None else x.mean(1))
        return F.cross_entropy(logits, label), logits


@pytest.mark.parametrize("cls", [True, False])
def test_patches_of_an_image(cls):
    torch.manual_seed(0)
    batch = dict(image=torch.randn(2, 3, 16, 12), label=torch.tensor([3, 7]))
    Comparison(Patches(cls), batch, through_outputs=True).check(2, 4, whole_share=0.2)


@pytest.mark.parametrize("pool", ["mean", "masked mean", "first", "last valid", "max", "attention"])
@pytest.mark.parametrize("S", [10, 8])
def test_encoder_with_pooling(pool, S):
    """A sentence encoder: one vector a row, then a contrastive loss over rows."""
    torch.manual_seed(0)
    valid = torch.ones(3, S)
    valid[1, S - 3 :] = 0

    def loss(m, ids, valid):
        h = m.hidden(ids)
        if pool == "mean":
            z = h.mean(1)
        elif pool == "masked mean":
            z = (h * valid[..., None]).sum(1) / valid.sum(1, keepdim=True)
        elif pool == "first":
            z = h[:, 0]
        elif pool == "last valid":
            z = h[torch.arange(3), valid.sum(1).long() - 1]
        elif pool == "max":
            z = h.max(1).values
        else:
            z = torch.einsum("bs,bsd->bd", m.head(h)[..., 0].softmax(1), h)
        z = F.normalize(z, dim=-1)
        return F.cross_entropy(z @ z.t() * 5, torch.arange(3)), z

    batch = dict(ids=tokens(3, S)["ids"], valid=valid)
    Comparison(Decoder(1, causal=False), batch, loss, through_outputs=True).check(2, 4, whole_share=0.01)


# ---- positions (rows 11, 13, 17)


@pytest.mark.parametrize(
    "positions",
    [torch.arange(13), torch.arange(13).expand(2, -1).contiguous(), torch.arange(7, 20)[None], torch.tensor([*range(5), *range(8)])],
    ids=["1-D", "2-D", "from 7", "restarting"],
)
def test_position_ids(positions):
    torch.manual_seed(0)
    language_model(Decoder(1), positions=positions).check(2, 3)


def test_three_axes_of_positions():
    """Row 11: mRoPE's [3, B, S]."""
    torch.manual_seed(0)

    def loss(m, ids, labels, positions):
        logits = m(ids, positions=positions[0]) + m.head(m.places(positions[1:]).sum(0))
        return shifted_loss(logits, labels), logits

    language_model(Decoder(1), forward=loss, positions=torch.arange(13).expand(3, 2, -1).contiguous()).check(2, 3)


def test_positions_equal_to_other_sizes():
    """B = S = heads = 4: sizes say nothing about which dim is the sequence."""
    torch.manual_seed(0)
    language_model(Decoder(2), B=4, S=4).check(2, 3, 4)


# ---- lengths and heads


@pytest.mark.parametrize(
    "B, S, ranks", [(1, 15, (4,)), (1, 16, (4, 5)), (1, 17, (4,)), (1, 23, (4,)), (2, 30, (4,)), (1, 7, (2, 8)), (1, 2, (3,))]
)
def test_length(B, S, ranks):
    torch.manual_seed(0)

    def loss(m, ids, labels):
        logits = m(ids)
        return F.cross_entropy(logits.view(-1, VOCAB), ids.view(-1)), logits

    language_model(Decoder(1), B, S, loss).check(*ranks)


@pytest.mark.parametrize(
    "heads, kv, ranks",
    [
        (40, 8, (5, 8, 10, 16)),
        (7, 7, (4,)),
        (5, 5, (2,)),
        (28, 4, (2, 4)),
        (7, 1, (2, 4)),
        (6, 2, (4, 5)),
        (2, 1, (4,)),
        (6, 3, (2, 4)),
        (20, 20, (8,)),
    ],
)
def test_heads(heads, kv, ranks):
    """Rows 90-95: heads that the ranks do not divide, fewer heads than ranks, one key head."""
    torch.manual_seed(0)
    language_model(Decoder(1, width=4 * heads, heads=heads, kv=kv), B=1, S=17).check(*ranks)
