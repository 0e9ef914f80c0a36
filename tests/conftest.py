"""Settings and fixtures of every Python test: one torch thread, fixed seeds, and `spawn` for tests on several gloo ranks."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).parent / "python"))

import pytest  # noqa: E402
import torch  # noqa: E402

from ranks import run_ranks  # noqa: E402

torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """A test marked gpu is skipped where there is none."""
    if not torch.accelerator.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no accelerator"))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def spawn():
    """`spawn(world, fn, *args, timeout=60)`: fn(rank, world, *args) on gloo ranks, results in rank order. See ranks.py."""
    return run_ranks
