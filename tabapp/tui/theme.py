"""The colours that tabapp has of its own; every theme of Textual works too."""

from __future__ import annotations

from textual.theme import Theme

THEME = Theme(
    name="tabapp",
    primary="#7aa2f7",
    secondary="#7dcfb6",
    accent="#e8b964",
    success="#8cc777",
    warning="#e0a35c",
    error="#ef7b7b",
    foreground="#d3d9e4",
    background="#11151c",
    surface="#161b24",
    panel="#1e2531",
    dark=True,
    variables={
        "scrollbar": "#3a4558",
        "scrollbar-hover": "#7aa2f7",
        "scrollbar-active": "#7aa2f7",
        "scrollbar-background": "#11151c",
        "scrollbar-background-hover": "#11151c",
        "scrollbar-background-active": "#11151c",
        "scrollbar-corner-color": "#11151c",
    },
)
