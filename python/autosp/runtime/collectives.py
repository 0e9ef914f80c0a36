"""The raw collectives: one `_c10d_functional` op and its wait each, on rows.

Rules that keep the group alive. Every rank issues the same collectives in the same order, also where it has nothing to send or to
receive. What a collective sends depends, in the graph, on what it was computed from, also where it is empty or all padding: a
backward collective that does not depend on a tangent would be moved into the forward graph, on that rank only (`tie`).
"""

import torch
from torch import Tensor
from torch.nn import functional

from .layout import accumulation_dtype

_ops = torch.ops._c10d_functional


def tie(x: Tensor, *sources: Tensor) -> Tensor:
    """`x`, made to depend on every source: adds the sum of no elements, an exact 0 that is never NaN."""
    for source in sources:
        nothing = source.reshape(1) if source.dim() == 0 else source
        x = x + nothing.narrow(0, 0, 0).sum().to(x.dtype)
    return x


def sum_everywhere(xs: list[Tensor], group: str) -> list[Tensor]:
    """All-reduce. Tensors of one dtype travel in one buffer, and the results are parts of what arrives: gloo would pack those of a
    coalesced collective once more, beside the two buffers that the graph knows of."""
    results: list[Tensor] = list(xs)
    for dtype in dict.fromkeys(x.dtype for x in xs):
        places = [i for i, x in enumerate(xs) if x.dtype == dtype]
        one = len(places) == 1
        sent = xs[places[0]].contiguous() if one else torch.cat([xs[i].reshape(-1) for i in places])
        summed = _ops.wait_tensor(_ops.all_reduce(sent, "sum", group))
        parts = [summed] if one else summed.split([xs[i].numel() for i in places])
        for i, y in zip(places, parts):
            results[i] = y.view(xs[i].shape)
    return results


def _on_the_wire(x: Tensor) -> Tensor:
    """Booleans travel as bytes: Inductor's lowering of a collective promotes a bool tensor, with the integers among the op's arguments,
    to int64. They are converted, not viewed: its C++ code for a view as bool does not compile."""
    return x.to(torch.uint8) if x.dtype == torch.bool else x


def gather_rows(x: Tensor, counts: list[int], group: str) -> Tensor:
    """[own rows, features] -> [rows of rank 0, rows of rank 1, ...]. Pieces are padded to the longest on the way."""
    longest = max(counts)
    if x.shape[0] == 0:
        sent = tie(x.new_zeros(longest, x.shape[1]), x)
    else:
        sent = functional.pad(x, (0, 0, 0, longest - x.shape[0])) if x.shape[0] < longest else x.contiguous()
    received = _ops.wait_tensor(_ops.all_gather_into_tensor(_on_the_wire(sent), len(counts), group))
    received = received != 0 if x.dtype == torch.bool else received
    if min(counts) == longest:
        return received
    return torch.cat([received.narrow(0, i * longest, n) for i, n in enumerate(counts) if n], 0)


def reduce_scatter_rows(x: Tensor, counts: list[int], rank: int, group: str) -> Tensor:
    """[rows of rank 0, rows of rank 1, ...] -> [own rows, features], summed over the ranks, half types in fp32."""
    longest = max(counts)
    dtype = x.dtype
    x = x.to(accumulation_dtype(dtype))
    if min(counts) == longest:
        sent = x.contiguous()
    else:
        sent = torch.cat([functional.pad(p, (0, 0, 0, longest - p.shape[0])) for p in x.split(counts, 0)], 0)
    received = _ops.wait_tensor(_ops.reduce_scatter_tensor(sent, "sum", len(counts), group))
    return received.narrow(0, 0, counts[rank]).to(dtype)


def all_to_all(sent: Tensor, receive_sizes: list[int], send_sizes: list[int], group: str, sources: list[Tensor]) -> Tensor:
    """1-D, sizes in elements per rank. `sources` are the tensors that `sent` was packed from."""
    if sent.numel() == 0:
        sent = tie(sent, *sources)
    received = _ops.wait_tensor(_ops.all_to_all_single(_on_the_wire(sent.contiguous()), receive_sizes, send_sizes, group))
    return received != 0 if sent.dtype == torch.bool else received
