"""Ops whose result has a size that torch reads from the data, where that size is known: written so that tracing sees it."""

import torch
from torch import Tensor


def bincount(values: Tensor, weights: Tensor | None, size: int) -> Tensor:
    """How often each of 0..size-1 stands in `values` [n], or the sum of `weights` [n] there. int64, or the type torch gives: fp64 for
    weights that are not fp32. A value outside is an error of indexing."""
    if weights is None:
        counted = torch.ones_like(values, dtype=torch.int64)
    else:
        counted = weights if weights.dtype is torch.float32 else weights.double()
    return counted.new_zeros(size).scatter_add(0, values.long(), counted)
