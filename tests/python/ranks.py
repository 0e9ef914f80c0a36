"""Runs a function on several gloo ranks, each a process of its own, and never waits for ever.

    results = run_ranks(2, my_function, arg, timeout=60)        # [my_function(rank, world, arg) of rank 0, of rank 1]
    results = run_ranks(2, "test_loss:my_function", arg)        # the same by "module:name"

The function must be module-level (it is imported again in each rank; tests/python and the test's own directory are importable). Each rank is started
by multiprocessing's spawn, uses one torch thread, and is in a default gloo group over the loopback device that met through a file store. Arguments are
pickled; results travel through a file, so that tensors arrive as they are.

A rank that raises: RankError with every traceback. Ranks that are not done in time, or within GRACE seconds after one has failed: every thread's stack
is collected from each rank by faulthandler, all are killed with what they started, and RankError carries the stacks. The time counts from when every
rank has imported its function and joined the group, so that a slow start on a busy machine is not taken for a hang (START_UP seconds are given to it).
"""

import datetime
import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

GRACE = 5.0  # seconds for the others to end once a rank has failed
START_UP = 180.0  # seconds for all ranks to import and meet
STACK_SIGNAL = signal.SIGUSR1


class RankError(AssertionError):
    """A rank raised, died or hung; the message holds one section per rank."""


def resolve(fn: Callable | str) -> str:
    """The "module:name" under which a rank finds the function."""
    if isinstance(fn, str):
        return fn
    if "<locals>" in fn.__qualname__ or fn.__name__ == "<lambda>":
        raise TypeError(f"{fn.__qualname__} must be module-level: each rank imports it by name")
    return f"{fn.__module__}:{fn.__qualname__}"


def rank_main(rank: int, world: int, where: str, path: list[str], fn: str, args: tuple, timeout: float) -> None:
    """The body of one rank's process. Leaves `rank<i>.pt` (a result) or `rank<i>.err` (a traceback) in the directory `where`."""
    os.setsid()  # its own process group: killing it takes along what it started
    stacks = open(f"{where}/rank{rank}.stack", "w")  # noqa: SIM115 (open for the whole process: the signal handler writes to it)
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
    sys.path[:] = path
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    failed = 1
    try:
        module, name = fn.split(":")
        function = getattr(importlib.import_module(module), name)
        store = dist.FileStore(f"{where}/store", world)
        # gloo's own time-out lies behind ours: a hang is to be seen as one, with every rank's stack.
        patience = datetime.timedelta(seconds=timeout + 60)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=patience)
        Path(f"{where}/rank{rank}.ready").touch()
        # A rank that ended while another still connects would break that one's start, not its function.
        store.set(f"connected {rank}", "")
        store.wait([f"connected {r}" for r in range(world)], datetime.timedelta(seconds=START_UP))
        result = function(rank, world, *args)
        torch.save(result, f"{where}/rank{rank}.part")
        os.rename(f"{where}/rank{rank}.part", f"{where}/rank{rank}.pt")
        failed = 0
    except BaseException:
        Path(f"{where}/rank{rank}.err").write_text(traceback.format_exc())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed)  # no shutdown of the group: it may wait for a rank that has failed


def wait_for(processes: list, where: str, timeout: float) -> bool:
    """Waits until all have ended; False when they have not `timeout` seconds after all were ready, or GRACE seconds after one failed."""
    deadline, ready, failed = time.monotonic() + START_UP, False, False
    while any(p.is_alive() for p in processes):
        if time.monotonic() > deadline:
            return False
        if not ready and not failed and all(Path(where, f"rank{rank}.ready").exists() for rank in range(len(processes))):
            ready, deadline = True, time.monotonic() + timeout
        if not failed and any(p.exitcode for p in processes):
            failed, deadline = True, min(deadline, time.monotonic() + GRACE)
        time.sleep(0.02)
    return True


def kill(process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended, or was stopped before setsid
        process.kill()
    process.join()


def report(where: str, rank: int, process, alive: bool) -> str:
    """What is known of one rank that did not return."""
    error, stack = Path(where, f"rank{rank}.err"), Path(where, f"rank{rank}.stack")
    if error.exists():
        return f"--- rank {rank} raised\n{error.read_text()}"
    if alive:
        return f"--- rank {rank} was still running; its threads:\n{stack.read_text() if stack.exists() else '(not yet started)'}"
    if process.exitcode == 0:
        return f"--- rank {rank} returned"
    return f"--- rank {rank} died with exit status {process.exitcode}"


def run_ranks(world: int, fn: Callable | str, *args: Any, timeout: float = 60.0) -> list:
    """Calls fn(rank, world, *args) on each of `world` ranks; returns the results in rank order. `timeout` is in seconds, from when
    all ranks are ready."""
    name = resolve(fn)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="autosp-ranks-") as where:
        processes = [
            context.Process(target=rank_main, args=(rank, world, where, sys.path, name, args, timeout), name=f"rank{rank}")
            for rank in range(world)
        ]
        try:
            for process in processes:
                process.start()
            done = wait_for(processes, where, timeout)
            alive = [p.is_alive() for p in processes]
            for rank, process in enumerate(processes):
                # The file exists once the handler is about to be set; before that the signal would just end the process.
                if alive[rank] and Path(where, f"rank{rank}.stack").exists():
                    os.kill(process.pid, STACK_SIGNAL)
            if any(alive):
                time.sleep(1.0)
            # Looked at before the first is killed: its peers would then raise for its closed connection.
            errors = {r: e.stat().st_mtime for r in range(world) if (e := Path(where, f"rank{r}.err")).exists()}
            failed = not done or any(p.exitcode for p in processes)
            # What failed first comes first.
            order = sorted(range(world), key=lambda r: (r not in errors, errors.get(r, 0), r)) if failed else []
            sections = [report(where, rank, processes[rank], alive[rank]) for rank in order]
        finally:
            for process in processes:
                if process.pid is not None:
                    kill(process)
        if failed:
            reason = "failed" if errors else "died" if done else "hung"
            raise RankError(f"{name} {reason} on {world} ranks (time-out {timeout} s)\n" + "\n".join(sections))
        return [torch.load(f"{where}/rank{rank}.pt", weights_only=False) for rank in range(world)]
