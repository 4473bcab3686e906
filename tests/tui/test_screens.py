"""What each key of each screen does, at both sizes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input, Static

from tabapp.run.protocol.exporting import Compared, ExportOptions, ExportRow
from tabapp.run.record import events as ev
from tabapp.run.record.folder import with_runs_dir
from tabapp.run.record.reducing.reduce import replay
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Reading
from tabapp.tui.parts.columns import Columns
from tabapp.tui.screens.whole_table import WholeTable
from tabapp.tui.session import bundle_export
from tabapp.tui.widgets.importance import importance_facts
from tabapp.tui.widgets.leaderboard import Leaderboard
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, WIDE, drive


async def wait_for(driver, kind):
    await driver.until(lambda: isinstance(driver.app.screen, kind))


# Data


@pytest.mark.parametrize("size", SIZES)
async def test_data_shows_columns_plan_and_checks(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.sees(
            "▸ ctrl+r starts",
            "PassengerId",
            "◎  Survived",
            "77.1%",
            "ROC AUC",
            "5-fold stratified" if size == WIDE else "5 folds",
            "2m",
        )
        await driver.sees("3 warnings", "PassengerId counts the rows", "Start run", "6 of 7")
        await driver.sees("tabapp --auto titanic.csv", "▂▂▇▇▅▃", "~5 of 6 models, 2 tuned")
        await driver.sees("Survived boolean: its name says an")
        await driver.press("down", "j")
        await driver.sees("Pclass categorical: 3 whole numbers, each")


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (["t", "a", "g", "e", "enter"], {"target": "Age"}),
        (["m", "down", "enter"], {"metric": "log_loss"}),
        (["b", "down", "enter"], {"budget": 300.0}),
        (["b", "9", "0", "s", "enter"], {"budget": 90.0}),
        (["v", "down", "enter"], {"validation": "holdout", "folds": None}),
        (["v", "1", "0", "enter"], {"validation": "cv", "folds": 10}),
        (
            ["M", "space", "enter"],
            {"models": ["catboost", "lightgbm", "mlp", "resnet", "ft_transformer"], "exclude": []},
        ),
        (["M", "n", "right", "down", "space", "enter"], {"models": ["xgboost:paper"], "exclude": []}),
        (["M", "n", "a", "enter"], {"models": [], "exclude": []}),
        (["right"], {"quality": "best"}),
        (["left"], {"quality": "fast"}),
        (["down", "down", "space"], {"ignore": ["Pclass"]}),
        (["down", "space"], {"kinds": {"PassengerId": "categorical"}}),
        (["K", "t", "e", "x", "t", "enter"], {"kinds": {"Survived": "text"}}),
        (["v", "7", "enter"], {"validation": "cv", "folds": 7}),
    ],
)
async def test_a_key_changes_the_plan(tmp_path, monkeypatch, keys, options):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press(*keys)
        await driver.until(driver.commands)
        assert driver.commands() == [{"command": "plan", "options": options}]
        await driver.sees("updating the plan…")
        await driver.write(recordings.plan(metric_title="Brier score"))
        await driver.sees("Brier score")
        assert "updating the plan" not in driver.text()


async def test_the_choice_of_models_shows_their_time_and_why_they_are_skipped(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=(120, 36)) as driver:
        await driver.press("M")
        await driver.sees("XGBoost ▸", "Author et al. 2021", "9s", "120 MB", "its library is not installed")
        await driver.sees("6 models · one fit of each takes about 32s")
        await driver.press("n", "enter")
        await driver.sees("Choose at least one model.")
        await driver.press("right")
        await driver.sees("XGBoost ▾", "paper")
        await driver.press("down", "left")
        await driver.sees("XGBoost ▸")
        await driver.press("escape")
        assert driver.commands() == []


async def test_only_changed_options_are_sent_and_a_refusal_is_shown(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("right")
        await driver.write(recordings.plan(quality="best"))
        await driver.press("t", "n", "a", "m", "e", "enter")
        assert driver.commands()[-1]["options"] == {"target": "Name"}
        await driver.write(ev.PlanRefused(message="Name is different in every row, so nothing can be learned."))
        await driver.sees("The plan is unchanged", "Name is different in every row")
        await driver.press("b", "down", "enter")
        assert driver.commands()[-1]["options"] == {"budget": 300.0}


async def test_space_on_a_column_left_out_by_the_user_takes_it_back(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("down", "down", "space")
        columns = tuple(
            msgspec.structs.replace(column, role="ignore") if column.name == "Pclass" else column
            for column in recordings.schema().columns
        )
        # The engine saves the configuration before it emits the plan.
        driver.folder.save_config(msgspec.structs.replace(driver.folder.config(), ignore=("Pclass",)))
        await driver.write(msgspec.structs.replace(recordings.schema(), columns=columns), recordings.plan())
        await driver.press("space")
        assert driver.commands()[-1]["options"] == {"ignore": []}


async def test_the_target_cannot_be_left_out(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("space")
        await driver.sees("Survived is a target")
        assert driver.commands() == []


async def test_a_budget_that_is_none_is_answered_in_the_dialog(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("b", "s", "o", "o", "n", "enter")
        await driver.sees("is not a duration")
        await driver.press("escape")
        assert driver.commands() == []


async def test_the_plan_is_fixed_once_the_run_has_started(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("2")
        for key in ("t", "m", "b", "v", "left", "right", "space", "ctrl+r"):
            await driver.press(key)
        await driver.sees("The plan cannot be changed after the run")
        assert driver.commands() == []


async def test_y_copies_the_equivalent_command(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("y")
        command = "tabapp --auto titanic.csv --target Survived --budget 2m"
        assert driver.app.clipboard == with_runs_dir(command, driver.app.runs_dir)
        await driver.sees("Copied")


async def test_the_columns_can_be_filtered(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("slash", "n", "u", "m", "e", "r", "enter")
        table = driver.app.screen.query_one(Columns)
        await driver.until(lambda: [row.key for row in table.rows] == ["Age", "SibSp", "Parch", "Fare"])
        await driver.press("slash", "z", "z")
        await driver.sees("No column matches “zz”.")
        await driver.press("slash", "escape")
        await driver.until(lambda: len(table.rows) == 12)
        assert driver.app.screen.focused is table


# Run


@pytest.mark.parametrize("size", SIZES)
async def test_run_shows_all_models_whatever_became_of_them(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.sees("★ Ensemble", "0.8829", "±0.0200", "◆ 3 members", "CatBoost #1", "✓ 4 trials  ◆", "✗ failed")
        await driver.sees("trial 3 · fold 1/5", "– skipped", "62%", "~45s left", "5 models · best 0.8829 · +0.0123")
        await driver.sees("LightGBM #3 0.8603")


def test_the_importances_say_when_they_follow():
    events = recordings.running()
    planned = events[: 1 + next(place for place, event in enumerate(events) if isinstance(event, ev.PlanMade))]
    first = "Preliminary importances follow when the first model has all of its folds."
    assert importance_facts(replay(planned)).waiting == first
    assert importance_facts(replay(events)).waiting == "Importances follow, at the latest after the last fit."


async def test_run_shows_curves_importances_and_resources(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.sees("Members · Ensemble", "50%", "192%", "1.4/16G", "Importances follow, at the latest")
        await driver.press("down")
        await driver.sees("Tuning · CatBoost", "4 trials · best 0.8789")
        await driver.press("G", "up", "up")
        await driver.sees("Tuning · MLP", "trial 3 fold 5/5 · step")
        await driver.write(recordings.importances(recordings.START + 76))
        await driver.sees("Importance · CatBoost", "Sex", "0.1432", "31%")


async def test_the_cursor_stays_on_its_model_while_ranks_change(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        table = driver.app.screen.query_one(Leaderboard)
        await driver.press("down", "down", "down", "down")
        assert table.key == "lightgbm"
        rows = {row.model: row for row in driver.app.snapshot().state.leaderboard}
        lifted = msgspec.structs.replace(rows.pop("lightgbm"), rank=1, score=0.95)
        others = [msgspec.structs.replace(row, rank=row.rank and row.rank + 1) for row in rows.values()]
        await driver.write(ev.LeaderboardChanged(t=recordings.START + 76, rows=(lifted, *others)))
        await driver.sees("1  ★ LightGBM")
        assert table.key == "lightgbm"
        assert [row.key for row in table.rows][:2] == ["lightgbm", "ensemble"]


@pytest.mark.parametrize("view", ["1", "3", "4"])
async def test_pause_and_resume(tmp_path, monkeypatch, view):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press(view, "space", "p")
        assert driver.commands() == [{"command": "pause"}]
        await driver.write(
            ev.StageChanged(t=recordings.START + 76, stage="fitting", paused=True, deadline=recordings.DEADLINE)
        )
        await driver.sees("‖ paused")
        await driver.press("p")
        assert driver.commands()[-1] == {"command": "resume"}


async def test_x_stops_the_model_under_the_cursor_when_confirmed(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("x")
        await driver.sees("The ensemble consists of the other models")
        await driver.press("down", "x")
        await wait_for(driver, Decision)
        await driver.press("x", "escape")
        assert driver.commands() == [], "the key that asked confirms nothing"
        await driver.press("x", "enter")
        assert driver.commands() == [], "the cursor is on Cancel"
        await driver.press("x", "k", "enter")
        assert driver.commands() == [{"command": "stop_model", "model": "catboost"}]
        await driver.press("x", "y")
        assert driver.commands() == [{"command": "stop_model", "model": "catboost"}] * 2
        await driver.press("G", "x")
        await driver.sees("TabPFN cannot be steered")


async def test_finishing_happens_only_when_confirmed(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("F", "escape")
        assert driver.commands() == []
        await driver.press("F", "enter")
        assert driver.commands() == [], "the cursor is on Cancel"
        await driver.press("F", "y")
        assert driver.commands() == [{"command": "finish"}]


@pytest.mark.parametrize("size", SIZES)
async def test_enter_shows_the_details_of_a_model(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("down", "enter")
        await wait_for(driver, Reading)
        await driver.sees("0.8789", "95 %: 0.8579 … 0.8999", "learning_rate", "4 trials")
        await driver.press("q", "G", "up", "enter")
        await driver.sees("ran out of memory", "MemoryError: 2.0 GiB", "trial 0 fold 1")
        await driver.press("escape", "G", "enter")
        await driver.sees("its library is not installed")


async def test_sorting_and_filtering_the_leaderboard(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        table = driver.app.screen.query_one(Leaderboard)
        await driver.press("s")
        await driver.sees("sorted by name")
        names = [row.cells[1].plain.removeprefix("★ ").casefold() for row in table.rows]
        assert names == sorted(names)
        await driver.press("s")
        assert next(row.key for row in table.rows) == "ft_transformer", "the slowest fit is first"
        await driver.press("slash", "b", "o", "o", "s", "t", "enter")
        await driver.until(lambda: {row.key for row in table.rows} == {"xgboost", "catboost"})
        await driver.press("slash", "escape")
        await driver.until(lambda: len(table.rows) == 8)


async def test_charts_take_the_place_of_the_leaderboard_on_a_narrow_terminal(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=NARROW, attach=True) as driver:
        assert "Resources" not in driver.text()
        await driver.press("c")
        await driver.sees("Members · Ensemble", "Resources")
        await driver.press("c")
        await driver.sees("Leaderboard")


async def test_nothing_can_be_asked_of_a_run_that_has_ended(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True, engine_runs=False) as driver:
        await driver.press("p", "x", "F")
        await driver.sees("The run has ended")
        assert driver.commands() == []


# Export


@pytest.mark.parametrize("suffix", [".onnx", ".HTML"])
async def test_a_run_in_progress_exports_nothing_but_a_bundle(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    async with drive(tmp_path / "runs", monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("e")
        await wait_for(driver, Ask)
        driver.app.screen.query_one(Input).value = f"early{suffix}"
        await driver.press("enter")
        await driver.sees("written once the run has ended")
        assert not Path(f"early{suffix}").exists()


async def test_export_copies_the_bundle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with drive(tmp_path / "runs", monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("e")
        await driver.sees("Export a preliminary bundle", "./titanic-preliminary.tabapp")
        await driver.press("escape")
        driver.folder.bundle.write_bytes(b"a bundle")
        await driver.write(msgspec.structs.replace(recordings.finished()[-1], bundle=str(driver.folder.bundle)))
        await driver.press("e")
        await wait_for(driver, Ask)
        await driver.sees("./titanic.tabapp")
        await driver.press("enter")
        await driver.until(Path("titanic.tabapp").exists)
        assert Path("titanic.tabapp").read_bytes() == b"a bundle"
        await driver.press("e", "enter")
        await driver.sees("exists; press enter once more")
        await driver.press("enter")
        await driver.until(lambda: not isinstance(driver.app.screen, Ask))
        await driver.press("e")
        await wait_for(driver, Ask)
        await driver.press(*"/no/such", "enter")
        await driver.sees("is not a file in a folder that exists")
        driver.app.screen.query_one("#typed").value = str(driver.folder.bundle)
        await driver.press("enter")
        await driver.until(
            lambda: "is the same file as" in str(driver.app.screen.query_one("#problem", Static).render())
        )
        assert driver.folder.bundle.read_bytes() == b"a bundle"


async def test_export_rebuilds_the_bundle(tmp_path, monkeypatch):
    """The process that trains is tested in tests/engine/test_export.py."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def rebuild(folder, out, options, receive):
        asked.append((folder.path, out, options))
        rows = [
            ExportRow(title="", models=10, n_bytes=5_640_000, ms=245.0, score=0.93, low=0.92, high=0.94),
            ExportRow(title="", models=2, n_bytes=1_170_000, ms=49.1, score=0.93, low=0.92, high=0.94),
        ]
        receive(Compared(metric="roc_auc", n_rows=1000, rows=rows, threshold_note="The threshold is kept."))

    monkeypatch.setattr(bundle_export, "run_export", rebuild)
    async with drive(tmp_path / "runs", monkeypatch, recordings.finished(), attach=True) as driver:
        driver.folder.bundle.write_bytes(b"a bundle")
        await driver.press("e")
        await wait_for(driver, Ask)
        await driver.sees("tab  smaller or faster")
        await driver.press("tab")
        await wait_for(driver, Choice)
        await driver.sees("as it is", "trained again on all rows", "ms for 1,000 rows")
        await driver.press("down", "enter")
        await driver.sees("1.17 MB instead of 5.64 MB", "The threshold is kept.")
        assert asked == [(driver.folder.path, Path("titanic.tabapp"), ExportOptions(refit=True))]


