"""The Data screen: columns, their inspector, and checks."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.run.protocol import paging
from tabapp.run.record import events as ev
from tabapp.run.record.records import RemedyView
from tabapp.tui.dialogs.column_inspector import ColumnInspector
from tabapp.tui.paging.client import Pager
from tabapp.tui.parts.columns import Columns, column_row, columns_for
from tabapp.tui.screens.data import DataView
from tabapp.tui.widgets.checks import without_options
from tabapp.tui.widgets.preview import Preview
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, Driver, drive
from tests.tui.planning import answer, enter, sent

# Columns


@pytest.mark.parametrize("size", [WIDE, (200, 50)])
async def test_the_preview_aligns_numbers_at_the_right_and_texts_at_the_left_as_their_titles(
    tmp_path, monkeypatch, size
):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.sees("Survived  PassengerId  Pclass  Name", "Braund")
        lines = driver.text().splitlines()
        at = next(place for place, line in enumerate(lines) if "Survived  PassengerId" in line)
        title, first = lines[at : at + 2]
        for name, cell in (("PassengerId", "1"), ("Survived", "0"), ("Pclass", "3")):
            end = title.index(name) + len(name)
            assert first[:end].endswith(f" {cell}")
        assert first.index("Braund") == title.index("Name")


async def test_the_preview_begins_with_the_targets_of_the_plan(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:-2]) as driver:
        await driver.sees("PassengerId  Survived  Pclass  Name")
        await driver.write(*recordings.opening()[-2:])
        await driver.sees("Survived  PassengerId  Pclass  Name")
        await driver.write(recordings.plan(targets=("Survived", "Sex")))
        await driver.sees("Survived  Sex     PassengerId  Pclass  Name")
        driver.app.screen.query_one(Preview).focus()
        await driver.press("a")
        await driver.until(lambda: not isinstance(driver.app.screen, DataView))
        await driver.sees("PassengerId  Survived  Pclass  Name")


async def test_a_filter_without_a_match_says_so(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.screen.set_filter("zzz")
        driver.app.screen.redraw()
        await driver.sees("No column matches “zzz”")


WIDE_VALUES = {
    "Age": "12285 … 1490400",
    "Sex": "46% Married-civ-spouse-of-a-sailor",
    "Cabin": "2011-01-01 … 2012-12-31",
    "Fare": "-12345678 … 87654321",
}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (WIDE, ("12285 … 1490400", "-12.3M … 87.7M", "46% Married-civ-s…", "2011-01 … 2012-12", " num ")),
        (NARROW, (" num ", "→ left out")),
    ],
)
async def test_what_is_cut_keeps_its_most_informative_part(tmp_path, monkeypatch, size, shown):
    schema = recordings.schema()
    columns = tuple(
        msgspec.structs.replace(column, summary=WIDE_VALUES.get(column.name, column.summary))
        for column in schema.columns
    )
    warnings = tuple(
        msgspec.structs.replace(warning, message=f"{warning.message}, however long this sentence is", action="left out")
        for warning in schema.warnings
    )
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.write(msgspec.structs.replace(schema, columns=columns, warnings=warnings))
        await driver.sees(*shown)


async def test_the_target_is_first_and_columns_are_sorted(tmp_path, monkeypatch):
    async def ask(self: Pager, request: paging.AnyRequest) -> paging.AnyReply:
        if isinstance(request, paging.RateColumns):
            return paging.Rated(associations={"Sex": 0.5, "Fare": 0.4, "Name": 0.0})
        return paging.Head()

    monkeypatch.setattr(Pager, "ask", ask)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        table = driver.app.screen.query_one(Columns)

        def first(number: int) -> list[str]:
            return [row.key for row in table.rows[:number]]

        assert first(3) == ["Survived", "PassengerId", "Pclass"]
        await driver.press("s")
        assert first(4) == ["Survived", "Cabin", "Age", "Embarked"]
        await driver.sees("most missing first")
        await driver.press("s")
        assert first(2) == ["Survived", "PassengerId"]
        await driver.press("s")
        await driver.until(lambda: first(3) == ["Survived", "Sex", "Fare"])
        await driver.sees("assoc", "0.50")
        await driver.press("s")
        assert first(3) == ["Survived", "PassengerId", "Pclass"]


FACTS = paging.Inspected(
    groups=("0", "1"),
    rows=(549, 342),
    missing=(125, 52),
    bins=(paging.ValueBin(label="0 – 40", counts=(300, 250)), paging.ValueBin(label="40 – 80", counts=(124, 40))),
    distinct=88,
    association=0.09,
    measure="ROC AUC 0.543",
    reading=("Read as missing: 'NA' (177).",),
)


@pytest.mark.parametrize("size", [(120, 36), NARROW, (200, 50)])
async def test_the_inspector_shows_a_column_beside_the_target(tmp_path, monkeypatch, size):
    asked: list[object] = []

    async def ask(self: Pager, request: paging.AnyRequest) -> paging.AnyReply:
        asked.append(request)
        return FACTS if isinstance(request, paging.InspectColumn) else paging.Head()

    monkeypatch.setattr(Pager, "ask", ask)
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        driver.app.screen.query_one(Columns).move_to_key("Age")
        await driver.press("enter")
        await driver.sees("Column · Age", "88 different numbers", "Association with Survived: 0.09", "0.543")
        assert paging.InspectColumn(column="Age") in asked
        await driver.sees("0 – 40", "550", "45.5%", "0 22.8% · 1 15.2%", "Read as missing: 'NA' (177).", "K  kind")
        await driver.press("n")
        await driver.sees("Column · SibSp")
        await driver.press("N")
        await driver.sees("Column · Age")
        await driver.press("K")
        await driver.sees("Kind of Age: now numeric")
        await enter(driver, "text")
        await driver.until(driver.commands)
        assert sent(driver) == {"kinds": {"Age": "text"}}


async def test_a_column_that_cannot_be_inspected_says_why(tmp_path, monkeypatch):
    async def ask(self: Pager, request: paging.AnyRequest) -> paging.AnyReply:
        return paging.Failed(message="There is no file titanic.csv.")

    monkeypatch.setattr(Pager, "ask", ask)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ColumnInspector))
        await driver.sees("There is no file titanic.csv.")


def places(driver: Driver) -> list[int]:
    """Where the titles of the list of columns begin."""
    title = next(line for line in driver.text().splitlines() if "unique" in line)
    return [title.index(name) for name in ("kind", "miss", "unique", "shape", "values")]


@pytest.mark.parametrize(("size", "shown"), [(WIDE, "cat*"), ((200, 50), "category*")])
async def test_a_kind_that_was_set_moves_no_column_and_can_be_taken_back(tmp_path, monkeypatch, size, shown):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        driver.app.screen.query_one(Columns).move_to_key("Pclass")
        before = places(driver)
        await driver.press("K")
        await enter(driver, "numeric")
        await driver.until(driver.commands)
        await answer(driver)
        await driver.sees(shown)
        assert places(driver) == before
        await driver.press("K")
        await enter(driver, "detected")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"kinds": {}}


# Checks


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_warning_that_does_not_fit_takes_the_lines_that_are_free(tmp_path, monkeypatch, number):
    long = ev.WarningView(
        check="leak", column="Age", message=" ".join(["nearly the target"] * 9) + ", to the last word", action="kept"
    )
    short = ev.WarningView(check="duplicate_rows", column=None, message="3 rows repeat another row.", action="kept")
    warnings = (long, *[short] * (number - 1))
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.write(msgspec.structs.replace(recordings.schema(), warnings=warnings))
        await driver.sees(f"Checks · {number} warning")
        checks = driver.app.screen.query_one("#checks")
        assert checks.size.height == 4
        shown = " ".join(checks.render_line(line).text.strip() for line in range(4))
        assert shown.count("3 rows repeat another row → kept") == number - 1
        assert ("to the last word → kept" in shown) == (number < 4)
        assert ("…" in shown) == (number == 4)


async def test_enter_on_a_warning_offers_its_remedies(tmp_path, monkeypatch):
    warnings = (
        ev.WarningView(
            check="sentinel",
            column="Age",
            message="0.5% of the numbers are 0.",
            action="kept as a number; --null 0 reads it as missing in every column",
            remedies=(
                RemedyView(label="read '0' as missing", option="null", value='"Age=0"'),
                RemedyView(label="use it as categorical", option="kind", value="Age=categorical"),
            ),
        ),
        ev.WarningView(check="duplicate_rows", column=None, message="3 rows repeat another row.", action="kept"),
    )
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.planning.add({"null": ["-1"], "kinds": {"Pclass": "text"}})
        await driver.write(msgspec.structs.replace(recordings.schema(), warnings=warnings))
        await driver.sees("2 warnings")
        driver.app.screen.query_one("#checks").focus()
        await driver.press("enter")
        await driver.sees("Read '0' as missing", "--null", "Use it as categorical")
        assert "in every column" not in driver.text()
        await driver.press("enter")
        await driver.until(driver.commands)
        assert sent(driver) == {"null": ["-1", "Age=0"]}
        await driver.press("enter", "down", "enter")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"kinds": {"Pclass": "text", "Age": "categorical"}}
        await driver.press("down", "enter")
        await driver.sees("3 rows repeat another row → kept.")


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ("kept as a number; --null 0 reads it as missing", "kept as a number"),
        ("kept; scores may be lower, and --ignore a leaves it out", "kept; scores may be lower"),
        ("kept; leave it out with --ignore 'a b'", "kept; leave it out"),
    ],
)
def test_a_check_whose_keys_change_the_plan_names_no_option(action, shown):
    remedy = RemedyView(label="leave it out", option="ignore", value="a")
    warning = ev.WarningView(check="leak", column="a", message="It leaks.", action=action, remedies=(remedy,))
    assert without_options(warning).action == shown
    alone = msgspec.structs.replace(warning, remedies=())
    assert without_options(alone).action == action


@pytest.mark.parametrize(("missing", "shown"), [(891, "100%"), (890, "99.9%"), (0, "0.0%")])
def test_the_share_of_missing_cells_fits_into_its_column(missing, shown):
    column = msgspec.structs.replace(recordings.schema().columns[0], missing=missing)
    row = column_row(column, 891, {}, (), None)
    titles = [each.title for each in columns_for(8, 4, 80, associated=False)]
    assert row.cells[titles.index("miss")].plain == shown
    assert len(shown) <= columns_for(8, 4, 80, associated=False)[titles.index("miss")].width
