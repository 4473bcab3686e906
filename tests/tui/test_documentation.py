"""docs/guide/terminal.md names keys that actions have."""

from __future__ import annotations

import re
from pathlib import Path

from tabapp.tui.chrome.actions import ACTIONS
from tests.tui.test_every_action import CASES

PAGE = Path(__file__).parent.parent.parent / "docs" / "guide" / "terminal.md"
NAMES = {"question_mark": "?", "slash": "/", "plus": "+", "minus": "-", "left": "←", "right": "→", "escape": "esc"}


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
