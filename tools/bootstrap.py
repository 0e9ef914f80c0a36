"""Prepares a fresh machine for `make demo` and `make test`: system packages, the .venv, torch, the Python packages.

    python3 tools/bootstrap.py [--venv .venv] [--torch torch==2.13.0] [--requirements FILE]

Runs on a bare Python >= 3.11 (standard library only) and can be repeated. What is missing is found by trying it (a C++20 compile, an include,
an import), not by asking a package database. As root on Debian or Ubuntu the missing packages are installed with apt-get; otherwise the one
line that installs them is printed and nothing else happens.

A torch >= 2.11 that this interpreter can import is used: the .venv sees its directory after its own packages (a .pth file, which also
works when the interpreter is itself in a virtual environment), and pip leaves it as it is. Only without one is torch installed.
"""

from __future__ import annotations  # an older Python is to read this far and be told

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TORCH_MINIMUM = (2, 11)
PTH_NAME = "outer_torch.pth"


def run(*command: str | Path, **kw) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(c) for c in command], check=True, stdin=subprocess.DEVNULL, **kw)


def preprocesses(text: str, *flags: str) -> bool:
    """Whether the C++ compiler accepts this source text (preprocessed and parsed, not linked)."""
    compiler = os.environ.get("CXX", "c++").split()
    if not shutil.which(compiler[0]):
        return False
    command = [*compiler, "-std=c++20", "-fsyntax-only", *flags, "-x", "c++", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True).returncode == 0


def missing_packages() -> list[str]:
    """Debian names of what this machine lacks."""
    missing = []
    if not preprocesses("#include <concepts>\n#include <span>\nstatic_assert(std::integral<int>);"):
        missing.append("g++")
    if not shutil.which("cmake"):
        missing.append("cmake")
    if not shutil.which("make"):
        missing.append("make")
    # While the compiler is missing nothing is known about headers: both are asked for, and apt-get ignores what is there.
    if "g++" in missing or not preprocesses("#include <gtest/gtest.h>"):
        missing.append("libgtest-dev")
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if sys.base_prefix == "/usr":  # the distribution's Python comes in parts; any other brings its headers and ensurepip
        if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
            missing.append(f"{python}-dev")
        if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode != 0:
            missing.append(f"{python}-venv")
    return missing


def install_system_packages() -> None:
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get"):
        sys.exit(f"This machine lacks (by their Debian names): {' '.join(missing)}. Install them, then run make again.")
    line = f"apt-get install -y --no-install-recommends {' '.join(missing)}"
    if os.geteuid() != 0:
        sys.exit(f"System packages are missing. Run this line, then make again:\n\n    sudo {line}\n")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-q"], env=env, stdin=subprocess.DEVNULL)  # a failed update may still leave usable lists
    run(*line.split(), env=env)
    if still := missing_packages():
        sys.exit(f"Still missing after apt-get install: {' '.join(still)}")


def outer_torch() -> Path | None:
    """The directory that holds this interpreter's torch, if that torch can be imported and is new enough."""
    code = "import torch, pathlib; print(torch.__version__); print(pathlib.Path(torch.__file__).parent.parent)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if found.returncode != 0:
        return None
    version, where = found.stdout.split("\n")[:2]
    if tuple(int(p) for p in version.split(".")[:2]) < TORCH_MINIMUM:
        print(f"torch {version} of {sys.executable} is older than 2.11: not used")
        return None
    print(f"using torch {version} of {sys.executable}")
    return Path(where)


def make_venv(venv: Path) -> Path:
    """Creates the virtual environment, or keeps one made by the same Python version. Returns its interpreter."""
    python = venv / "bin" / "python"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = "import sys, pip; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True) if python.exists() else None
    if found is None or found.returncode != 0 or found.stdout.strip() != ours:
        run(sys.executable, "-m", "venv", "--clear", venv)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--torch", default="torch==2.13.0", help="what pip installs when this interpreter has no torch >= 2.11")
    parser.add_argument("--requirements", type=Path, default=Path(__file__).with_name("requirements-test.txt"))
    args = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=python3.12")
    install_system_packages()
    inside = Path(sys.prefix).resolve() == args.venv.resolve()  # run by the .venv's own interpreter
    python = Path(sys.executable) if inside else make_venv(args.venv)
    pip = (python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-q")
    torch_dir = None if inside else outer_torch()
    if not inside:
        site = Path(subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True).strip())
        pth = site / PTH_NAME
        if torch_dir:
            pth.write_text(f"import site; site.addsitedir({str(torch_dir)!r})\n")
        else:
            pth.unlink(missing_ok=True)
    if torch_dir is None:
        run(*pip, *args.torch.split())
    run(*pip, "-r", args.requirements)


if __name__ == "__main__":
    main()
