"""autosp: single-device PyTorch training code, compiled to run sequence parallel, with the same numbers.

mesh  = init_device_mesh(device, (dp, sp), mesh_dim_names=("dp", "sp"))
model = autosp.compile(model, mesh["sp"])
"""

from . import memory
from ._core import __version__
from .api import compile, explain, register_rule
from .config import Options
from .errors import CompileError, InternalError

__all__ = ["CompileError", "InternalError", "Options", "__version__", "compile", "explain", "memory", "register_rule"]
