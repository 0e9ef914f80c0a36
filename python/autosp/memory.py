"""A peak-bytes meter for CPU runs, with the interface of `torch.cuda.max_memory_allocated`.

    with PeakMeter() as meter:
        loss = model(**batch).loss
        loss.backward()
    print(meter.max_memory_allocated())

It counts the bytes of CPU tensors allocated inside the block and not yet freed, from the profiler's allocation events: exactly what
torch asks its CPU allocator for, without rounding (a tensor of 10 floats is 40 bytes), in every thread that works for the block
(autograd, parallel loops, Inductor's buffers).
Not counted: memory that was there before the block, and its release inside the block (so the meter never goes below zero); memory
torch does not allocate (numpy, mmap, the interpreter, gloo's own buffers).
The profiler records ops too, so a metered step is slower: measure bytes and time in different steps.
"""

from __future__ import annotations

from typing import Any

import torch

_active: PeakMeter | None = None


class PeakMeter:
    """Bytes allocated in a `with` block and still live, and their peak. Readable inside the block (each reading restarts the profiler: a
    few milliseconds) and after it. One at a time in a process: a nested one raises RuntimeError, as does a profiler of one's own around it.
    """

    def __init__(self):
        self._profile: Any = None
        self._live: dict[int, int] = {}  # address -> bytes of what was allocated in the block and is there still
        self._now = self._peak = 0

    def __enter__(self) -> PeakMeter:
        global _active
        if _active is not None:
            raise RuntimeError(
                "a PeakMeter is active already: meters do not nest. Read the outer one, with reset_peak_memory_stats() between the parts"
            )
        self._live, self._now, self._peak = {}, 0, 0
        self._start()
        _active = self
        return self

    def __exit__(self, *_) -> None:
        global _active
        _active = None
        self._stop()

    def memory_allocated(self) -> int:
        """Bytes allocated since the start of the block and not freed."""
        self._sync()
        return self._now

    def max_memory_allocated(self) -> int:
        """The largest value of `memory_allocated()` since the start of the block, or since the last reset."""
        self._sync()
        return self._peak

    def reset_peak_memory_stats(self) -> None:
        """The peak starts again from the bytes live now."""
        self._sync()
        self._peak = self._now

    def _start(self) -> None:
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        profile.__enter__()
        self._profile = profile

    def _stop(self) -> None:
        profile, self._profile = self._profile, None
        profile.__exit__(None, None, None)
        # Frees are matched by address with allocations of this block: the profiler also reports, with a stale size, the free of
        # memory at an address that an earlier profile had seen.
        for _, address, size in _cpu_allocations(profile):
            if size > 0:
                self._live[address] = size
                self._now += size
                self._peak = max(self._peak, self._now)
            else:
                self._now -= self._live.pop(address, 0)

    def _sync(self) -> None:
        if self._profile is not None:
            self._stop()
            self._start()


def memory_allocated() -> int:
    """`PeakMeter.memory_allocated` of the active meter, bytes. RuntimeError when none is active."""
    return _meter().memory_allocated()


def max_memory_allocated() -> int:
    """`PeakMeter.max_memory_allocated` of the active meter, bytes. RuntimeError when none is active."""
    return _meter().max_memory_allocated()


def reset_peak_memory_stats() -> None:
    """`PeakMeter.reset_peak_memory_stats` of the active meter. RuntimeError when none is active."""
    _meter().reset_peak_memory_stats()


def _meter() -> PeakMeter:
    if _active is None:
        raise RuntimeError("no PeakMeter is active: write `with autosp.memory.PeakMeter():` around what is to be measured")
    return _active


def _cpu_allocations(profile: Any) -> list[tuple[int, int, int]]:
    """(time in ns, address, bytes; negative for a free) of every CPU allocation of a finished profile, in order of time."""
    found, stack = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        fields = event.extra_fields
        if hasattr(fields, "alloc_size") and fields.device.type == "cpu":
            found.append((event.start_time_ns, fields.ptr, fields.alloc_size))
    return sorted(found, key=lambda e: e[0])
