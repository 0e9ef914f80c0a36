"""The Dynamo backend `autosp`: `model.compile(backend="autosp", options={...})`, over the default process group."""

from __future__ import annotations

from .api import backend_for


def backend(gm, example_inputs, *, options: dict | None = None):
    """Compile one graph of Dynamo's; see `autosp.config.Options` for the options."""
    return backend_for(options)(gm, example_inputs)
