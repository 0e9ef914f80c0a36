"""Activation checkpointing on programs of every kind: whatever is saved and run again, gradients stay, and the graphs do what was planned."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from checkpoint_runs import ATTENTION, calls, every_mode, under
from sharded_runs import Comparison
from small_models import VOCAB, Block, Decoder, shifted_loss, tokens

LENGTH = 13  # not a multiple of 2 or 3


def case(model, forward=None, S=LENGTH, **options):
    torch.manual_seed(0)
    return Comparison(model(), tokens(2, S, 3), forward or loss_of, **options)


def loss_of(m, ids, labels):
    return shifted_loss(m(ids), labels)


class LlamaBlock(Block):
    """RMSNorm, grouped-query attention, SwiGLU."""

    def __init__(self, width=32, heads=4, kv=2, causal=True, p=0.0):
        super().__init__(width, heads, kv, causal, p)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.gate = nn.Linear(width, 2 * width)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(B, S, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, D))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def twice():
    model = Decoder(1)
    model.blocks.append(model.blocks[0])
    return model


def tied():
    model = Decoder(1)
    model.head.weight = model.tokens.weight
    return model


class Views(Decoder):
    """A slice that is saved for a product pins all it is cut from; an expanded value is smaller than it looks; a base and a view of it
    are both read by the backward."""

    def forward(self, ids):
        h = self.hidden(ids)
        wide = torch.cat([h, h.sin(), h.cos()], -1)
        part = wide[..., 16:48]
        scale = h.mean(-1, keepdim=True).exp().expand(-1, -1, 32)
        return self.head(part * scale + part.transpose(1, 2).contiguous().transpose(1, 2).sigmoid() * wide[..., :32])


class Several(Decoder):
    """Ops with several results, some of which nothing reads."""

    def forward(self, ids):
        h = self.hidden(ids)
        a, b = h.exp().split(16, -1)
        largest, _ = a.max(-1, keepdim=True)
        best, where = b.topk(4, -1)
        var, mean = torch.var_mean(h, -1, keepdim=True)
        return self.head((h - mean) * torch.rsqrt(var + 1e-5) * largest.sigmoid() + best.mean(-1, keepdim=True) + where.sum())


def two_losses(m, ids, labels):
    """What both losses need: the hidden states."""
    h = m.hidden(ids)
    return shifted_loss(m.head(h), labels) + (h.tanh() @ m.tokens.weight.t()).pow(2).mean()


def returned_and_saved(m, ids, labels):
    """The squashed states are an output of the program, and read by the backward."""
    h = m.hidden(ids).tanh()
    return shifted_loss(m.head(h * h), labels), h


def without_gradients(m, ids, labels):
    with torch.no_grad():
        teacher = m(ids).softmax(-1)
    logits = m(ids) + torch.tensor([0.5])
    return F.kl_div(logits.log_softmax(-1), teacher, reduction="batchmean") + shifted_loss(logits - logits.detach().mean(-1, True), labels)


class Padded(Decoder):
    def __init__(self):
        super().__init__(1)
        self.tokens = nn.Embedding(VOCAB, 32, padding_idx=5)

    def forward(self, ids):
        return self.head(self.hidden(ids) * self.tokens(ids).sigmoid())


PROGRAMS = {
    "llama": lambda: case(lambda: Decoder(2, block=LlamaBlock)),
    "tied weights": lambda: case(tied),
    "same block twice": lambda: case(twice),
    "views": lambda: case(lambda: Views(1)),
    "several results": lambda: case(lambda: Several(1)),
    "two losses": lambda: case(lambda: Decoder(1), two_losses),
    "returned and saved": lambda: case(lambda: Decoder(1), returned_and_saved),
    "no_grad": lambda: case(lambda: Decoder(1), without_gradients),
    "embeddings": lambda: case(Padded),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_stocks_and_what_is_saved_is_what_was_planned(name):
    c = PROGRAMS[name]()
    for ranks in (1, 2, 3):
        modes = every_mode(c, ranks)
        full, plans = modes["full"]
        for report, plan in zip(full.joint, plans, strict=True):
            numbers = report.checkpoints
            assert numbers["recomputed_matmuls"] > 0 and numbers["recomputed_attention"] > 0
            assert plan.saved, "nothing is saved"
        assert full.joint[0].checkpoints["saved"] < modes["stock"][0].joint[0].checkpoints["saved"]
