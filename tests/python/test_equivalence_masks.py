"""Masks and packed documents (cases.md: PACK, LOSS 62 and 67): every mask that attention is given, or builds, stays exact. Documents of
uneven length cross the edges of shards."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autosp import collective_list
from sharded_runs import Comparison
from small_models import VOCAB, Decoder, tokens

LENGTHS = [7, 3, 1, 6]  # 17 positions


def segments(S=17, lengths=LENGTHS):
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[:S]


def case(mask, B=2, S=17, extra=None, causal=True, **options):
    """mask(ids, **extra) -> what scaled_dot_product_attention is given."""
    torch.manual_seed(0)

    def forward(m, ids, labels, **rest):
        logits = m(ids, mask(ids, **rest))
        return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=-100), logits

    return Comparison(Decoder(2, causal=causal), tokens(B, S, 3) | (extra or {}), forward, through_outputs=True, **options)


def places(ids):
    return torch.arange(ids.shape[1])


def causal(ids):
    q = places(ids)
    return q[None, :] <= q[:, None]


def tril(ids):
    return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()


def additive(ids):
    return torch.full((ids.shape[1],) * 2, float("-inf")).triu(1)


def window(ids):
    q = places(ids)
    return (q[None, :] <= q[:, None]) & (q[None, :] > q[:, None] - 5)


def two_sided_window(ids):
    return (places(ids)[None, :] - places(ids)[:, None]).abs() < 4


def prefix(ids):
    q = places(ids)
    return (q[None, :] <= q[:, None]) | (q[None, :] < 6)


def blocks(ids):
    return places(ids)[None, :] // 4 <= places(ids)[:, None] // 4


def padding_ids(ids):
    """From the ids themselves: id 5 is padding; the first key is always visible."""
    visible = (ids != 5) | (places(ids) == 0)
    return causal(ids) & visible[:, None, None, :]


MASKS = [causal, tril, additive, window, two_sided_window, prefix, blocks, padding_ids]


@pytest.mark.parametrize("mask", MASKS, ids=lambda f: f.__name__)
def test_mask_built_by_the_model(mask):
    case(mask).check(2, 3, 4)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["keys", "causal and keys", "additive"])
def test_padded_rows(side, kind):
    """Rows 12, 15, 16: key padding [B, 1, 1, S]; 5 of 17 positions of the second row are padding and carry no target."""
    valid = torch.ones(2, 17, dtype=torch.long)
    valid[1, slice(12, None) if side == "right" else slice(0, 5)] = 0
    labels = tokens(2, 17)["labels"].masked_fill(valid == 0, -100)

    def mask(ids, valid):
        keys = valid[:, None, None, :].bool()
        if kind == "keys":
            return keys
        if kind == "causal and keys":
            return keys & causal(ids)
        return (1.0 - valid[:, None, None, :]) * torch.finfo(torch.float32).min + torch.triu(torch.full((17, 17), -1e9), 1)

    case(mask, extra=dict(valid=valid, labels=labels), causal=kind != "keys").check(2, 3, whole_share=0.02)


@pytest.mark.parametrize("ranks", [2, 3])
def test_no_collective_carries_booleans(ranks):
    """Inductor promotes a bool tensor, with the integers among a collective's arguments, to int64, and then fails on the mask."""
    valid = torch.ones(2, 17, dtype=torch.long)
    valid[1, 12:] = 0
    c = case(lambda ids, valid: valid[:, None, None, :].bool() & causal(ids), extra=dict(valid=valid), causal=False)
    graphs = c.run(ranks).forward
    carried = [dtype for g in graphs for found in collective_list.collectives_of(g) for dtype in found.dtype.split(",")]
    assert "uint8" in carried and "bool" not in carried


