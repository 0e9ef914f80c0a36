"""A 64-bit hash of a tensor's bits, in a few vectorised passes on the device where the tensor lies.

Seen as int64 words x_i (the trailing bytes of narrow types are words of their own):

    sum_i (x_i + (x_i >> 32)) * w_i  mod 2^64,   w_i odd: a fixed mix of (i mod 2^15) times a fixed mix of (i div 2^15)

The added upper half (arithmetic shift) is there so that every change reaches the low bits: without it the sum forgets that two top bits
were flipped, as in a negated tensor. A change of one word, exchanged words and shifts then go unseen in less than one case of 2^31. It
finds faults, not attackers.
Integer addition commutes, so the value depends on nothing but the bits: not on threads, blocks or device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_PERIOD = 1 << 15  # words in a row; the weights of the columns (256 KiB) stay in a core's cache
_CPU_ROWS = 1  # rows hashed at a time, so that the row stays there too
_ROWS = 32  # the same on other devices, where the launches count
_weights: dict[torch.device, torch.Tensor] = {}


def bit_hashes(tensors: Sequence[torch.Tensor]) -> list[int]:
    """One signed 64-bit hash per tensor (values only: not shape, not dtype). One transfer from the device for all of them."""
    if not tensors:
        return []
    with torch.no_grad():
        hashes = [_hash(t.detach()) for t in tensors]
        home = hashes[0].device
        return torch.stack([h.to(home) for h in hashes]).tolist()


def _hash(t: torch.Tensor) -> torch.Tensor:
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    total = torch.zeros((), dtype=torch.int64, device=t.device)
    if t.numel() == 0:
        return total
    flat = t.contiguous().reshape(-1)
    if flat.dtype == torch.int64:
        return _words(flat, total)
    size = flat.element_size()
    if flat.storage_offset() * size % 8:
        flat = flat.clone()
    whole = flat.numel() * size // 8 * 8 // size
    if whole:
        _words(flat[:whole].view(torch.int64), total)
    if whole < flat.numel():
        tail = flat[whole:].clone().view(torch.uint8).to(torch.int64)
        total += _words(tail, torch.zeros_like(total)) * 0x9E3779B97F4A7C1  # apart from the sum of the words before it
    return total


def _words(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Adds the hash of the int64 words x to total."""
    n, start, rows = x.numel(), 0, _CPU_ROWS if x.device.type == "cpu" else _ROWS
    columns = _table(x.device)
    buffer = torch.empty(min(n, rows * _PERIOD), dtype=torch.int64, device=x.device)
    while start < n:
        width = min(_PERIOD, n - start)
        height = min(rows, (n - start) // width)
        stop = start + width * height
        part, y = x[start:stop].view(height, width), buffer[: width * height].view(height, width)
        torch.bitwise_right_shift(part, 32, out=y)
        y.add_(part).mul_(columns[:width])
        first = _PERIOD + start // _PERIOD  # apart from the numbers of the columns
        total += (y.sum(1) * torch.tensor([_odd(first + k) for k in range(height)], device=x.device)).sum()
        start = stop
    return total


def _odd(k: int) -> int:
    """splitmix64 of k, made odd, as a signed 64-bit integer."""
    mask = 2**64 - 1
    z = (k + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    z = (z ^ z >> 31) | 1
    return z - 2**64 if z >> 63 else z


def _table(device: torch.device) -> torch.Tensor:
    """The weights of the columns: `_odd` of 0, 1, 2, ..., kept per device."""
    if device not in _weights:
        z = (torch.arange(_PERIOD, dtype=torch.int64, device="cpu") + 1) * _signed(0x9E3779B97F4A7C15)
        z = (z ^ _logical_shift(z, 30)) * _signed(0xBF58476D1CE4E5B9)
        z = (z ^ _logical_shift(z, 27)) * _signed(0x94D049BB133111EB)
        _weights[device] = ((z ^ _logical_shift(z, 31)) | 1).to(device)
    return _weights[device]


def _signed(k: int) -> int:
    return k - 2**64 if k >> 63 else k


def _logical_shift(z: torch.Tensor, k: int) -> torch.Tensor:
    return (z >> k) & ((1 << (64 - k)) - 1)
