"""A bordered panel that draws text from facts, and only when the facts have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.widget import Widget

from tabapp.printable import one_line
from tabapp.tui.content import Content, flat

Facts = TypeVar("Facts")


def set_titles(
    widget: Widget, title: str | None = None, subtitle: str | None = None, *, is_stale: bool = False
) -> None:
    """Set the border titles of a widget to printable text without markup. Setting an unchanged title costs nothing.

    Args:
        is_stale: what is shown is preliminary, or of something that the run has replaced; the title has the color of a warning.
    """
    widget.set_class(is_stale, "-stale")
    for name, text in (("border_title", title), ("border_subtitle", subtitle)):
        shown = getattr(widget, f"_{name}")
        text = None if text is None else one_line(text)
        if text is not None and (shown is None or shown.plain != text):
            setattr(widget, name, Content(text))


class Panel(Widget, Generic[Facts], can_focus=True):
    """Base of panels: subclasses draw their facts at a size in cells."""

    def __init__(self, title: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        set_titles(self, title)
        self._facts: Facts | None = None

    def show(self, facts: Facts) -> None:
        """Set facts and redraw if they have changed."""
        if facts != self._facts:
            self._facts = facts
            self.on_facts(facts)
            self.refresh()

    def on_facts(self, facts: Facts) -> None:
        """Called before new facts are drawn, to set titles."""

    def draw(self, facts: Facts, width: int, height: int) -> Sequence[Content]:
        """Lines for a size in cells; anything beyond is cut off."""
        raise NotImplementedError

    def numbers(self) -> Sequence[Sequence[object]]:
        """The numbers that are drawn, as rows below a row of titles, to be saved; nothing for panels of text."""
        return ()

    def render(self) -> Content:
        width, height = self.size
        if self._facts is None or width < 1 or height < 1:
            return Content("")
        lines = self.draw(self._facts, width, height)[:height]
        return Content("\n").join([flat(line).truncate(width, ellipsis=True) for line in lines])
