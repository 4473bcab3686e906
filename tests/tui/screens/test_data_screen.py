"""The Data screen: the plan as fields, columns, checks, presets, the editor and pasted commands."""

from __future__ import annotations

import msgspec
import pytest
from textual.widgets import Input

from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.run.protocol import paging
from tabapp.run.record import events as ev
from tabapp.run.record.records import RemedyView
from tabapp.tui.dialogs import model_page
from tabapp.tui.dialogs.basic import Choice
from tabapp.tui.dialogs.column_inspector import ColumnInspector
from tabapp.tui.dialogs.edit_value import EditValue
from tabapp.tui.paging.client import Pager
from tabapp.tui.parts.columns import Columns, column_row, columns_for
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.data import DataView
from tabapp.tui.session.plan import exchange, presets
from tabapp.tui.session.plan.editing import title_of
from tabapp.tui.viewmodels.plan_fields import field_names
from tabapp.tui.widgets.checks import without_options
from tabapp.tui.widgets.plan import Plan
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, Driver, drive


async def answer(driver: Driver, **changes: object) -> None:
    """Answer the last request as the engine does: it saves the configuration before it emits the plan."""
    options = driver.commands()[-1]["options"]
    config = msgspec.convert({**msgspec.to_builtins(driver.folder.config()), **options}, RunConfig)
    driver.folder.save_config(config)
    await driver.write(recordings.plan(**changes))


async def go_to(driver: Driver, name: str) -> None:
    """Put the cursor of the plan on a field."""
    fields = driver.app.screen.query_one(Plan)
    fields.focus()
    fields.move_to_key(name)
    await driver.pilot.pause()


async def says(driver: Driver, text: str) -> None:
    """Wait for a message in the corner, whose lines the screen breaks."""
    await driver.until(lambda: any(text in toast for toast in driver.toasts()))


async def enter(driver: Driver, text: str) -> None:
    """Enter a text into the dialog that is shown."""
    await driver.until(lambda: driver.app.screen.query(Input) and not isinstance(driver.app.screen, DataView))
    driver.app.screen.query_one(Input).value = text
    await driver.pilot.pause()
    await driver.press("enter")


def sent(driver: Driver) -> dict[str, object]:
    return driver.commands()[-1]["options"]


# The plan


@pytest.mark.parametrize("name", field_names())
async def test_enter_edits_every_field_of_the_plan(tmp_path, monkeypatch, name):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, name)
        await driver.press("enter")
        await driver.until(lambda: not isinstance(driver.app.screen, DataView))
        await driver.sees(OPTIONS[name].title)
        for typed in driver.app.screen.query(Input):
            assert typed.placeholder
            assert (OPTIONS[name].metavar or "") not in typed.placeholder.split()
        await driver.press("escape")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_dialog_of_the_budget_says_what_to_type(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.press("b")
        await driver.sees("or type a time such as 90s, 10m or 2h")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("trials", "20", {"trials": 20}),
        ("seed", "7", {"seed": 7}),
        ("memory_limit", "2GiB", {"memory_limit": 2 << 30}),
        ("hide_cells", "0.1", {"hide_cells": 0.1}),
        ("monotonic", "Age=+", {"monotonic": {"Age": "+"}}),
        ("null", "-999,Age=0", {"null": ["-999", "Age=0"]}),
        ("set", "lightgbm.num_leaves=7", {"fixed": {"lightgbm.num_leaves": "7"}}),
        ("name", "first", {"name": "first"}),
        ("delimiter", ";", {"delimiter": ";"}),
    ],
)
async def test_a_typed_value_is_sent_and_the_dialog_closes_when_it_is_accepted(
    tmp_path, monkeypatch, name, text, options
):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, name)
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, EditValue))
        driver.app.screen.query_one(Input).value = text
        await driver.press("enter")
        await driver.until(driver.commands)
        assert sent(driver) == options
        assert isinstance(driver.app.screen, EditValue)
        await answer(driver)
        await driver.until(lambda: isinstance(driver.app.screen, DataView))
        await driver.sees("1 changed · u undoes")