@pytest.mark.parametrize("how", ["document ids", "position ids", "cumulative lengths"])
def test_packed_documents(how):
    """Rows 2, 3, 5-9, 67: documents see only themselves; their last positions carry no target."""
    ids_of = segments()
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    ends = torch.tensor(LENGTHS).cumsum(0)
    labels = tokens(1, 17)["labels"].clone()
    labels[:, positions == 0] = -100
    extra = {
        "document ids": dict(documents=ids_of[None]),
        "position ids": dict(positions=positions[None]),
        "cumulative lengths": dict(ends=ends),
    }

    def mask(ids, documents=None, positions=None, ends=None):
        if positions is not None:
            documents = (positions == 0).cumsum(-1)
        if ends is not None:
            documents = torch.searchsorted(ends, torch.arange(ids.shape[1]), right=True)[None]
        return (documents[:, None, :] == documents[:, :, None])[:, None] & causal(ids)

    case(mask, B=1, extra=dict(labels=labels) | extra[how]).check(2, 4, whole_share=0.05, made_whole=1)


def test_packed_equals_unpacked():
    """Row 3: the gradients of a packed row are those of its documents run one by one."""
    torch.manual_seed(0)
    model, ids = Decoder(1), tokens(1, 17)["ids"]
    model.places.weight.data.zero_()
    documents = segments()[None]
    total = 0.0
    for d in range(len(LENGTHS)):
        own = ids[:, documents[0] == d]
        total = total + F.cross_entropy(model(own)[0, :-1], own[0, 1:], reduction="sum")
    total.backward()
    expected = {n: p.grad for n, p in model.named_parameters() if n != "places.weight"}
    model.zero_grad()

    def forward(m, ids, documents):
        mask = (documents[:, None, :] == documents[:, :, None])[:, None] & causal(ids)
        target = ids[:, 1:].masked_fill(documents[:, 1:] != documents[:, :-1], -100)
        return F.cross_entropy(m(ids, mask)[:, :-1].transpose(1, 2), target, reduction="sum", ignore_index=-100)

    c = Comparison(model, dict(ids=ids, documents=documents), forward)
    c.check(2, 4)
    c.expected_grads |= expected
    c.compare(c.threads(4), 4)


def test_labels_shifted_within_documents():
    """Row 62: targets 1, 2 and 3 ahead count only inside a document."""
    documents = segments(32, [13, 19])[None]

    def forward(m, ids, documents):
        mask = (documents[:, None, :] == documents[:, :, None])[:, None] & causal(ids)
        logits, loss = m(ids, mask), 0.0
        for k in (1, 2, 3):
            target = ids[:, k:].masked_fill(documents[:, k:] != documents[:, :-k], -100)
            loss = loss + F.cross_entropy(logits[:, :-k].transpose(1, 2), target, ignore_index=-100)
        return loss

    torch.manual_seed(0)
    Comparison(Decoder(1), dict(ids=tokens(1, 32)["ids"], documents=documents), forward).check(4)


def test_mask_of_the_caller():
    """A whole [B, 1, S, S] mask as input: which of its dims are the sequence follows from attention."""
    given = (torch.rand(2, 1, 17, 17, generator=torch.Generator().manual_seed(2)) < 0.6) | torch.eye(17, dtype=torch.bool)
    case(lambda ids, given: given, extra=dict(given=given)).check(2, 3)


def test_learned_bias():
    """A bias over pairs of positions that has a gradient: [H, S, S] of a table of relative distances, as T5."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.table = Decoder(1), nn.Embedding(33, 4)

        def forward(self, ids):
            q = torch.arange(ids.shape[1])
            bias = self.table(q[None, :] - q[:, None] + 16).permute(2, 0, 1)[None]
            return self.body(ids, bias)

    torch.manual_seed(0)

    def loss(m, ids, labels):
        return F.cross_entropy(m(ids)[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=-100)

    Comparison(M(), tokens(2, 17, 3), loss).check(2, 3)


def test_row_that_sees_nothing():
    """A padding query with no visible key: what the kernel gives there must not leak."""

    def mask(ids, valid):
        return (valid[:, None, :, None] & valid[:, None, None, :]) & causal(ids)

    valid = torch.ones(2, 17, dtype=torch.bool)
    valid[0, :4] = False
    labels = tokens(2, 17)["labels"].masked_fill(~valid, -100)
    case(mask, extra=dict(valid=valid, labels=labels)).check(2, 3)
