"""Dropout whose mask is a pure function of (seed, op, global position).

So every sharding of a value drops the same elements as one process does, and running it again (checkpointing) drops them again.
Only integer arithmetic on ATen ops: Inductor fuses it into its neighbours and no mask need be stored. The mixer is the 32-bit
finaliser `lowbias32` (github.com/skeeto/hash-prospector), applied to the low and then to the high word of the position.
"""

import math

import torch
from torch import Tensor

from .layout import Cut

_WORD = 0xFFFFFFFF
# lowbias32's factors and the golden ratio as signed words: a product with a word stays inside int64.
_FACTORS = (0x7FEB352D, 0x846CA68B - 2**32)
_GOLDEN = 0x9E3779B9 - 2**32


def dropout(x: Tensor, p: float, seed: Tensor, op_id: int, cut: tuple | None, global_shape: tuple, rank: int) -> Tensor:
    """x / (1 - p) where kept, else 0. `seed` is int64 []; `cut` says which part of `global_shape` is local (None: all)."""
    if p == 0.0:
        return x
    kept = random_words(seed, op_id, positions(cut, global_shape, rank, x.device)) >= round(p * 2**32)
    return torch.where(kept, x * (0.0 if p >= 1.0 else 1.0 / (1.0 - p)), 0.0)


def positions(cut: tuple | None, global_shape: tuple, rank: int, device: torch.device) -> Tensor:
    """int64, of the local shape: row-major index of each local element in the global tensor."""
    if cut is None:
        return torch.arange(math.prod(global_shape), device=device).view(global_shape)
    dim, outer, _, ranges = part = Cut(*cut).elements()
    lo, hi = ranges[rank]
    before, after = math.prod(global_shape[:dim]), math.prod(global_shape[dim + 1 :])
    along = torch.arange(lo, hi, device=device)
    if outer > 1:
        along = (torch.arange(outer, device=device) * part.units).unsqueeze(1) + along
        along = along.view(outer * (hi - lo))
    index = along.view(-1, 1) * after + torch.arange(after, device=device)
    index = (torch.arange(before, device=device) * (global_shape[dim] * after)).view(-1, 1, 1) + index
    return index.view(*global_shape[:dim], outer * (hi - lo), *global_shape[dim + 1 :])


def random_words(seed: Tensor, op_id: int, position: Tensor) -> Tensor:
    """Uniform in [0, 2**32), int64, one word per position."""
    first = _mix((seed & _WORD) ^ _mix_int(op_id & _WORD))
    second = _mix(((seed >> 32) & _WORD) ^ _add(first, op_id + 1))
    word = _mix((position & _WORD) ^ first)
    return _mix(_add(word ^ second, position >> 32))


def _mix(word: Tensor) -> Tensor:
    word = word ^ (word >> 16)
    word = (word * _FACTORS[0]) & _WORD
    word = word ^ (word >> 15)
    word = (word * _FACTORS[1]) & _WORD
    return word ^ (word >> 16)


def _mix_int(word: int) -> int:
    word ^= word >> 16
    word = (word * _FACTORS[0]) & _WORD
    word ^= word >> 15
    word = (word * _FACTORS[1]) & _WORD
    return word ^ (word >> 16)


def _add(word: Tensor, step: Tensor | int) -> Tensor:
    """Adds a multiple of the golden ratio; zero steps change nothing."""
    return (word + (step & _WORD) * _GOLDEN) & _WORD
