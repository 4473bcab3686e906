"""Imported once by the server that fit processes are forked from, so that a fit starts in milliseconds.

Importing must start no thread and touch no GPU. A library that is missing or broken costs only its own models.
"""

from __future__ import annotations

import importlib
from contextlib import suppress

for _name in (
    "numpy",
    "polars",
    "sklearn.preprocessing",
    "xgboost",
    "lightgbm",
    "catboost",
    "torch",
    "tabapp.engine.fit",
):
    with suppress(Exception):
        importlib.import_module(_name)
