"""AutoML for tables in the terminal and from Python.

Every public name is loaded when it is first used, so that `import tabapp` is light: the command line imports this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabapp import sklearn
    from tabapp.api.fitting import fit, resume
    from tabapp.api.loading import load
    from tabapp.api.predictor import Predictor
    from tabapp.api.profiling import profile
    from tabapp.api.runs import Run, runs
    from tabapp.api.targets_predictor import TargetsPredictor
    from tabapp.data.profile import Profile
    from tabapp.errors import BudgetError, BundleError, DataError, TabappError, TableWarning, UsageError
    from tabapp.models.contract import (
        Cost,
        FeatureContributions,
        FeatureRecipe,
        FeatureSpec,
        FitContext,
        FitStopped,
        FittedModel,
        Params,
        Plugin,
        RowNeighbors,
        Shape,
        Table,
        Task,
        Trial,
    )

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "BundleError",
    "Cost",
    "DataError",
    "FeatureContributions",
    "FeatureRecipe",
    "FeatureSpec",
    "FitContext",
    "FitStopped",
    "FittedModel",
    "Params",
    "Plugin",
    "Predictor",
    "Profile",
    "RowNeighbors",
    "Run",
    "Shape",
    "TabappError",
    "Table",
    "TableWarning",
    "TargetsPredictor",
    "Task",
    "Trial",
    "UsageError",
    "__version__",
    "fit",
    "load",
    "profile",
    "resume",
    "runs",
    "sklearn",
]

_HOMES = {
    "tabapp.api.fitting": ("fit", "resume"),
    "tabapp.api.loading": ("load",),
    "tabapp.api.predictor": ("Predictor",),
    "tabapp.api.targets_predictor": ("TargetsPredictor",),
    "tabapp.api.profiling": ("profile",),
    "tabapp.api.runs": ("Run", "runs"),
    "tabapp.data.profile": ("Profile",),
    "tabapp.errors": ("BudgetError", "BundleError", "DataError", "TabappError", "TableWarning", "UsageError"),
    "tabapp.models.contract": (
        "Cost", "FeatureContributions", "FeatureRecipe", "FeatureSpec", "FitContext", "FitStopped", "FittedModel", "Params",
        "Plugin", "RowNeighbors", "Shape", "Table", "Task", "Trial",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name == "sklearn":
        return import_module("tabapp.sklearn")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tabapp' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
