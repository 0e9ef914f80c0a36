"""The hash of a tensor's bits: sensitive to every bit, to position and to what fools a plain weighted sum; equal for equal bits."""

import time

import pytest
import torch

from autosp import content_hash
from autosp.content_hash import bit_hashes


def one(t):
    return bit_hashes([t])[0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.float32, torch.float64, torch.bfloat16])
def test_every_bit_counts(dtype):
    size = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 256, (11 * size,), dtype=torch.uint8)
    seen = {one(raw.view(dtype))}
    for bit in range(raw.numel() * 8):
        flipped = raw.clone()
        flipped[bit // 8] ^= 1 << bit % 8
        seen.add(one(flipped.view(dtype)))
    assert len(seen) == 1 + raw.numel() * 8


@pytest.mark.parametrize("values", [(-(2**63), 2**63 - 1), (-100, 50000)])
def test_every_pair_of_bits(values):
    x = torch.randint(*values, (6,))
    flips = [(k, 1 << bit if bit < 63 else -(2**63)) for k in range(6) for bit in range(0, 64, 3)]
    seen = {one(x)}
    for i, a in enumerate(flips):
        for b in flips[:i]:
            y = x.clone()
            y[a[0]] ^= a[1]
            y[b[0]] ^= b[1]
            seen.add(one(y))
    assert len(seen) == 1 + len(flips) * (len(flips) - 1) // 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_sign_of_a_whole_tensor(dtype):
    x = torch.randn(64, 64).to(dtype)
    assert len({one(x), one(-x), one(x.t()), one(x.flip(0)), one(x.roll(1))}) == 5


def test_position_counts_across_rows():
    period = content_hash._PERIOD
    x = torch.zeros(3 * period + 3, dtype=torch.int64)
    at = [0, 1, 2, period - 1, period, period + 1, 2 * period, 2 * period + 1, 3 * period + 2]
    seen = set()
    for k in at:
        x[k] = 5
        seen.add(one(x))
        x[k] = 0
    assert len(seen) == len(at)


def test_the_value_depends_on_nothing_but_the_bits(monkeypatch):
    x = torch.randint(0, 50000, (170001,))
    value = one(x)
    monkeypatch.setattr(content_hash, "_CPU_ROWS", 2)
    assert one(x) == value
    assert one(x.repeat(2, 1).t().contiguous().t()[1]) == value  # strided
    assert one(torch.cat([torch.zeros(1, dtype=torch.int64), x])[1:]) == value  # with an offset
    assert one(x.float()) == one(torch.cat([torch.zeros(1), x.float()])[1:])  # an offset that is not a whole word
    with torch.inference_mode():
        assert one(x.clone()) == value


def test_odd_kinds():
    assert bit_hashes([]) == []
    assert one(torch.empty(0, 3)) == 0
    assert one(torch.tensor(True)) != one(torch.tensor(False))
    assert one(torch.tensor([True, False, True])) != one(torch.tensor([True, True, False]))
    z = torch.randn(5, dtype=torch.complex64)
    assert one(z.conj()) == one(z.conj().resolve_conj()) != one(z)
    assert one(torch.tensor(float("nan"))) == one(torch.tensor(float("nan")))
    assert one(torch.tensor(0.0)) != one(torch.tensor(-0.0))
    p = torch.nn.Parameter(torch.ones(3))
    assert bit_hashes([p, torch.ones(3), torch.ones(4)])[0] == one(torch.ones(3))


def test_weights_are_the_documented_ones():
    assert content_hash._table(torch.device("cpu"))[:5].tolist() == [content_hash._odd(k) for k in range(5)]


def test_cost_of_a_million_ids(capsys):
    x = torch.randint(0, 50000, (1 << 20,))
    times = []
    for _ in range(7):
        start = time.thread_time()
        one(x)
        times.append(time.thread_time() - start)
    with capsys.disabled():
        print(f"\nhash of 1,048,576 int64 ids: {min(times) * 1e3:.2f} ms of CPU")
    assert min(times) < 0.1


@pytest.mark.gpu
def test_the_device_does_not_matter():
    for x in (torch.randint(0, 50000, (3 << 20,)), torch.randn(100003), torch.randn(7, 3).bfloat16()):
        assert one(x.to("cuda")) == one(x)
