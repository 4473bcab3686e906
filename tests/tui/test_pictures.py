"""The committed screenshots show today's screens: tabs, keys with their labels, and titles of panels."""

from __future__ import annotations

import ast
import html
import re
from functools import cache
from pathlib import Path

import pytest

from tabapp.tui.chrome.actions import ACTIONS, TABS

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "assets"
PICTURES = sorted((ASSETS / "screenshots").glob("*.svg"))
CELL = 12.2
"""Width of a character in Textual's SVGs."""
TEXT = re.compile(r'<text [^>]*?x="([\d.]+)"[^>]*?clip-path="url\(#[\w-]+-line-(\d+)\)">(.*?)</text>')
RUN_ID = r"[a-z-]+-[0-9a-f]{4}"
REMEDY = "run `make pictures`"


def lines(picture: Path) -> list[str]:
    """The rows of a screen as text."""
    rows: dict[int, str] = {}
    for x, number, text in sorted(TEXT.findall(picture.read_text()), key=lambda found: float(found[0])):
        row = rows.get(int(number), "").ljust(round(float(x) / CELL))
        rows[int(number)] = row + html.unescape(text).replace("\xa0", " ")
    return [rows.get(number, "") for number in range(max(rows) + 1)]


@cache
def texts_of_the_interface() -> set[str]:
    """All texts in the code of the screens, up to a separator."""
    found: set[str] = set()
    for path in (ROOT / "tabapp" / "tui").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value.partition(" · ")[0].strip())
    return found


def keys_of(picture: Path) -> list[str]:
    return re.split(r" {2,}", lines(picture)[-1].strip())


def titles_of(picture: Path) -> set[str]:
    """Titles of panels, without names of columns; not the titles that are a model or the table."""
    found = re.findall(r"╭─ (.+?) ─", "\n".join(lines(picture)))
    table = lines(picture)[0].split()[0]
    titles = {re.sub("(?<=Effect of) .*", "", title.partition(" · ")[0]) for title in found}
    return {title for title in titles if title != table and not re.search(r" #\d", title)}


def test_every_tab_has_pictures_of_both_sizes():
    for _, view, _ in TABS:
        for size in ("120x36", "80x24"):
            for kind in ("svg", "png"):
                assert (ASSETS / "screenshots" / f"{view}-{size}.{kind}").is_file()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_words_of_a_picture_are_those_of_the_screens(picture):
    labels = {f"{action.shown_key} {action.label}" for action in ACTIONS} | {"^p palette"}
    keys = keys_of(picture)
    assert len(keys) > 3
    assert set(keys) <= labels, REMEDY
    titles = titles_of(picture)
    assert titles or picture.stem.startswith(("help", "table"))
    texts = texts_of_the_interface()
    # Some titles begin with a metric, and that of a preview is the name of its run.
    ends = tuple(text for text in texts if len(text) > 10)
    unknown = {title for title in titles - texts if not title.endswith(ends) and not re.fullmatch(RUN_ID, title)}
    assert not unknown, REMEDY
    if not picture.stem.startswith(("help", "table")):
        assert re.findall(r"(\d) (\w+)", lines(picture)[1]) == [(key, name) for key, _, name in TABS], REMEDY


def test_no_asset_is_large():
    assert {path.name: path.stat().st_size for path in ASSETS.rglob("*.*") if path.stat().st_size > 1_000_000} == {}
