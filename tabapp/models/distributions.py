"""Which installed distribution provides an import package."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

_RENAMED = {"sklearn": "scikit-learn"}


def distribution_of(package: str) -> str:
    """The distribution of an import package, or the package's own name if none is installed."""
    name = _RENAMED.get(package, package)
    try:
        return distribution(name).name
    except PackageNotFoundError:
        return _by_package().get(package, [package])[0]


@cache
def _by_package() -> dict[str, list[str]]:
    # It lists the files of every installed distribution, which takes half a second.
    return {name: list(found) for name, found in packages_distributions().items()}
