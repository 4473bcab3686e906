"""Fills the screen with one panel: its neighbors and those of the boxes around it are hidden."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widget import Widget

BODY = "#body"
ZOOMED, PATH, AWAY = "-zoomed", "-zoom-path", "-zoom-away"


def panel_around(widget: Widget) -> Widget:
    """The panel of a widget: the box that draws its border, or itself."""
    boxes = [each for each in widget.ancestors if isinstance(each, Widget) and each.has_class("box")]
    return boxes[0] if boxes else widget


def zoom(screen: Screen[Any], widget: Widget) -> None:
    """Show only the panel of a widget of the body."""
    unzoom(screen)
    body = screen.query_one(BODY)
    node = panel_around(widget)
    while node is not body and isinstance(node.parent, Widget):
        for sibling in node.parent.children:
            sibling.set_class(sibling is not node, AWAY)
        node.add_class(PATH)
        node = node.parent
    screen.add_class(ZOOMED)


def unzoom(screen: Screen[Any]) -> bool:
    """Show all panels again; whether one was alone."""
    was_zoomed = screen.has_class(ZOOMED)
    screen.remove_class(ZOOMED)
    for mark in (PATH, AWAY):
        screen.query(f".{mark}").remove_class(mark)
    return was_zoomed
