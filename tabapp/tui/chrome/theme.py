"""tabapp's own color theme; all themes of Textual work too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from textual.theme import BUILTIN_THEMES, Theme

from tabapp.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from textual.app import App

    from tabapp.run.options.settings import Settings

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


def check_theme(settings: Settings) -> str:
    """The configured theme, or tabapp's own.

    Raises:
        UsageError: the theme is unknown.
    """
    name = settings.theme or THEME.name
    known = {*BUILTIN_THEMES, THEME.name}
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}."
        raise UsageError(f"There is no theme {name!r}{hint}")
    return name


def use_theme(app: App[Any], settings: Settings, remembered: str = "") -> None:
    """Use the configured theme, or else the one that was chosen last.

    Without both, `$TEXTUAL_THEME` (read by Textual) takes precedence over tabapp's theme.

    Raises:
        UsageError: the theme is unknown.
    """
    app.register_theme(THEME)
    name = check_theme(settings)
    if settings.theme or "TEXTUAL_THEME" not in os.environ:
        is_known = remembered in (*BUILTIN_THEMES, THEME.name)
        app.theme = remembered if is_known and not settings.theme else name
