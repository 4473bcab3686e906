"""The panels and keys of each screen, from the texts and actions of the terminal UI."""

from __future__ import annotations

from tabapp.tui.chrome.actions import ACTIONS, ALWAYS, PHASE_TEXTS, Phase
from tabapp.tui.chrome.help_texts import PANELS, SCREENS

from .markdown import code, table

KEY_NAMES = {"question_mark": "?", "slash": "/", "plus": "+", "minus": "-", "left": "←", "right": "→", "escape": "esc"}


def pages() -> dict[str, str]:
    return {f"parts/{screen}.md": _panels(screen) + "\n" + _keys(screen) for screen in SCREENS}


def _panels(screen: str) -> str:
    parts = ["## Panels"]
    for name in SCREENS[screen]:  # pyright: ignore[reportArgumentType]
        title, text = PANELS[name]
        parts.append(f"{title}\n: {text}")
    return "\n\n".join(parts) + "\n"


def _keys(screen: str) -> str:
    rows = [
        [" ".join(code(KEY_NAMES.get(key, key)) for key in action.keys.split(",")), action.help, _phases(action.phases)]
        for action in ACTIONS
        if action.scope == screen
    ]
    return "## Keys\n\n" + table(["Keys", "Action", "When"], rows)


def _phases(phases: tuple[Phase, ...]) -> str:
    return "always" if phases == ALWAYS else ", ".join(PHASE_TEXTS[phase] for phase in phases)
