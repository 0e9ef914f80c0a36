"""Checks the house rules that a compiler or a linter does not know. One line per finding; exit status 1 when there is any.

python tools/check_layers.py [ROOT]

upward-include     cpp/: a file includes a higher layer (support < ir < sharding < cost < checkpoint < passes < driver < bindings), or a header of this
                   project by any other spelling than "autosp/<layer>/<file>"
core-stands-alone  cpp/autosp includes torch, Python, nanobind, or GoogleTest outside a *_test.cc
too-long           a .cc, .h or .py file over 600 lines
private-torch      a name under torch with a segment that begins with one underscore (torch._dynamo, torch.distributed._x, an alias of
                   either, or such a path in a string), other than below torch.ops, outside python/autosp/torch_compat.py
python-layer       a module of python/autosp imports a part of autosp that PYTHON_LAYERS denies it
absolute-path      a path into somebody's home or work directory, in any text file
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CPP_LAYERS = ("support", "ir", "sharding", "cost", "checkpoint", "passes", "driver")
MAX_LINES = 600
# What a module of python/autosp may import of autosp; a module that is not named here may import everything.
PYTHON_LAYERS = {
    "runtime": {"runtime"},  # called by compiled programs: it depends on no part of the compiler
    "memory": set(),
    "torch_compat": {"errors"},
    "errors": set(),
}
PRIVATE_TORCH_ALLOWED = ("python/autosp/torch_compat.py",)
NOT_OURS = ("tests/acceptance/",)  # copies of outside scripts: only absolute-path applies to them
SKIPPED_DIRS = {".git", ".venv", "build", "dist", "__pycache__", "node_modules"}
TEXT_SUFFIXES = {".cc", ".h", ".py", ".pyi", ".md", ".toml", ".txt", ".json", ".yaml", ".yml", ".sp", ".sh", ".cmake", ""}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FOREIGN = re.compile(r"^(torch/|ATen/|c10/|nanobind/|pybind11/|Python\.h)")
HOME_PATH = re.compile(r"(?<![\w.:/}-])/(home|root|Users|work|workspace)/[\w.]|(?<!\w)[A-Z]:\\Users\\")
DOTTED_TORCH = re.compile(r"^torch(\.\w+)+$")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


def check_cpp(path: str, lines: list[str]) -> Iterator[Finding]:
    """`path` is relative to the root, with forward slashes."""
    parts = path.split("/")
    in_core = path.startswith("cpp/autosp/")
    layer = parts[2] if in_core and len(parts) > 3 else None
    if in_core and layer not in CPP_LAYERS:
        yield Finding(path, 1, "upward-include", f"not in a layer: the directories of cpp/autosp are {', '.join(CPP_LAYERS)}")
        return
    rank = CPP_LAYERS.index(layer) if layer else len(CPP_LAYERS)  # bindings and tools stand above all
    for number, line in enumerate(lines, 1):
        if not (match := INCLUDE.match(line)):
            continue
        quote, name = match.groups()
        pieces = name.split("/")
        if pieces[0] == "autosp":
            if len(pieces) < 3 or pieces[1] not in CPP_LAYERS:
                yield Finding(path, number, "upward-include", f'"{name}" is in no layer')
            elif CPP_LAYERS.index(pieces[1]) > rank:
                yield Finding(path, number, "upward-include", f'{layer} includes the higher layer {pieces[1]}: "{name}"')
        elif quote == '"' and in_core:
            yield Finding(path, number, "upward-include", f'"{name}" is to be spelled "autosp/<layer>/<file>"')
        elif in_core and FOREIGN.match(name):
            yield Finding(path, number, "core-stands-alone", f"the core includes <{name}>")
        elif in_core and name.startswith(("gtest/", "gmock/")) and not path.endswith("_test.cc"):
            yield Finding(path, number, "core-stands-alone", f"<{name}> outside a *_test.cc")


def is_private_torch(path: str) -> bool:
    """Whether a dotted path names something private of torch; everything below torch.ops is public (torch.ops._c10d_functional.wait_tensor)."""
    segments = path.split(".")
    if segments[0] != "torch" or segments[1:2] == ["ops"]:
        return False
    return any(s.startswith("_") and not s.startswith("__") for s in segments[1:])


class TorchNames(ast.NodeVisitor):
    """Collects (line, dotted path) of every name under torch that is imported, reached through an alias, or written as a string."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.used: list[tuple[int, str]] = []
        self.docstrings: set[int] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for item in node.names:
            if item.name.split(".")[0] == "torch":
                self.used.append((node.lineno, item.name))
                self.aliases[item.asname or "torch"] = item.name if item.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and node.module and node.module.split(".")[0] == "torch":
            for item in node.names:
                full = f"{node.module}.{item.name}"
                self.used.append((node.lineno, full))
                self.aliases[item.asname or item.name] = full

    def dotted(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if path := self.dotted(node):
            self.used.append((node.lineno, path))
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr", "hasattr", "delattr") and len(node.args) >= 2:
            base, name = self.dotted(node.args[0]), node.args[1]
            if base and isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.used.append((node.lineno, f"{base}.{name.value}"))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring may speak of what it likes
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and DOTTED_TORCH.match(node.value):
            self.used.append((node.lineno, node.value))


def check_torch_names(path: str, tree: ast.Module) -> Iterator[Finding]:
    if path in PRIVATE_TORCH_ALLOWED:
        return
    names = TorchNames()
    for node in ast.walk(tree):  # aliases first: an import may stand below its use
        if isinstance(node, ast.Import):
            names.visit_Import(node)
        elif isinstance(node, ast.ImportFrom):
            names.visit_ImportFrom(node)
    names.used.clear()
    names.visit(tree)
    for line, name in sorted(set(names.used)):
        if is_private_torch(name):
            yield Finding(path, line, "private-torch", f"{name} belongs in {PRIVATE_TORCH_ALLOWED[0]}")


def imported_parts(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, part) for each part of autosp that a module of python/autosp imports: `runtime` for autosp.runtime.convert, '' for autosp itself."""
    package = ["autosp", *path.split("/")[2:-1]]
    for node in ast.walk(tree):
        targets: list[list[str]] = []
        if isinstance(node, ast.Import):
            targets = [item.name.split(".") for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            targets = [module + [item.name] for item in node.names] if module == ["autosp"] else [module]
        else:
            continue
        for target in targets:
            if target[0] == "autosp":
                yield node.lineno, target[1] if len(target) > 1 else ""


def check_python_layers(path: str, tree: ast.Module) -> Iterator[Finding]:
    if not path.startswith("python/autosp/"):
        return
    part = path.split("/")[2].removesuffix(".py")
    allowed = PYTHON_LAYERS.get(part)
    if allowed is None:
        return
    for line, target in imported_parts(path, tree):
        if target not in allowed:
            what = f"autosp.{target}" if target else "autosp"
            yield Finding(
                path, line, "python-layer", f"autosp.{part} imports {what}; it may import {sorted(allowed) or 'nothing of autosp'}"
            )


def check_text(path: str, lines: list[str]) -> Iterator[Finding]:
    if path.endswith((".cc", ".h", ".py")) and not path.startswith(NOT_OURS) and len(lines) > MAX_LINES:
        yield Finding(path, len(lines), "too-long", f"{len(lines)} lines, the limit is {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        if match := HOME_PATH.search(line):
            yield Finding(path, number, "absolute-path", f"{match.group(0)}... exists on one machine only")


def check_file(root: Path, path: str) -> Iterator[Finding]:
    try:
        text = (root / path).read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError):
        return
    lines = text.splitlines()
    yield from check_text(path, lines)
    if path.startswith(NOT_OURS):
        return
    if path.endswith((".cc", ".h")):
        yield from check_cpp(path, lines)
    elif path.endswith(".py"):
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            yield Finding(path, error.lineno or 1, "syntax", error.msg)
            return
        yield from check_torch_names(path, tree)
        yield from check_python_layers(path, tree)


def check_tree(root: Path) -> list[Finding]:
    findings: list[Finding] = []
    for directory, names, files in os.walk(root):
        names[:] = sorted(n for n in names if n not in SKIPPED_DIRS and not n.endswith("_cache"))
        for name in sorted(files):
            if Path(name).suffix in TEXT_SUFFIXES:
                findings += check_file(root, (Path(directory) / name).relative_to(root).as_posix())
    return findings


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"check_layers: {len(findings)} findings" if findings else "check_layers: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