async def test_a_refused_value_stays_in_the_dialog_with_the_sentence_of_the_command_line(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "trials")
        await driver.press("enter")
        await enter(driver, "many")
        await driver.sees("--trials 'many' is not valid. Use a whole number, 1 or more.")
        driver.app.screen.query_one(Input).value = "5"
        await driver.press("enter")
        await driver.until(driver.commands)
        await driver.write(ev.PlanRefused(message="Too few rows for that."))
        await driver.sees("Too few rows for that.")
        assert driver.app.screen.query_one(Input).value == "5"
        assert not driver.toasts()


async def test_changes_are_marked_and_undone_step_by_step(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "budget")
        await driver.press("right")
        await driver.until(driver.commands)
        assert sent(driver) == {"budget": 300.0}
        await answer(driver, budget=300.0)
        await go_to(driver, "seed")
        await driver.press("enter")
        await enter(driver, "3")
        await driver.until(lambda: len(driver.commands()) == 2)
        await answer(driver, budget=300.0, seed=3)
        await driver.sees("Plan · 2 changed · u undoes", "•Budget", "•Seed")
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 3)
        assert sent(driver) == {"seed": 0}
        await answer(driver, budget=300.0)
        await driver.sees("Plan · 1 changed")
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 4)
        assert sent(driver) == {"budget": None} or sent(driver) == {"budget": recordings.BUDGET}
        await answer(driver)
        await driver.until(lambda: "changed" not in driver.text())
        await driver.press("u")
        await says(driver, "There is no change of the plan to undo.")


async def test_the_copied_command_is_that_of_the_plan_with_the_last_change(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"seed": 3})
        await driver.press("y")
        driver.app.draw_changes()
        assert not driver.app.clipboard
        await answer(driver, command="tabapp --auto titanic.csv --seed 3")
        await driver.until(lambda: "--seed 3" in driver.app.clipboard)


@pytest.mark.parametrize("name", [name for name in field_names() if name != "monotonic"])
def test_the_title_of_a_dialog_fits_into_its_border(name):
    assert len(title_of(OPTIONS[name])) <= 66


async def test_backspace_gives_a_field_its_default(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"validation": "cv", "folds": 7})
        await answer(driver, validation="7-fold stratified", folds=7)
        await go_to(driver, "validation")
        await driver.press("backspace")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"validation": "auto", "folds": None}


async def test_arrow_keys_in_the_plan_change_its_field_and_elsewhere_the_quality(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "validation")
        await driver.sees("auto holdout 3 5 8 10")
        await driver.press("right")
        await driver.until(driver.commands)
        assert sent(driver) == {"validation": "holdout", "folds": None}
        await answer(driver)
        await go_to(driver, "group")
        await driver.press("right")
        await says(driver, "Group has no steps. Press enter to edit it.")
        driver.app.screen.query_one(Columns).focus()
        await driver.press("left")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"quality": "fast"}


async def test_a_further_table_is_written_into_the_configuration_before_the_engine_reads_it(tmp_path, monkeypatch):
    more = tmp_path / "more.csv"
    more.write_text("a,b\n1,2\n")
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"unlabelled": str(more)})
        assert driver.folder.config().unlabelled == str(more)
        assert driver.folder.is_own()
        await answer(driver)
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"unlabelled": None}


# Columns


@pytest.mark.parametrize("size", [WIDE, (200, 50)])
async def test_the_preview_aligns_numbers_at_the_right_and_texts_at_the_left_as_their_titles(
    tmp_path, monkeypatch, size
):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.sees("PassengerId  Survived  Pclass  Name", "Braund")
        lines = driver.text().splitlines()
        at = next(place for place, line in enumerate(lines) if "PassengerId  Survived" in line)
        title, first = lines[at : at + 2]
        for name, cell in (("PassengerId", "1"), ("Survived", "0"), ("Pclass", "3")):
            end = title.index(name) + len(name)
            assert first[:end].endswith(f" {cell}")
        assert first.index("Braund") == title.index("Name")


