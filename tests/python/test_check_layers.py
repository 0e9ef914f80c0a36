"""tools/check_layers.py: each rule finds its seeded violation, and nothing where a near miss is allowed; the repository itself is clean.

Every case writes one file into an empty tree and names the rule that must fire, or None.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_checker():
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools" / "check_layers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


checker = load_checker()

# Written in pieces: this file is itself checked.
PRIVATE = "torch." + "_dynamo"
HOME = "/ho" + "me/somebody/x"

CASES = [
    ("cpp/autosp/ir/a.cc", '#include "autosp/passes/passes.h"', "upward-include"),
    ("cpp/autosp/support/a.h", '#  include "autosp/ir/graph.h"', "upward-include"),
    ("cpp/autosp/driver/a_test.cc", '#include "autosp/passes/passes.h"', None),
    ("cpp/autosp/ir/a.cc", '#include "autosp/ir/graph.h"', None),
    ("cpp/autosp/ir/a.cc", '#include "graph.h"', "upward-include"),
    ("cpp/autosp/ir/a.cc", '#include "../ir/graph.h"', "upward-include"),
    ("cpp/autosp/ir/a.cc", '#include "autosp/graph.h"', "upward-include"),
    ("cpp/autosp/misc/a.cc", "", "upward-include"),
    ("cpp/autosp/sharding/rules/a.cc", '#include "autosp/cost/machine.h"', "upward-include"),
    ("cpp/bindings/a.cc", '#include "autosp/driver/driver.h"\n#include <nanobind/nanobind.h>\n#include "graph_binding.h"', None),
    ("tools/autosp-opt.cc", '#include "autosp/driver/driver.h"', None),
    ("cpp/autosp/driver/a.cc", "#include <torch/torch.h>", "core-stands-alone"),
    ("cpp/autosp/driver/a.cc", "#include <Python.h>", "core-stands-alone"),
    ("cpp/autosp/driver/a.cc", "#include <gtest/gtest.h>", "core-stands-alone"),
    ("cpp/autosp/driver/a_test.cc", "#include <gtest/gtest.h>", None),
    ("cpp/autosp/driver/a.cc", "#include <vector>", None),
    ("cpp/autosp/ir/a.cc", "//\n" * 601, "too-long"),
    ("cpp/autosp/ir/a.cc", "//\n" * 600, None),
    ("python/autosp/a.py", "#\n" * 601, "too-long"),
    ("docs/a.md", "x\n" * 2000, None),
    ("python/autosp/a.py", f"import {PRIVATE}", "private-torch"),
    ("python/autosp/a.py", f"import {PRIVATE}.config as c", "private-torch"),
    ("python/autosp/a.py", "from torch import _inductor", "private-torch"),
    ("python/autosp/a.py", "from torch._C import Graph", "private-torch"),
    ("python/autosp/a.py", "from torch.distributed import _functional_collectives as fc", "private-torch"),
    ("python/autosp/a.py", f"import torch\ndef f():\n    {PRIVATE}.reset()", "private-torch"),
    ("python/autosp/a.py", "import torch.distributed as dist\ndist._functional_collectives", "private-torch"),
    ("python/autosp/a.py", "from torch import distributed\nx = distributed.tensor._api.f(1)[0]", "private-torch"),
    ("python/autosp/a.py", "def f():\n    return t._C\nimport torch as t", "private-torch"),
    ("python/autosp/a.py", "import torch\ngetattr(torch, '_C')", "private-torch"),
    ("python/autosp/a.py", f"import importlib\nimportlib.import_module('{PRIVATE}')", "private-torch"),
    ("tests/python/a.py", f"import {PRIVATE}", "private-torch"),
    ("python/autosp/torch_compat.py", f"import {PRIVATE}", None),
    ("tests/acceptance/a.py", f"import {PRIVATE}", None),
    ("python/autosp/a.py", "import torch\ntorch.ops._c10d_functional.wait_tensor.default\ntorch.ops.aten._softmax", None),
    ("python/autosp/a.py", "from torch import ops\nops._c10d_functional.wait_tensor", None),
    ("python/autosp/a.py", "import torch\ntorch.__version__\ntorch.fx.experimental.proxy_tensor.make_fx", None),
    ("python/autosp/a.py", f'"""Not through {PRIVATE}."""\ndef f(x):\n    "{PRIVATE}"\n    # {PRIVATE}\n    return x._private', None),
    ("python/autosp/a.py", "aten = object()\naten._softmax\nself = aten\nself.torch._x", None),
    ("python/autosp/runtime/a.py", "from autosp.capture import f", "python-layer"),
    ("python/autosp/runtime/a.py", "from ..config import Options", "python-layer"),
    ("python/autosp/runtime/a.py", "from .. import config", "python-layer"),
    ("python/autosp/runtime/a.py", "import autosp", "python-layer"),
    ("python/autosp/runtime/a.py", "from autosp import _core", "python-layer"),
    ("python/autosp/runtime/a.py", "from autosp.runtime.b import f\nfrom . import c\nfrom .d import g\nfrom .. import runtime", None),
    ("python/autosp/memory.py", "from autosp.backend import f", "python-layer"),
    ("python/autosp/backend.py", "from autosp.runtime import f\nfrom . import config", None),
    ("docs/a.md", f"see {HOME}", "absolute-path"),
    ("Makefile", f"X := {HOME}", "absolute-path"),
    ("docs/a.md", "see https://example.org/home/x, ../work/y, cpp/root/z and framework/w", None),
    ("python/autosp/a.py", "def f(:", "syntax"),
]


@pytest.mark.parametrize(("path", "text", "rule"), CASES, ids=[f"{i}-{c[2] or 'clean'}" for i, c in enumerate(CASES)])
def test_seeded(tmp_path, path, text, rule):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n" if not text.endswith("\n") else text)
    found = checker.check_tree(tmp_path)
    assert [f.rule for f in found] == ([rule] if rule else []), [str(f) for f in found]
    if rule:
        assert str(found[0]).startswith(f"{path}:")


def test_build_outputs_are_not_checked(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "a.py").write_text(f"import {PRIVATE}\n")
    assert checker.check_tree(tmp_path) == []


def test_this_repository():
    assert [str(f) for f in checker.check_tree(ROOT)] == []
