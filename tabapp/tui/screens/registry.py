"""The screens that have a tab. Each is imported when first shown, so the first paint waits for only one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from textual.screen import Screen

from tabapp.tui.chrome.actions import TABS, View
from tabapp.tui.screens.base import RunView
from tabapp.tui.screens.data import DataView


def screen_class(view: View) -> type[RunView]:
    """Import the screen of a tab: the `RunView` that the module `tabapp.tui.screens.<view>` defines with this `VIEW`."""
    members = vars(import_module(f"tabapp.tui.screens.{view}")).values()
    return next(
        member
        for member in members
        if isinstance(member, type) and issubclass(member, RunView) and getattr(member, "VIEW", None) == view
    )


def _screen(view: View) -> RunView:
    return screen_class(view)()


VIEWS: dict[str, str | Callable[[], Screen[Any]]] = {
    **{view: partial(_screen, view) for _, view, _ in TABS},
    "data": DataView,
}
