"""The fields of a run that the filter of the Runs screen searches."""

from __future__ import annotations

import time
from pathlib import Path

from tabapp.run.lists.description import RunDescription
from tabapp.tui.viewmodels.query import Value

FIELDS = ("run", "name", "status", "data", "target", "metric", "best", "seconds", "models", "age")


def filter_fields(run: RunDescription) -> dict[str, Value]:
    """The fields of a run by the names that filters use; `age` is in seconds."""
    return {
        "run": run.run,
        "name": run.name,
        "status": run.status,
        "data": Path(run.data).name,
        "target": run.target,
        "metric": run.metric_title,
        "best": run.best,
        "seconds": run.seconds,
        "models": run.models,
        "age": time.time() - run.started if run.started is not None else None,
    }
