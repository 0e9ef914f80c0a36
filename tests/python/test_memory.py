"""The peak meter: known allocations give exact bytes, in the calling thread, in autograd and around a block's edges."""

import pytest
import torch

from autosp import memory
from autosp.memory import PeakMeter

MIB = 2**20


def megabytes(n):
    return torch.empty(n * MIB, dtype=torch.uint8)


def test_exact_bytes():
    with PeakMeter() as meter:
        a = megabytes(3)
        b = megabytes(2)
        del a
        c = torch.empty(10)
    assert meter.max_memory_allocated() == 5 * MIB
    assert meter.memory_allocated() == 2 * MIB + 40
    del b, c
    assert meter.memory_allocated() == 2 * MIB + 40  # the block is over


def test_views_and_in_place_ops_cost_nothing():
    with PeakMeter() as meter:
        x = megabytes(4)
        x.view(2, -1)[1].zero_()
    assert meter.max_memory_allocated() == 4 * MIB
    assert meter.memory_allocated() == 4 * MIB


def test_forward_and_backward():
    x = torch.randn(256, 1024, requires_grad=True)  # 1 MiB
    with PeakMeter() as meter:
        y = x.sin()  # 1 MiB, saves x
        z = y.exp()  # 1 MiB, saved
        loss = z.sum()  # 4 bytes
        assert meter.memory_allocated() == 2 * MIB + 4
        meter.reset_peak_memory_stats()
        loss.backward()
    assert x.grad is not None
    assert 4 * MIB <= meter.max_memory_allocated() <= 5 * MIB + 64  # grads of y and x, one temporary; y and z still live
    assert meter.memory_allocated() >= 3 * MIB + 4


def test_reading_and_reset_inside_the_block():
    with PeakMeter() as meter:
        a = megabytes(6)
        del a
        b = megabytes(1)
        assert (memory.memory_allocated(), memory.max_memory_allocated()) == (MIB, 6 * MIB)
        memory.reset_peak_memory_stats()
        assert meter.max_memory_allocated() == MIB
        c = megabytes(2)
        del b, c
        assert meter.memory_allocated() == 0
    assert meter.max_memory_allocated() == 3 * MIB


def test_memory_from_before_the_block_is_not_counted():
    old = megabytes(8)
    with PeakMeter() as meter:
        del old
        new = megabytes(1)
    assert meter.max_memory_allocated() == MIB
    assert new.numel() == MIB


def test_what_an_earlier_meter_saw_does_not_disturb_a_later_one():
    size = 1000  # small: the same address comes back at once
    with PeakMeter():
        first = torch.empty(size)
    address = first.data_ptr()
    del first
    reused = [torch.empty(size // 2) for _ in range(50)] + [torch.empty(size) for _ in range(50)]
    hit = any(t.data_ptr() == address for t in reused)
    with PeakMeter() as meter:
        del reused
        kept = torch.empty(size)
    assert (meter.memory_allocated(), meter.max_memory_allocated()) == (4 * size, 4 * size), f"address reused: {hit}"
    assert kept.numel() == size


def test_one_at_a_time():
    with PeakMeter() as meter:
        with pytest.raises(RuntimeError, match="a PeakMeter is active already: meters do not nest"), PeakMeter():
            pass
        x = megabytes(1)
        assert meter.memory_allocated() == x.numel()
    with pytest.raises(RuntimeError, match="no PeakMeter is active: write `with autosp.memory.PeakMeter"):
        memory.max_memory_allocated()


def test_an_error_in_the_block_ends_the_meter():
    with pytest.raises(ZeroDivisionError), PeakMeter():
        _ = 1 // 0
    with PeakMeter() as meter:
        x = megabytes(1)
    assert meter.memory_allocated() == x.numel()


def test_a_meter_can_be_used_again():
    meter = PeakMeter()
    for n in (5, 2):
        with meter:
            x = megabytes(n)
            del x
        assert meter.max_memory_allocated() == n * MIB
