"""What a process on a GPU does once, before or during its first fit: create the context of CUDA, load kernels, record a graph."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from tabapp.models import registry, stated
from tabapp.models.checks.tables import make_context, make_table, shape_of
from tabapp.temporary import TemporaryFolder

N_ROWS, N_EPOCHS = 640, 3
"""Of a fit: enough steps that one of them is recorded."""


def warm_up(device: str, is_awaited: Callable[[], bool]) -> None:
    """Initialize a device by fits of small networks on a generated table, which change no later result: a fit seeds torch itself.

    Args:
        is_awaited: returns whether a job waits for the process, so that no other fit begins.

    Raises:
        RuntimeError: the device does not compute.
    """
    import torch

    def check() -> None:
        if float(torch.ones(8, device=device).sum()) != 8.0:
            raise RuntimeError(f"{device} does not compute.")

    check()
    for name in stated.warming_up():
        if is_awaited():
            break
        # A network that cannot be fitted reports it in its own fits.
        with suppress(Exception):
            fit_small(name, device)
    # An error of a kernel leaves the context unusable for good.
    check()
    if device.startswith("cuda"):
        # The memory of recorded steps is free once nothing refers to them.
        gc.collect()
        torch.cuda.empty_cache()


def fit_small(name: str, device: str) -> None:
    """Fit a network on a generated table, and predict with it."""
    plugin = registry.get(name)
    table, spec, n_classes = make_table("binary", n_rows=N_ROWS + 64, n_numeric=4, cardinalities=(6, 4))
    defaults = plugin.defaults("binary", shape_of(table, spec, n_classes), device)
    params = msgspec.structs.replace(defaults, max_epochs=N_EPOCHS)
    with TemporaryFolder("fit") as folder:
        context = replace(make_context("binary", spec, n_classes, Path(folder)), device=device)
        model = plugin.fit(table.take(slice(0, N_ROWS)), table.take(slice(N_ROWS, None)), params, context)
        model.predict(replace(table, target=None))
