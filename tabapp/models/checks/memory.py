"""Measure the memory of a fit in a separate process: `python -m tabapp.models.checks.memory` with a JSON `Request` on stdin."""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from tabapp.children import module_command
from tabapp.models import registry
from tabapp.models.checks.tables import make_context, make_table, shape_of
from tabapp.task import Task
from tabapp.temporary import TemporaryFolder


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fit to measure: the model's defaults on a generated table, with a soft deadline in seconds."""

    model: str
    task: Task
    columns: dict[str, Any]
    seconds: float


def peak_memory_of_fit(model: str, task: Task, columns: dict[str, Any], seconds: float) -> int:
    """Peak memory of a fit in bytes, minus the memory that the process used before the fit.

    Args:
        columns: keyword arguments of `make_table`.

    Raises:
        RuntimeError: the process failed; the message contains the last line of its stderr.
    """
    request = msgspec.json.encode(Request(model, task, columns, seconds))
    done = subprocess.run(module_command(__name__), input=request, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"the process of the fit exited with code {done.returncode}: {lines[-1] if lines else ''}")
    return int(done.stdout)


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fit(request: Request) -> int:
    plugin = registry.get(request.model)
    columns: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in request.columns.items()}
    table, spec, n_classes = make_table(request.task, **columns)
    n_train = len(table) * 3 // 4
    train, valid = table.take(slice(0, n_train)), table.take(slice(n_train, None))
    params = plugin.defaults(request.task, shape_of(train, spec, n_classes), "cpu")
    for package in plugin.requires:
        importlib.import_module(package)
    before = _peak()
    with TemporaryFolder("check") as folder:
        context = make_context(
            request.task, spec, n_classes, Path(folder), soft_deadline=time.monotonic() + request.seconds
        )
        plugin.fit(train, valid, params, context).predict(valid)
    return _peak() - before


if __name__ == "__main__":
    print(_fit(msgspec.json.decode(sys.stdin.buffer.read(), type=Request)))
