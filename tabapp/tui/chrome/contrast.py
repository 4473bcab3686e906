"""Colors of a theme that can be read: those that are too close to what they are written on move away from it."""

from __future__ import annotations

from collections.abc import Mapping

from textual.color import BLACK, WHITE, Color

TEXT_COLORS = ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
READABLE = 4.5
"""Contrast of text with what it is written on that WCAG 2.2 asks for (level AA)."""
CURSOR_TINTS = (0.3, 0.25, 0.2, 0.15, 0.1)
"""Shares of the primary color in the background of the row under the cursor; the first in which text can be read is taken."""
STEP = 0.05


def contrast(one: Color, other: Color) -> float:
    """The contrast ratio of two opaque colors from 1 to 21, as WCAG 2.2 defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def surfaces(variables: Mapping[str, str]) -> list[Color]:
    """What text is written on: the background, dialogs, and the row under the cursor."""
    return [Color.parse(variables[name]) for name in ("background", "surface", "cursor")]


def readable(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a theme with `cursor`, the background of the row under it, and with text colors of enough contrast.

    The terminal's own colors stay as they are.
    """
    found = {**variables, "cursor": f"{variables['primary']} 30%"}
    if any(found[name].startswith("ansi") for name in ("background", *TEXT_COLORS)):
        return found
    background, primary = Color.parse(found["background"]), Color.parse(found["primary"])
    away = max((BLACK, WHITE), key=lambda end: contrast(end, background))
    tints = [background.blend(primary, share, 1.0) for share in CURSOR_TINTS]
    written = Color.parse(found["foreground"])
    found["cursor"] = next((tint for tint in tints if contrast(written, tint) >= READABLE), tints[-1]).hex
    for name in TEXT_COLORS:
        color, moved = Color.parse(found[name]), 0.0
        while moved < 1.0 and min(contrast(Color.parse(found[name]), each) for each in surfaces(found)) < READABLE:
            moved = min(1.0, moved + STEP)
            found[name] = color.blend(away, moved, 1.0).hex
    return found