async def test_export_writes_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with drive(tmp_path / "runs", monkeypatch, recordings.finished(), attach=True) as driver:
        driver.folder.bundle.write_bytes(b"a bundle")
        await driver.press("e")
        await wait_for(driver, Ask)
        await driver.press("ctrl+u", *"report.html", "enter")
        await driver.until(Path("report.html").exists)
        await driver.sees("The report of the run is in")
        assert Path("report.html").read_text().startswith("<!doctype html>")


async def test_export_writes_another_form_by_the_command(tmp_path, monkeypatch):
    """The bundle is not readable, so the command refuses it, and its sentence is shown."""
    monkeypatch.chdir(tmp_path)
    async with drive(tmp_path / "runs", monkeypatch, recordings.finished(), attach=True) as driver:
        driver.folder.bundle.write_bytes(b"a bundle")
        await driver.press("e")
        await wait_for(driver, Ask)
        await driver.press("ctrl+u", *"model.onnx", "enter")
        await driver.until(lambda: any(toast.startswith("Not exported") for toast in driver.toasts()))
        assert not Path("model.onnx").exists(), "a bundle is not copied under another form's name"


async def test_a_run_without_a_bundle_says_why(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True, engine_runs=False) as driver:
        await driver.press("e")
        await driver.sees("This run has no bundle")


