"""Small models written by hand, as users write them, and batches for them: what the equivalence tests run besides transformers' models."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 97


class Block(nn.Module):
    """Pre-norm decoder block of grouped-query attention by scaled_dot_product_attention. heads: of queries; kv: of keys and values."""

    def __init__(self, width=32, heads=4, kv=2, causal=True, p=0.0):
        super().__init__()
        self.heads, self.kv, self.size, self.causal, self.p = heads, kv, width // heads, causal, p
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, kv * self.size)
        self.v, self.o = nn.Linear(width, kv * self.size), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, mask=None):
        B, S, D = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, S, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(B, S, self.kv, self.size).transpose(1, 2)
        v = self.v(h).view(B, S, self.kv, self.size).transpose(1, 2)
        a = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal and mask is None, enable_gqa=self.kv != self.heads
        )
        x = x + F.dropout(self.o(a.transpose(1, 2).reshape(B, S, D)), self.p, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.p, self.training)


class Decoder(nn.Module):
    """Token and learned position embeddings, blocks, final norm, untied head: [B, S] ids -> [B, S, VOCAB] logits, [B, S, width] hidden."""

    def __init__(self, layers=1, width=32, heads=4, kv=2, causal=True, p=0.0, block=Block):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, width), nn.Embedding(128, width)
        self.blocks = nn.ModuleList(block(width, heads, kv, causal, p) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids, mask=None, positions=None):
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        x = self.tokens(ids) + self.places(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)

    def forward(self, ids, mask=None, positions=None):
        return self.head(self.hidden(ids, mask, positions))


class PackedBlock(nn.Module):
    """nanoGPT's block: one Linear for q, k and v, split; attention written out over a registered tril buffer when `flash` is False."""

    flash = True

    def __init__(self, width=32, heads=4, kv=None, causal=True, p=0.0):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x, mask=None):
        B, S, D = x.size()
        q, k, v = self.qkv(self.norm1(x)).split(D, dim=2)
        k = k.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        q = q.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        v = v.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :S, :S] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        x = x + self.o(y.transpose(1, 2).contiguous().view(B, S, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class WrittenOutBlock(PackedBlock):
    flash = False


def tokens(B: int, S: int, ignored: int = 0, seed: int = 1) -> dict:
    """ids [B, S] and labels equal to them, the first `ignored` of each row -100."""
    ids = torch.randint(3, VOCAB, (B, S), generator=torch.Generator().manual_seed(seed))
    labels = ids.clone()
    labels[:, :ignored] = -100
    return dict(ids=ids, labels=labels)


def shifted_loss(logits, labels, **options):
    """Mean cross entropy of each position's next label."""
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=-100, **options)
