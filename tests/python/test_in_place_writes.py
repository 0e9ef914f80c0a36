"""The pass canonicalize on random programs of views and in-place writes: what torch computes from the text before and after is the same,
outputs, gradients and the inputs that were written. Runs the core by autosp-opt (from $AUTOSP_OPT, or PATH)."""

import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field

import pytest
import torch

PROGRAMS = 200
MAX_INT = 2**63 - 1
ARGUMENT = re.compile(r'"?(\w+)"?=')
SCALAR = re.compile(r"%(\d+)|[-+\w.]+")


@dataclass
class Tensor:
    id: int
    shape: list[int]
    grad: bool

    @property
    def text(self) -> str:
        return f"%{self.id} : f32[{','.join(map(str, self.shape))}]{' grad' if self.grad else ''}"


@dataclass
class Program:
    """Grows the text of a graph, one random op at a time. Inputs: a parameter and a buffer."""

    random: random.Random
    inputs: list[Tensor] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    count: int = 0

    def new(self, shape: list[int], grad: bool) -> Tensor:
        self.count += 1
        return Tensor(self.count - 1, shape, grad)

    def op(self, shapes: list[list[int]], grad: bool, text: str, writes: bool = False) -> list[Tensor]:
        results = [self.new(shape, grad) for shape in shapes]
        self.ops.append(f"  {', '.join(t.text for t in results)} = {text}{' {mutates}' if writes else ''}")
        self.tensors += results
        return results

    def scaled(self, x: Tensor, by: float) -> Tensor:
        return self.op([x.shape], x.grad, f"aten.mul.Tensor(self=%{x.id}, other={by})")[0]

    def view(self, x: Tensor) -> None:
        rank, d = len(x.shape), self.random.randrange(len(x.shape))
        size, before, after = x.shape[d], x.shape[:d], x.shape[d + 1 :]
        a = self.random.randrange(size)
        b = self.random.randint(a + 1, size)
        e = self.random.randrange(rank)
        swapped = list(x.shape)
        swapped[d], swapped[e] = swapped[e], swapped[d]
        order = self.random.sample(range(rank), rank)
        elements = torch.Size(x.shape).numel()
        choices = [
            ([before + [b - a] + after], f"slice.Tensor(self=%{x.id}, dim={d}, start={a}, end={b}, step=1)"),
            ([before + [(size + 1) // 2] + after], f"slice.Tensor(self=%{x.id}, dim={d}, start=0, end={MAX_INT}, step=2)"),
            ([before + after], f"select.int(self=%{x.id}, dim={d}, index={self.random.choice([a, a - size])})"),
            ([before + [1] + x.shape[d:]], f"unsqueeze.default(self=%{x.id}, dim={d})"),
            ([swapped], f"transpose.int(self=%{x.id}, dim0={d}, dim1={e - rank})"),
            ([[x.shape[i] for i in order]], f"permute.default(self=%{x.id}, dims={order})"),
            ([[elements]], f"view.default(self=%{x.id}, size=[{elements}])"),
            ([[elements]], f"reshape.default(self=%{x.id}, shape=[{elements}])"),
            ([before + after] * size, f"unbind.int(self=%{x.id}, dim={d})"),
            ([x.shape], f"clone.default(self=%{x.id}, memory_format=none)"),
            ([x.shape], f"detach.default(self=%{x.id})"),
        ]
        shapes, text = self.random.choice(choices)
        self.op(shapes, x.grad and "detach" not in text, "aten." + text)

    def write(self, x: Tensor) -> None:
        # What is read is a copy: torch does not define writes to what is read in another order.
        fits = [t for t in self.tensors if t.shape == x.shape[len(x.shape) - len(t.shape) :]]
        source = self.scaled(self.random.choice(fits), 1.25)
        grad = x.grad or source.grad
        choices = [
            (x.grad, f"mul_.Tensor(self=%{x.id}, other=3.0)"),
            (x.grad, f"neg_.default(self=%{x.id})"),
            (x.grad, f"fill_.Scalar(self=%{x.id}, value=0.5)"),
            (grad, f"add_.Tensor(self=%{x.id}, other=%{source.id}, alpha=1)"),
            (grad, f"copy_.default(self=%{x.id}, src=%{source.id}, non_blocking=false)"),
        ]
        result_grad, text = self.random.choice(choices)
        self.op([x.shape], result_grad, "aten." + text, writes=True)

    def text(self) -> str:
        kinds = ["parameter", "buffer"]
        head = [f'  input {t.text} {kind} "{kind}"' for t, kind in zip(self.inputs, kinds, strict=True)]
        outputs = [t for t in self.tensors[4:] if self.random.random() < 0.5] or self.tensors[-1:]
        tail = [f'  output %{t.id} ""' for t in outputs]
        return "\n".join(['autosp.graph "forward" ranks=2 {', *head, *self.ops, *tail, "}\n"])


def program(seed: int) -> str:
    p = Program(random.Random(seed))
    p.inputs = [p.new([p.random.choice([2, 3]), p.random.choice([2, 4])], grad) for grad in (True, False)]
    p.tensors += p.inputs
    for x in p.inputs:
        p.scaled(x, 0.5)
    for _ in range(p.random.randint(4, 14)):
        pool = p.tensors if p.random.random() < 0.1 else p.tensors[2:]
        x = p.random.choice(pool[-6:])
        if x.shape and p.random.random() < 0.6:
            p.view(x)
        else:
            p.write(x)
    return p.text()


# ---- The text, run by torch.


def parsed_value(text: str, at: int, env: dict):
    if text[at] == "[":
        items, at = [], at + 1
        while text[at] != "]":
            item, at = parsed_value(text, at, env)
            items.append(item)
            at += len(re.compile(r"[, ]*").match(text, at).group())
        return items, at + 1
    match = SCALAR.match(text, at)
    word = match.group()
    if match.group(1):
        value = env[int(match.group(1))]
    elif word in ("true", "false", "none"):
        value = {"true": True, "false": False, "none": None}[word]
    else:
        value = int(word) if re.fullmatch(r"-?\d+", word) else float(word)
    return value, match.end()


def parsed_arguments(text: str, env: dict) -> dict:
    arguments, at = {}, 0
    while at < len(text):
        name = ARGUMENT.match(text, at)
        arguments[name.group(1)], at = parsed_value(text, name.end(), env)
        at += len(re.compile(r"[, ]*").match(text, at).group())
    return arguments


def run(text: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Outputs and, after them, the inputs as they are then; the gradient of the parameter, zeros where it has none."""
    torch.manual_seed(0)
    env: dict[int, torch.Tensor] = {}
    inputs, outputs = [], []
    for line in text.splitlines():
        if match := re.match(r"  input %(\d+) : f32\[([\d,]*)\]( grad)?", line):
            x = torch.randn([int(s) for s in match.group(2).split(",")]).requires_grad_(bool(match.group(3)))
            env[int(match.group(1))] = x
            inputs.append(x)
        elif match := re.match(r"  output %(\d+)", line):
            outputs.append(env[int(match.group(1))])
        elif match := re.match(r"  (%.*?) = aten\.(\w+)\.(\w+)\((.*)\)(?: \{.*\})?$", line):
            op = getattr(getattr(torch.ops.aten, match.group(2)), match.group(3))
            arguments = parsed_arguments(match.group(4), env)
            positional = [arguments.pop(a.name) for a in op._schema.arguments if not a.kwarg_only]
            results = op(*positional, **arguments)
            results = results if isinstance(results, (list, tuple)) else [results]
            ids = [int(i) for i in re.findall(r"%(\d+) :", match.group(1))]
            env.update(zip(ids, results, strict=True))
    weighted = [(y * torch.arange(1.0, y.numel() + 1).view(y.shape)).sum() for y in outputs if y.requires_grad]
    gradients = torch.autograd.grad(sum(weighted), inputs[:1], allow_unused=True) if weighted else (None,)
    gradient = torch.zeros_like(inputs[0]) if gradients[0] is None else gradients[0]
    return [y.detach().clone() for y in outputs + inputs], [gradient]


def test_random_programs() -> None:
    tool = os.environ.get("AUTOSP_OPT") or shutil.which("autosp-opt")
    if not tool:
        pytest.skip("autosp-opt is neither in $AUTOSP_OPT nor on PATH")
    same = refused = 0
    for seed in range(PROGRAMS):
        text = program(seed)
        try:
            expected = run(text)
        except RuntimeError:
            continue  # torch itself refuses the program
        done = subprocess.run([tool, "-", "--canonicalize"], input=text, capture_output=True, text=True, timeout=60)
        if done.returncode == 1 and ("in place" in done.stderr or "an input" in done.stderr):
            refused += 1
            continue
        assert done.returncode == 0, f"seed {seed}: {done.stderr}\n{text}"
        note = f"seed {seed}\n{text}\n{done.stdout}"
        for got, want in zip(run(done.stdout), expected, strict=True):
            for x, y in zip(got, want, strict=True):
                assert torch.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True), note
        same += 1
    assert same > PROGRAMS // 3, (same, refused)
