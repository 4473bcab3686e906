"""Help about the thing under the cursor, its search, and the glossary."""

from __future__ import annotations

import pytest

from tabapp.tui.chrome.glossary import CELLS, SIGNS, WORDS
from tabapp.tui.chrome.help_texts import PANELS, SCREENS
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.help import Help, found_in, help_sections, listed
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, drive
from tests.tui.screens.test_diagnose_screen import explained


@pytest.mark.parametrize("size", SIZES)
async def test_help_answers_first_for_the_row_under_the_cursor(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("down", "question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        text = driver.app.screen._text.plain
        assert text.startswith("Under the cursor")
        assert "± 95% ±0.0210: half of the 95 % bootstrap interval of the score over 891 rows" in " ".join(text.split())
        assert text.index("Under the cursor") < text.index("Leaderboard") < text.index("Keys")


async def test_help_starts_with_the_panel_in_focus_where_there_is_no_row(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("3")
        driver.app.screen.query_one("#pictures").focus()
        await driver.press("question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        panels = [section.plain.partition("\n")[0] for section in driver.app.screen._sections]
        assert panels[:2] == ["Charts", "Models"]


async def test_help_is_searched_and_does_not_move_when_it_opens(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=NARROW, attach=True) as driver:
        await driver.press("question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        first = driver.app.screen.query_one("#text").region.width
        await driver.still()
        assert driver.app.screen.query_one("#text").region.width == first
        await driver.press("slash", *"bootstrap")
        await driver.sees("half of the 95 % bootstrap interval")
        assert "Keys" not in driver.text()
        await driver.press(*"zzz")
        await driver.sees("Nothing contains “bootstrapzzz”")
        await driver.press("escape")
        await driver.sees("Under the cursor")
        await driver.press("escape")
        await driver.until(lambda: not isinstance(driver.app.screen, Help))


async def test_the_glossary_fits_on_one_screen(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("ctrl+g")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("bundle", "cross-fitted", "validation rows", "★", "≠")


def test_terms_are_sorted_and_found():
    assert [term for term, _ in WORDS] == sorted(term for term, _ in WORDS)
    assert len({sign for sign, _ in SIGNS}) == len(SIGNS)
    found = found_in([listed("Signs", SIGNS), listed("Words", WORDS)], "weight sum").plain
    assert found.splitlines()[0] == "Words"
    assert len(found.splitlines()) == 2
    assert set(CELLS) <= set(PANELS)


async def test_the_help_of_a_column_begins_with_its_reason_and_warnings(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("2")
        schema = driver.app.snapshot().state.schema
        table = driver.app.screen.query_one("#columns", Table)
        await driver.until(lambda: table.rows)
        warned = {warning.column for warning in schema.warnings}
        ignored = next(column for column in schema.columns if column.role == "ignore" and column.name in warned)
        await driver.press(*["down"] * next(n for n, row in enumerate(table.rows) if row.key == ignored.name))
        section = help_sections("data", "columns", driver.app.snapshot().state, "ready", table)[0].plain.splitlines()
        assert (
            section[1]
            == f"{ignored.name}, {ignored.kind}: {ignored.reason} The models do not see it; space includes it."
        )
        assert section[2].startswith(f"⚠ {ignored.name}")
        assert not any(line.startswith("values ignored") for line in section)


async def test_columns_with_a_meaning_exist(tmp_path, monkeypatch):
    """A title that changes needs its meaning under the new title."""
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        state = driver.app.snapshot().state
        for digit, name in (("1", "leaderboard"), ("3", "models"), ("4", "trials"), ("2", "columns")):
            await driver.press(digit)
            table = driver.app.screen.query_one(f"#{name}", Table)
            await driver.until(lambda table=table: table.rows)
            titles = [column.title for column in table.columns if len(column.title) > 1]
            metric = state.plan.metric_title
            known = [title for title in titles if title in CELLS[name] or title.startswith(metric)]
            assert len(known) >= len(titles) - 2, (name, titles)
            sections = help_sections(driver.app.screen.VIEW, name, state, "during", table)
            assert any("Under the cursor" in section.plain for section in sections[:2])


@pytest.mark.parametrize("view", [view for view in SCREENS if view not in ("door", "table", "row", "predict")])
async def test_help_answers_first_for_whatever_has_the_focus(tmp_path, monkeypatch, view):
    """Each panel of each screen: its row under the cursor, or else the panel itself, comes first."""
    async with drive(tmp_path, monkeypatch, explained(), size=(200, 60), attach=True) as driver:
        await driver.press("escape")
        await driver.app.action_view(view)
        await driver.until(lambda: view == driver.app.screen.VIEW)
        await driver.until(lambda: view != "runs" or driver.app.screen.query_one("#runs", Table).rows)
        await driver.pilot.pause()
        screen = driver.app.screen
        seen: set[str] = set()
        while (focused := screen.focused) is not None and focused.id not in seen:
            seen.add(focused.id or "")
            await driver.press("question_mark")
            await driver.until(lambda: isinstance(driver.app.screen, Help))
            first = driver.app.screen._sections[0].plain
            if isinstance(focused, Table) and focused.key is not None and focused.id != "preview":
                assert first.startswith(("Under the cursor", "Result")), (focused.id, first)
            else:
                assert first.startswith(PANELS[focused.id][0]), (focused.id, first)
            await driver.press("escape")
            await driver.until(lambda: driver.app.screen is screen)
            await driver.press("tab")
        assert seen <= set(SCREENS[view]), "a panel without a help text"
