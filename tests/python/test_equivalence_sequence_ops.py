"""Ops along the sequence between attention and loss: windows, strides, pairs of positions, scans, sorts, gathers. Each must be exact on
shards of uneven length; which of them run cut is not asked here, only that the rest of the model does."""

import pytest
import torch
from torch.nn import functional as F

from sharded_runs import Comparison
from small_models import VOCAB, Decoder, tokens

KERNEL = torch.randn(32, 1, 3, generator=torch.Generator().manual_seed(4)).double() * 0.3
DENSE = torch.randn(32, 32, 3, generator=torch.Generator().manual_seed(5)).double() * 0.1


def pooled(f):
    return lambda h, ids: f(h.transpose(1, 2)).transpose(1, 2)


OPS = {
    "every second": lambda h, ids: h[:, ::2],
    "every third from one": lambda h, ids: h[:, 1::3],
    "reversed": lambda h, ids: h.flip(1),
    "rolled": lambda h, ids: h.roll(3, 1),
    "rolled back": lambda h, ids: h.roll(-1, 1),
    "token shift": lambda h, ids: h + 0.5 * F.pad(h, (0, 0, 1, -1)),
    "pad and crop": lambda h, ids: F.pad(h, (0, 0, 2, 3))[:, 1:-1],
    "pad left": lambda h, ids: F.pad(h, (0, 0, 4, 0)),
    "difference": lambda h, ids: h[:, 1:] - h[:, :-1],
    "diff": lambda h, ids: torch.diff(h, dim=1),
    "second difference": lambda h, ids: h[:, 2:] - 2 * h[:, 1:-1] + h[:, :-2],
    "middle": lambda h, ids: h[:, 4:9],
    "narrow": lambda h, ids: h.narrow(1, 5, 6),
    "one position": lambda h, ids: h[:, 7:8] * h,
    "select": lambda h, ids: h.select(1, -2)[:, None] + h,
    "listed positions": lambda h, ids: h[:, [1, 3, 11]],
    "index_select": lambda h, ids: h.index_select(1, torch.tensor([0, 5, 5, 12])),
    "gather": lambda h, ids: h.gather(1, (ids % 13)[..., None].expand(-1, -1, 32)),
    "rows by index": lambda h, ids: h[torch.arange(2)[:, None], ids[:, :4] % 13],
    "halves swapped": lambda h, ids: torch.cat([h[:, 6:], h[:, :6]], 1),
    "first to the end": lambda h, ids: torch.cat([h[:, 1:], h[:, :1]], 1),
    "doubled": lambda h, ids: torch.cat([h, 2 * h], 1),
    "interleaved": lambda h, ids: torch.stack([h, 2 * h], 2).flatten(1, 2),
    "repeated": lambda h, ids: h.repeat(1, 2, 1),
    "repeat_interleave": lambda h, ids: h.repeat_interleave(2, 1),
    "pairs": lambda h, ids: h[:, :12].reshape(2, 6, 64)[..., :32],
    "pair means": lambda h, ids: h[:, :12].view(2, 6, 2, 32).mean(2),
    "chunks of four": lambda h, ids: h[:, :12].unflatten(1, (3, 4)).cumsum(2).flatten(1, 2),
    "strided blocks": lambda h, ids: h[:, :12].unflatten(1, (4, 3)).sum(1),
    "windows": lambda h, ids: h.unfold(1, 3, 1).mean(-1),
    "chunk": lambda h, ids: torch.cat([c * (i + 1) for i, c in enumerate(h.chunk(3, 1))], 1),
    "split": lambda h, ids: torch.cat([c * (i + 1) for i, c in enumerate(h.split([2, 7, 4], 1))], 1),
    "running sum": lambda h, ids: h.cumsum(1) / torch.arange(1, 14)[:, None],
    "running maximum": lambda h, ids: h.cummax(1).values,
    "softmax over positions": lambda h, ids: h.softmax(1) * 13,
    "normalised over positions": lambda h, ids: (h - h.mean(1, keepdim=True)) / (h.var(1, keepdim=True) + 1e-5).sqrt(),
    "std over positions": lambda h, ids: h / h.std(1, keepdim=True),
    "norm over positions": lambda h, ids: F.normalize(h, dim=1),
    "maximum": lambda h, ids: h - h.amax(1, keepdim=True),
    "largest position": lambda h, ids: h.max(1, keepdim=True).values + h,
    "logsumexp": lambda h, ids: h - h.logsumexp(1, keepdim=True),
    "median": lambda h, ids: h - h.median(1, keepdim=True).values,
    "product": lambda h, ids: h * (1 + 0.01 * h).prod(1, keepdim=True),
    "sorted": lambda h, ids: h.sort(1).values,
    "best positions": lambda h, ids: h.topk(4, 1).values,
    "by another order": lambda h, ids: h.gather(1, h[..., :1].argsort(stable=True, dim=1).expand(-1, -1, 32)),
    "triangle": lambda h, ids: torch.ones(13, 13, dtype=h.dtype).tril() @ h / 13,
    "outer": lambda h, ids: (h @ h.transpose(1, 2)).relu() @ h / 100,
    "causal convolution": pooled(lambda x: F.conv1d(F.pad(x, (2, 0)), KERNEL, groups=32)),
    "causal convolution, cropped": pooled(lambda x: F.conv1d(x, KERNEL, padding=2, groups=32)[..., :13]),
    "convolution": pooled(lambda x: F.conv1d(x, DENSE, padding=1)),
    "strided convolution": pooled(lambda x: F.conv1d(x, DENSE, stride=2)),
    "average pool": pooled(lambda x: F.avg_pool1d(x, 2)),
    "maximum pool": pooled(lambda x: F.max_pool1d(x, 3, 1, 1)),
    "adaptive pool": pooled(lambda x: F.adaptive_avg_pool1d(x, 4)),
    "interpolated": pooled(lambda x: F.interpolate(x, scale_factor=2.0)),
    "scatter": lambda h, ids: h.new_zeros(2, 5, 32).scatter_add(1, (ids % 5)[..., None].expand(-1, -1, 32), h),
    "index_add": lambda h, ids: h.new_zeros(2, 6, 32).index_add(1, torch.arange(13) % 6, h),
    "index_put": lambda h, ids: h.index_put((torch.tensor([0, 1]), torch.tensor([3, 12])), h.new_ones(2, 32)),
    "slice written": lambda h, ids: h.slice_scatter(h.new_ones(2, 4, 32), 1, 5, 9),
    "position written": lambda h, ids: h.select_scatter(h.new_ones(2, 32), 1, 6),
    "where by position": lambda h, ids: torch.where(torch.arange(13)[:, None] < 5, h, 2 * h),
    "masked by first": lambda h, ids: h * (ids == ids[:, :1])[..., None],
    "by counts": lambda h, ids: h / (ids[..., None] == ids[:, None, :]).sum(-1, keepdim=True),
    "mean of all": lambda h, ids: h - h.mean(),
    "largest of all": lambda h, ids: h / h.abs().max(),
    "fft": lambda h, ids: torch.fft.fft(h, dim=1).real / 13,
    "movedim": lambda h, ids: h.movedim(1, 0).flatten(1).view(13, 2, 32).transpose(0, 1),
    "flat and back": lambda h, ids: h.reshape(26, 32).view(2, 13, 32),
    "batch in front of sequence": lambda h, ids: h.transpose(0, 1).reshape(26, 32),
    "all in one row": lambda h, ids: h.reshape(1, 26, 32),
    "features first": lambda h, ids: h.reshape(2, -1)[:, :96].view(2, 3, 32),
    "cdist": lambda h, ids: torch.cdist(h, h).softmax(-1) @ h,
    "bucketed": lambda h, ids: h * torch.bucketize(ids, torch.tensor([20, 50, 80]))[..., None],
    "tril of features": lambda h, ids: h.tril(),
    "diagonal": lambda h, ids: torch.diagonal(h, dim1=1, dim2=2),
    "einsum over positions": lambda h, ids: torch.einsum("bsd,bse->bde", h, h) / 13,
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_op_along_the_sequence(name):
    torch.manual_seed(0)
    model = Decoder(2).double()
    constants = {"weight": torch.cos(torch.arange(VOCAB, dtype=torch.float64))}

    def forward(m, ids, weight):
        x = m.tokens(ids)
        h = m.norm(m.blocks[1](m.blocks[0](x)))
        y = OPS[name](h, ids).double()
        weights = torch.sin(torch.arange(y.numel(), dtype=torch.float64)).view(y.shape)
        return (y * weights).sum() / y.numel() + (m.head(h) * weight).mean(), y

    batch = dict(ids=tokens(2, 13)["ids"]) | constants
    c = Comparison(model, batch, forward, through_outputs=True, tolerance=1e-9)
    c.check(2, 4, made_whole=10, whole_share=0.5)