async def test_a_filter_without_a_match_says_so(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.screen.set_filter("zzz")
        driver.app.screen.redraw()
        await driver.sees("No column matches “zzz”")


WIDE_VALUES = {
    "Age": "12285 … 1490400",
    "Sex": "46% Married-civ-spouse",
    "Cabin": "2011-01-01 … 2012-12-31",
    "Fare": "-1234567 … 7654321",
}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (WIDE, ("12285 … 1490400", "-1.23M … 7.65M", "46% Married-civ…", "2011-01…2012-12", " num ")),
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


async def test_a_kind_that_was_set_can_be_taken_back(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.screen.query_one(Columns).move_to_key("Pclass")
        await driver.press("K")
        await enter(driver, "numeric")
        await driver.until(driver.commands)
        await answer(driver)
        await driver.sees("cat*")
        await driver.press("K")
        await enter(driver, "detected")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"kinds": {}}


# Checks


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


# Presets, the editor, and pasted commands


async def test_a_preset_is_saved_and_used_without_columns_that_the_table_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "config_folder", lambda: tmp_path / "config")
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        options = {"budget": 60.0, "models": ["lightgbm", "npt:small"], "group": "Pclass", "name": "mine"}
        driver.app.change_plan(options)
        await answer(driver)
        await driver.press("P")
        await enter(driver, "save")
        await driver.sees("A name. The preset has all options")
        await enter(driver, "two models")
        await says(driver, "Saved the preset two models")
        text = (tmp_path / "config" / "presets" / "two models.toml").read_text()
        assert text.endswith('budget = "1m"\nmodels = ["lightgbm", "npt:small"]\ngroup = "Pclass"\n')
        await driver.press("P")
        await enter(driver, "two")
        await driver.until(lambda: len(driver.commands()) == 2)
        expected = {"budget": 60.0, "models": ["lightgbm", "npt:small"], "group": "Pclass"}
        assert {name: sent(driver)[name] for name in expected} == expected
        assert "name" not in sent(driver)
        await answer(driver)
        (tmp_path / "config" / "presets" / "other.toml").write_text('quality = "fast"\ngroup = "patient"\n')
        await driver.press("P")
        await enter(driver, "other")
        await driver.until(lambda: len(driver.commands()) == 3)
        assert sent(driver) == {"quality": "fast"}
        await says(driver, "the preset does not set --group")
        (tmp_path / "config" / "presets" / "broken.toml").write_text("folds = 1\n")
        await answer(driver)
        await driver.press("P")
        await enter(driver, "broken")
        await says(driver, "The preset broken: line 1: --folds 1 is not valid")
        await driver.press("P")
        await enter(driver, "delete")
        await driver.sees("Delete a preset")
        await enter(driver, "broken")
        await says(driver, "Deleted the preset broken")
        assert presets.preset_names() == ["other", "two models"]


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden"])
def test_a_preset_is_a_plain_file(name):
    with pytest.raises(Exception, match="cannot be the name of a preset"):
        presets.check_name(name)


async def test_the_plan_is_edited_as_text(tmp_path, monkeypatch):
    edits = iter([("# seed =", "seed = 7\nfolds = 1"), ("folds = 1", "folds = 4")])

    def edit(file):
        old, new = next(edits)
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        return ""

    class Suspended:
        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(exchange, "_edit", edit)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        monkeypatch.setattr(driver.app, "suspend", Suspended)
        await driver.press("E")
        await driver.sees("--folds 1 is not valid", "Edit it again")
        assert driver.commands() == []
        await driver.press("e")
        await driver.until(driver.commands)
        assert sent(driver)["seed"] == 7
        assert sent(driver)["folds"] == 4
        assert sent(driver)["budget"] is None or sent(driver)["budget"] == recordings.BUDGET
        assert "executor" not in sent(driver)
        await driver.write(ev.PlanRefused(message="Too few rows for 4 folds."))
        await driver.sees("Too few rows for 4 folds.", "Edit it again")


