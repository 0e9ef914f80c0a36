"""The `spawn` fixture: results come back in rank order, an exception, a death and a hang each fail within the time-out and say where."""

import os
import subprocess
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ranks import RankError, run_ranks


def gathered(rank, world, factor):
    x = torch.full((2,), float(rank * factor))
    dist.all_reduce(x)
    return {"rank": rank, "sum": x, "threads": torch.get_num_threads()}


def rank1_raises(rank, world):
    if rank == 1:
        raise ValueError("seeded failure")
    marked_sleep()


def rank1_raises_before_a_collective(rank, world):
    if rank == 1:
        raise ValueError("seeded failure")
    dist.barrier()


def hangs(rank, world):
    if rank == 0:
        marked_sleep()
    dist.barrier()


def marked_sleep():
    time.sleep(1000)


def dies(rank, world):
    if rank == 0:
        os._exit(7)


def leaves_a_child(rank, world):
    return subprocess.Popen(["sleep", "1000"]).pid


def test_results_in_rank_order(spawn):
    results = spawn(3, gathered, 10)
    assert [r["rank"] for r in results] == [0, 1, 2]
    assert all(r["sum"].tolist() == [30.0, 30.0] and r["threads"] == 1 for r in results)


def test_by_name():
    assert run_ranks(1, "test_ranks:gathered", 1)[0]["sum"].tolist() == [0.0, 0.0]


def test_a_failed_rank_does_not_wait_for_the_others():
    with pytest.raises(RankError, match="(?s)rank 1 raised.*seeded failure.*rank 0 was still running.*marked_sleep"):
        run_ranks(2, rank1_raises, timeout=10_000)  # the test itself would not end


def test_the_first_failure_is_told_first():
    with pytest.raises(RankError, match="(?s)failed on 2 ranks.*rank 1 raised.*seeded failure.*rank 0 "):
        run_ranks(2, rank1_raises_before_a_collective)


def test_a_hang_is_reported_with_stacks():
    with pytest.raises(RankError, match=r"(?s)hung on 2 ranks.*rank 0 was still running.*marked_sleep.*rank 1 was still running.*in hangs"):
        run_ranks(2, hangs, timeout=3)


def test_a_death_is_reported():
    with pytest.raises(RankError, match="(?s)died.*rank 0 died with exit status 7.*rank 1 returned"):
        run_ranks(2, dies)


def runs(pid):
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and not state.read_text().split(") ")[1].startswith("Z")


def test_children_are_killed():
    children = run_ranks(2, leaves_a_child)
    deadline = time.monotonic() + 30
    while any(map(runs, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(runs, children))


def test_a_local_function_is_refused():
    with pytest.raises(TypeError, match="module-level"):
        run_ranks(1, lambda rank, world: None)
