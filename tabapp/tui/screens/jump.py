"""Jump mode: a letter on each panel; pressing it moves the focus there."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from tabapp.tui.content import Content

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


def places_of(screen: Screen[Any]) -> list[Widget]:
    """The widgets of a screen that can be focused, as they are read: from the top, then from the left."""
    shown = [widget for widget in screen.focus_chain if widget.region.area and widget.id != "filter"]
    return sorted(shown, key=lambda widget: (widget.region.y, widget.region.x))[: len(LETTERS)]


class Jump(ModalScreen[Widget | None]):
    """Covers a screen with the letters of its panels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+o,ctrl+q", "dismiss", show=False)]

    def __init__(self, places: list[Widget]) -> None:
        super().__init__()
        self._places = dict(zip(LETTERS, places, strict=False))

    def compose(self) -> ComposeResult:
        for letter, widget in self._places.items():
            label = Static(Content(f" {letter} "), classes="jump-letter")
            label.styles.offset = Offset(widget.region.x + 1, widget.region.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        if event.key in self._places:
            event.stop()
            self.dismiss(self._places[event.key])

    def on_click(self) -> None:
        self.dismiss(None)
