"""The Python reference: every public name of `tabapp`, from its docstring."""

from __future__ import annotations

import inspect

import tabapp
from tabapp.errors import TabappError
from tabapp.markdown import page
from tabapp.models import contract

ESTIMATORS = ("TabappClassifier", "TabappRegressor")


def pages() -> dict[str, str]:
    names = sorted(set(tabapp.__all__) - {"__version__", "sklearn"})
    values = {name: getattr(tabapp, name) for name in names}
    errors = [name for name in names if inspect.isclass(values[name]) and issubclass(values[name], TabappError)]
    plugin = [name for name in names if name in contract.__all__]
    functions = [name for name in names if inspect.isfunction(values[name])]
    classes = [name for name in names if name not in {*errors, *plugin, *functions}]
    return {
        "api.md": page(
            "Python reference",
            "All public names of `tabapp`. [tabapp in Python](../reference/python.md) is a guide with examples.",
            _section("Functions", [_function(f"tabapp.{name}") for name in functions]),
            _section("Runs and predictors", [_class(f"tabapp.{name}") for name in classes]),
            _section("scikit-learn estimators", [_estimator(f"tabapp.sklearn.{name}") for name in ESTIMATORS]),
            _section("Errors", [_class(f"tabapp.{name}") for name in errors]),
            _section("Plugins", [_public(name, values[name]) for name in plugin]),
        )
    }


def _public(name: str, value: object) -> str:
    return _class(f"tabapp.{name}") if inspect.isclass(value) else f".. autodata:: tabapp.{name}\n   :no-value:\n"


def _function(path: str) -> str:
    return f".. autofunction:: {path}\n"


def _class(path: str) -> str:
    return f".. autoclass:: {path}\n   :members:\n   :show-inheritance:\n"


def _estimator(path: str) -> str:
    """Without the methods that scikit-learn generates for metadata routing: their docstrings refer to its own glossary."""
    routing = ", ".join(f"set_{method}_request" for method in ("fit", "predict", "predict_proba", "score"))
    return f"{_class(path)}   :exclude-members: {routing}\n"


def _section(title: str, directives: list[str]) -> str:
    return "\n".join([f"## {title}", "", "```{eval-rst}", *directives, "```"])
