"""What the classes of models state about themselves, read from their source. Importing the plugins of networks takes seconds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from tabapp.discovery import entry_point, points, stated
from tabapp.plugin_files import model_files

GROUP = "tabapp.models"
VARIANTS = "tabapp.variants"
"""Entry points of models that compete only in runs with rows without a target."""
PRESETS = "tabapp.presets"
"""Entry points of models as a paper has them, which compete only if `--models` names them."""
GROUPS = (GROUP, VARIANTS, PRESETS)

Libraries = Literal["boosters", "trees", "torch"]
"""What the fits of a model import: only the boosting libraries, scikit-learn too, or torch. Each loads in more time than the one
before it."""
BOOSTERS = ("lightgbm", "xgboost", "catboost")
"""The boosting libraries."""


def libraries_of(requires: Collection[str]) -> Libraries:
    """The libraries of a model.

    Args:
        requires: as in `Plugin`.
    """
    if "torch" in requires:
        return "torch"
    return "boosters" if requires and set(requires) <= set(BOOSTERS) else "trees"


def stated_libraries(name: str) -> Libraries:
    """The libraries of a model whose class states what it requires. Other plugins inherit from networks, or may import anything:
    they count as torch."""
    requires = _stated(name, "requires")
    return "torch" if requires is None else libraries_of(requires)


def stated_title(name: str) -> str:
    """The title of a model as its class states it, or its name."""
    return _stated(name, "title") or name


def imports_lightly(name: str) -> bool:
    """Whether the plugin of a model is imported without its libraries: boosters and scikit-learn are imported by fits alone, and a
    class that states that it trains nothing is no network itself."""
    return stated_libraries(name) != "torch" or bool(_stated(name, "trains_nothing"))


def warming_up() -> list[str]:
    """Names of the models that warm up a GPU."""
    return sorted(name for name in points(GROUP) if _stated(name, "warms_up"))


def _stated(name: str, member: str) -> Any:
    return stated(member, entry_point(name, GROUPS), model_files().get(name))
