"""docs/terminal.md lists every action with the keys that it really has."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tabapp.tui.chrome.actions import ACTIONS, ALWAYS, PHASE_TEXTS, Action
from tests.tui.test_every_action import CASES

PAGE = Path(__file__).parent.parent.parent / "docs" / "terminal.md"
KEYS = re.compile(r"(<!-- keys: [^\n]* -->\n)(.*)(<!-- end of keys -->)", re.DOTALL)
TITLES = {
    "everywhere": "Everywhere",
    "run": "1 Run",
    "data": "2 Data",
    "table": "2 Data: all rows",
    "models": "3 Models",
    "tuning": "4 Tuning",
    "explain": "5 Explain",
    "predict": "6 Predict",
    "runs": "7 Runs",
    "log": "8 Log",
}
NAMES = {"question_mark": "?", "slash": "/", "plus": "+", "minus": "-", "left": "←", "right": "→", "escape": "esc"}


def line(action: Action) -> str:
    keys = " ".join(f"`{NAMES.get(key, key)}`" for key in action.keys.split(","))
    phases = "" if action.phases == ALWAYS else ", ".join(PHASE_TEXTS[phase] for phase in action.phases)
    return f"| {keys} | {action.help.replace('|', '/')} | {phases} | `{action.id}` |"


def table() -> str:
    parts: list[str] = []
    for scope, title in TITLES.items():
        lines = [line(action) for action in ACTIONS if action.scope == scope]
        parts.append(
            "\n".join([f"### {title}", "", "| keys | what it does | when | id |", "|---|---|---|---|", *lines])
        )
    return "\n" + "\n\n".join(parts) + "\n\n"


def test_the_table_of_keys_is_that_of_the_actions():
    assert {action.scope for action in ACTIONS} == set(TITLES)
    page = PAGE.read_text()
    if os.environ.get("TABAPP_UPDATE_DOCS"):
        page = KEYS.sub(lambda found: found[1] + table() + found[3], page)
        PAGE.write_text(page)
    found = KEYS.search(page)
    assert found is not None
    assert found[2] == table(), "TABAPP_UPDATE_DOCS=1 writes it anew"


def test_keys_that_the_text_names_are_those_of_actions():
    """The tasks speak of keys; each must be one that some action, or moving, has."""
    tasks = PAGE.read_text().partition("## Ten things to try")[2].partition("## Small, limited")[0]
    rows = re.findall(r"^\| [a-z].* \| (`.*`.*) \| [\d.]+ \|$", tasks, re.MULTILINE)
    assert len(rows) == 10
    known = {NAMES.get(key, key) for action in ACTIONS for key in action.keys.split(",")}
    moving = {"g", "j", "tab", "enter", "y"}
    typed = {"city", "tabnet", "failed", "new.csv"}
    for row in rows:
        assert set(re.findall(r"`([^`]+)`", row)) <= known | moving | typed, row
    assert set(CASES) == {action.id for action in ACTIONS}
