"""Cross-entropy over rows that are cut across ranks; equal to torch's on the whole.

Every row has one loss (class indices, class probabilities, weights and label smoothing alike: torch's own `reduction="none"`). The
mean divides the sum of all rows by one normaliser: the weights of the targets that are not ignored, their count without weights, or
the number of rows for class probabilities. Both sums travel in one collective, in fp64: no overflow of half types, same bits on all
ranks. Where every target is ignored, the loss is NaN and the gradient zero, as in torch.
"""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from .collectives import sum_everywhere

_REDUCTIONS = ("none", "mean", "sum")


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    rows: int,
    group: str | None,
) -> Tensor:
    """Arguments as `aten.cross_entropy_loss` (reduction: 0 none, 1 mean, 2 sum), on local rows.

    rows   global number of rows (elements of the logits by classes): the normaliser with class probabilities
    group  None: nothing is cut, or the sum is left partial
    """
    local = group is None or reduction == 0
    losses = functional.cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=_REDUCTIONS[reduction] if local else "none",
        label_smoothing=label_smoothing,
    )
    if local:
        return losses
    total = losses.sum(dtype=torch.float64)
    if reduction == 2:
        return _Sum.apply(total, group).to(losses.dtype)
    return _Mean.apply(total, _normaliser(logits, target, weight, ignore_index, rows), group).to(losses.dtype)


def _normaliser(logits: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, rows: int) -> Tensor | int:
    """This rank's part of what the mean divides by, fp64 []; the whole number of rows where it needs no sum."""
    if target.is_floating_point():
        return rows
    valid = target != ignore_index
    if weight is None:
        return valid.sum().to(torch.float64)
    weights = weight.detach().to(torch.float64)[torch.where(valid, target, 0)]
    return torch.where(valid, weights, 0.0).sum()


class _Sum(Function):
    @staticmethod
    def forward(ctx, total, group):
        return sum_everywhere([total], group)[0]

    @staticmethod
    def backward(ctx, g):
        return g, None


class _Mean(Function):
    """sum / normaliser over the group. The gradient of the loss is whole, that of the local sum is local: no collective."""

    @staticmethod
    def forward(ctx, total, normaliser, group):
        if isinstance(normaliser, int):
            ctx.save_for_backward(total.new_full((), normaliser))
            return sum_everywhere([total], group)[0] / (normaliser or torch.nan)
        total, normaliser = sum_everywhere([torch.stack([total, normaliser])], group)[0].unbind(0)
        ctx.save_for_backward(normaliser)
        return total / normaliser

    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0], None, None
