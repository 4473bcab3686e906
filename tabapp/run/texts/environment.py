"""The machine and the versions of a run, for reports and bug reports."""

from __future__ import annotations

PACKAGES = ("textual", "torch", "polars", "catboost", "xgboost", "lightgbm", "optuna", "scikit-learn", "numpy")
"""The packages that results depend on, and the one that draws the screens."""


def versions() -> dict[str, str | None]:
    """The installed version of each package, None for one that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def environment() -> dict[str, str]:
    """Python, the system, the processor cores, and the installed packages with their versions."""
    import os
    import platform

    installed = {name: number for name, number in versions().items() if number is not None}
    return {
        "Python": platform.python_version(),
        "System": platform.platform(),
        "Processor": f"{platform.machine()}, {os.cpu_count() or 1} cores",
        **installed,
    }