async def test_a_pasted_command_fills_the_plan(tmp_path, monkeypatch):
    table = tmp_path / "titanic.csv"
    table.write_text("a,b\n1,2\n")
    async with drive(tmp_path, monkeypatch, recordings.opening(), data=str(table)) as driver:
        await driver.paste(
            f"tabapp --auto '{table}' --target Survived --budget 90s --kind Pclass=categorical --folds 7"
        )
        await driver.until(driver.commands)
        options = sent(driver)
        expected = {"target": "Survived", "budget": 90.0, "kinds": {"Pclass": "categorical"}, "folds": 7, "seed": 0}
        assert {name: options[name] for name in expected} == expected
        await answer(driver, budget=90.0)
        await says(driver, "The plan is that of the pasted command. u undoes it.")
        await driver.paste("tabapp --auto x.csv --fold 3")
        await says(driver, "There is no option --fold; did you mean '--folds'?")
        await driver.paste(f"tabapp --auto '{table}' --executor ray")
        await says(driver, "--executor is chosen when a run is created")
        assert len(driver.commands()) == 1


# The models picker


async def test_hyperparameters_are_fixed_in_the_picker(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("M", "equals_sign")
        await driver.sees("Fix hyperparameters of XGBoost")
        await enter(driver, "max_dept")
        await driver.sees("does not have the form MODEL.NAME=VALUE")
        driver.app.screen.query_one(Input).value = "max_dept=3, learning_rate=0.1"
        await driver.press("enter")
        await driver.until(driver.commands)
        fixed = {"xgboost.max_dept": "3", "xgboost.learning_rate": "0.1"}
        assert sent(driver) == {"fixed": fixed, "models": [], "exclude": []}
        await driver.write(
            ev.PlanRefused(message="xgboost has no hyperparameter 'max_dept'; did you mean 'max_depth'?")
        )
        await driver.sees("did you mean")
        driver.app.screen.query_one(Input).value = "max_depth=3"
        await driver.press("enter")
        await driver.until(lambda: len(driver.commands()) == 2)
        await answer(driver)
        await driver.sees("max_depth=3", "space include")
        await driver.press("escape")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))


async def test_the_picker_shows_the_page_of_a_model(tmp_path, monkeypatch):
    class Printed:
        async def communicate(self):
            return b"# XGBoost\n\nGrows trees one after the other.\n", b""

    async def start_child(module, *arguments, **others):
        assert (module, arguments) == ("tabapp", ("models", "xgboost"))
        return Printed()

    monkeypatch.setattr(model_page, "start_child", start_child)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("M", "i")
        await driver.sees("Model · XGBoost", "Grows trees one after the other.")
        await driver.press("i")
        await driver.sees("space include")


async def test_the_picker_shows_in_full_why_a_model_is_skipped(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=NARROW) as driver:
        await driver.press("M")
        await driver.sees("space include")
        picker = driver.app.screen
        skipped = next(model for model in picker._models if model.reason)
        picker.query_one(Table).move_to_key(skipped.name)
        await driver.until(lambda: skipped.reason in str(picker.query_one("#message").render()))


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
    titles = [each.title for each in columns_for(8, 80, associated=False)]
    assert row.cells[titles.index("miss")].plain == shown
    assert len(shown) <= columns_for(8, 80, associated=False)[titles.index("miss")].width


async def test_a_proposed_text_is_replaced_by_what_is_typed(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.folder.save_config(msgspec.structs.replace(driver.folder.config(), trials=17))
        await driver.write(recordings.plan(trials=17))
        await go_to(driver, "trials")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, EditValue))
        line = driver.app.screen.query_one(Input)
        await driver.until(lambda: line.has_focus)
        assert line.value == "17"
        await driver.press("5")
        await driver.until(lambda: line.value == "5")


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_explanation_of_a_metric_can_be_read_whole(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        long = max(driver.app.snapshot().state.plan.metrics, key=lambda metric: len(metric.description))
        await driver.press("m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        driver.app.screen.query_one(Table).move_to_key(long.name)
        await driver.pilot.pause()
        words = long.description.split()
        await driver.sees(" ".join(words[:3]), words[-1])


async def test_a_target_that_was_taken_back_is_not_the_last_word_of_the_events(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.write(recordings.plan(targets=("Survived", "Age")), recordings.plan())
        last = driver.app.snapshot().state.feed[-1]
        assert "Age" not in last.text
        assert "Survived" in last.text