# Explain


@pytest.mark.parametrize("size", SIZES)
async def test_explain_compares_attention_with_permutation(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.finished(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("Sex", "0.1432", "31%", "● same", "◐ near", "Rank correlation +0.94: both")
        await driver.sees("891 held-out rows", "FT-Transformer", "sorted by permutation")
        table = driver.app.screen.query_one("#explanation")
        assert [row.key for row in table.rows][5:7] == ["SibSp", "Ticket"]
        await driver.press("a")
        await driver.sees("sorted by attention")
        assert [row.key for row in table.rows][5:7] == ["Cabin", "SibSp"]


async def test_explain_without_attention_shows_permutation_alone(tmp_path, monkeypatch):
    ready = recordings.importances(recordings.START + 80)
    rows = tuple(msgspec.structs.replace(row, attention=None) for row in ready.rows)
    alone = msgspec.structs.replace(ready, rows=rows, attention_model=None, agreement=None)
    async with drive(tmp_path, monkeypatch, [*recordings.running(), alone], attach=True) as driver:
        await driver.press("5")
        await driver.sees("0.1432", "No fitted model weighs columns")
        assert "agree" not in driver.text().splitlines()[3]


# Help and palette


@pytest.mark.parametrize(
    ("screen", "texts"),
    [
        ("1", ["Under the cursor", "place on the leaderboard"]),
        ("2", ["Columns", "histogram"]),
        ("5", ["Importance", "shuffles a column"]),
    ],
)
@pytest.mark.parametrize("size", SIZES)
async def test_help_explains_the_screen_and_its_keys(tmp_path, monkeypatch, screen, texts, size):
    async with drive(tmp_path, monkeypatch, recordings.finished(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press(screen, "question_mark")
        await wait_for(driver, Reading)
        await driver.sees("Help", *texts, "lines more · G the keys", "esc closes")
        await driver.press("G")
        await driver.sees("ctrl+p", "Search all actions by name")
        assert "more · G" not in driver.text()
        await driver.press("question_mark")
        await driver.sees("q Quit")


async def test_the_palette_finds_actions_and_models(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("ctrl+p")
        await driver.sees("run: pause or resume")
        await driver.press(*"pause")
        await driver.palette_is_full("pause")
        await driver.press("enter")
        await driver.until(lambda: driver.commands() == [{"command": "pause"}])
        await driver.press("2", "ctrl+p")
        await driver.palette_is_full()
        await driver.press(*"lightgbm")
        await driver.palette_is_full("lightgbm")
        await driver.press("enter")
        await driver.sees("Tuning · LightGBM")


# Mouse


async def test_tabs_keys_and_rows_can_be_clicked(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.pilot.click("#leaderboard", offset=(5, 4))
        table = driver.app.screen.query_one(Leaderboard)
        assert table.key == "xgboost"
        column = driver.text().splitlines()[1].index("2 Data")
        await driver.pilot.click(offset=(column, 1))
        await driver.sees("tabapp --auto titanic.csv")
        column = driver.text().splitlines()[-1].index("a Rows")
        await driver.pilot.click(offset=(column, 35))
        await wait_for(driver, WholeTable)


async def test_the_list_of_models_follows_the_size_of_the_terminal(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=(80, 14)) as driver:
        await driver.press("M")
        await driver.until(lambda: "LightGBM" in driver.text())
        table = driver.app.screen.query_one("#options")
        before = table.size.height
        assert "gbdt" not in driver.text()
        await driver.pilot.resize_terminal(160, 40)
        await driver.until(lambda: table.size.height > before)
        await driver.until(lambda: "gbdt" in driver.text())
