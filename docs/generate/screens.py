"""The panels and keys of each screen, from the texts and actions of the terminal UI."""

from __future__ import annotations

from tabapp.markdown import code, table
from tabapp.tui.chrome.actions import ACTIONS, ALWAYS, Phase, Scope, View
from tabapp.tui.chrome.help_texts import PANELS, SCREENS

KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "plus": "+",
    "minus": "-",
    "number_sign": "#",
    "asterisk": "*",
    "left": "←",
    "right": "→",
    "escape": "esc",
}

PHASE_TEXTS: dict[Phase, str] = {
    "reading": "while the file is read",
    "ready": "when the plan is ready",
    "starting": "while a start waits",
    "during": "during the run",
    "after": "after the run",
    "stopped": "after the engine has stopped",
    "replaying": "in a replay",
}


def pages() -> dict[str, str]:
    listed = "\n".join(SCREENS)
    return {
        "parts/screen-pages.md": f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n",
        "parts/everywhere.md": _keys("everywhere"),
        **{f"parts/{screen}.md": f"{_panels(screen)}\n## Keys\n\n{_keys(screen)}" for screen in SCREENS},
    }


def _panels(screen: View) -> str:
    parts = ["## Panels"]
    for name in SCREENS[screen]:
        title, text = PANELS[name]
        parts.append(f"{title}\n: {text}")
    return "\n\n".join(parts) + "\n"


def _keys(scope: Scope) -> str:
    rows = [
        [
            " ".join(code(KEY_NAMES.get(key, key)) for key in action.keys.split(",")),
            action.help,
            _phases(action.phases),
            code(action.id),
        ]
        for action in ACTIONS
        if action.scope == scope
    ]
    return table(["Keys", "Action", "When", "Id"], rows)


def _phases(phases: tuple[Phase, ...]) -> str:
    return "always" if phases == ALWAYS else ", ".join(PHASE_TEXTS[phase] for phase in phases)
