"""The Models screen: one model in full, two side by side."""

from __future__ import annotations

import json

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.widgets.model_panels import Models
from tests.tui import evaluations, recordings
from tests.tui.driver import NARROW, SIZES, WIDE, drive


def models_of(driver) -> Models:
    return driver.app.screen.query_one(Models)


@pytest.mark.parametrize("size", SIZES)
async def test_a_model_is_shown_in_full(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("down", "3")
        await driver.until(lambda: models_of(driver).key == "catboost")
        await driver.sees("0.8789", "0.8579 … 0.8999", "4.2s for 5 folds", "3ms for 1,000 rows", "50% of the weight")
        await driver.sees("fold 5", "mean", "spread", "2 of 2 differ from the defaults", "≠  learning_rate")
        if size == WIDE:
            await driver.sees("Learning curve", "step 8")
        else:
            await driver.press("c")
            await driver.sees("Learning curve", "step 8", "chart 6 of 6")
            assert "Hyperparameters" not in driver.text()


async def test_failed_and_skipped_models_show_the_reason(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("3", "G")
        await driver.sees("its library is not installed", "No fold is complete yet")
        await driver.press("up")
        await driver.sees("The fit ran out of memory (2.0 GiB allowed)", "n_blocks")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("MemoryError: 2.0 GiB")


async def test_the_ensemble_shows_its_members(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("3")
        await driver.sees("Members", "50.0%", "3 members", "The ensemble is scored on all rows")


@pytest.mark.parametrize("size", SIZES)
async def test_two_marked_models_stand_side_by_side(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("3", "down", "space", "down")
        models = models_of(driver)
        first, second = models.rows[1].key, models.rows[2].key
        await driver.until(lambda: models.compared == (first, second))
        await driver.sees("⇄", "2 of 2 that both have")
        await driver.press("space", "G")
        assert models.compared == (first, second), "both are marked, so the cursor does not matter"
        await driver.press("space")
        assert models.marked == (second, models.key), "a third mark replaces the oldest"
        await driver.press("U")
        assert models.compared == (models.key,)


@pytest.mark.parametrize("size", SIZES)
async def test_arrows_go_through_the_pictures_of_a_classification(tmp_path, monkeypatch, size):
    events = [*recordings.running(), evaluations.binary()]
    async with drive(tmp_path, monkeypatch, events, size=size, attach=True) as driver:
        await driver.press("down", "3", *(["c"] if size == NARROW else []))
        await driver.until(lambda: models_of(driver).key == "catboost")
        await driver.sees("412 kB")
        await driver.sees("Confusion · ROC · PR", "478", "257", "recall", "75%", "82.5% of 891 rows")
        await driver.press("right")
        await driver.sees("ROC", "area 0.8789", "“1” against the rest", "true positive rate")
        await driver.press("right")
        await driver.sees("Precision and recall", "average precision 0.8412", "recall →")
        await driver.press("right")
        await driver.sees("Cumulative gain", "chart 4 of 6")
        await driver.press("right")
        await driver.sees("Calibration", "calibration error 0.0312", "came true", "chart 5 of 6")
        await driver.press("right")
        await driver.sees("Learning curve", "chart 6 of 6")
        await driver.press("left")
        await driver.sees("Calibration")


async def test_an_evaluation_of_an_earlier_trial_is_marked(tmp_path, monkeypatch):
    old = msgspec.structs.replace(evaluations.binary(trial=0), identity="an-earlier-one")
    async with drive(tmp_path, monkeypatch, [*recordings.running(), old], attach=True) as driver:
        await driver.press("down", "3")
        await driver.until(lambda: models_of(driver).key == "catboost")
        await driver.sees("Confusion · of trial 0")
        assert "412 kB" not in driver.text()


@pytest.mark.parametrize("size", SIZES)
async def test_arrows_go_through_the_pictures_of_a_regression(tmp_path, monkeypatch, size):
    events = [
        recordings.plan(task="regression", classes=(), metric="rmse", metric_title="RMSE")
        if isinstance(event, ev.PlanMade)
        else event
        for event in recordings.running()
    ]
    async with drive(tmp_path, monkeypatch, [*events, evaluations.regression()], size=size, attach=True) as driver:
        await driver.press("down", "3", *(["c"] if size == NARROW else []))
        await driver.sees("Predicted and true", "predicted →", "46.6", "█", "░")
        await driver.press("right")
        await driver.sees("Residuals", "true minus predicted", "median 0.02", "half -1.5 … 1.4", "┃")
        await driver.press("right")
        await driver.sees("Residuals by prediction", "chart 3 of 4", "-5.5", "5.5")


async def test_two_models_share_a_picture(tmp_path, monkeypatch):
    events = [*recordings.running(), evaluations.binary(), evaluations.binary("xgboost", 2, power=0.4)]
    async with drive(tmp_path, monkeypatch, events, attach=True) as driver:
        await driver.press("3")
        models_of(driver).move_to_key("catboost")
        await driver.press("space")
        models_of(driver).move_to_key("xgboost")
        await driver.sees("⇄")
        await driver.sees("95 %      0.8579 … 0.8999", "0.8473 … 0.8893")
        await driver.press("right")
        await driver.sees("● area 0.8789", "◆ area 0.8789")
        await driver.press("left")
        assert driver.text().count("recall") == 2


async def test_many_classes_are_shades_with_their_recall(tmp_path, monkeypatch):
    events = [*recordings.running(), evaluations.multiclass(14)]
    async with drive(tmp_path, monkeypatch, events, attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees("class 13", "56%", "true ↓ predicted →", "5,000 rows drawn by lot")
        await driver.press("right")
        await driver.sees("mean over classes")


async def test_the_key_of_charts_shows_them_on_a_narrow_terminal(tmp_path, monkeypatch):
    events = [*recordings.running(), evaluations.binary()]
    async with drive(tmp_path, monkeypatch, events, size=NARROW, attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees("c Panels", "Hyperparameters")
        await driver.press("right")
        await driver.sees("Confusion · ROC", "chart 1 of 6")
        await driver.press("right")
        await driver.sees("chart 2 of 6")
        await driver.pilot.resize_terminal(120, 36)
        await driver.sees("Hyperparameters", "chart 2 of 6")
        assert "c Panels" not in driver.text()


async def test_classes_without_room_are_counted_and_fit_when_zoomed(tmp_path, monkeypatch):
    events = [*recordings.running(), evaluations.multiclass(26)]
    async with drive(tmp_path, monkeypatch, events, size=(110, 24), attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees("more · z fills the screen")
        assert "class 25" not in driver.text()
        models_of(driver).screen.query_one("#pictures").focus()
        await driver.pilot.resize_terminal(110, 36)
        await driver.press("z")
        await driver.sees("class 25")
        assert "z fills the screen" not in driver.text()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_folds", [5, 8, 10])
async def test_all_folds_are_shown_with_their_mean(tmp_path, monkeypatch, size, n_folds):
    events = [recordings.plan(folds=n_folds) if isinstance(e, ev.PlanMade) else e for e in recordings.running()]
    async with drive(tmp_path, monkeypatch, events, size=size, attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees(*(f"fold {fold} " for fold in range(1, n_folds + 1)), "mean", "spread")


async def test_the_numbers_of_each_chart_can_be_saved(tmp_path, monkeypatch):
    events = [*recordings.running(), evaluations.binary()]
    async with drive(tmp_path, monkeypatch, events, attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees("478")
        pictures = models_of(driver).screen.query_one("#pictures")
        shown = {}
        for _ in range(6):
            rows = pictures.numbers()
            shown[pictures._facts.kind] = rows
            assert len({len(row) for row in rows}) <= 1, "each row has a cell for each title"
            await driver.press("right")
        assert shown["confusion"][0] == ["model", "true", "0", "1"]
        assert shown["confusion"][1][2] == 478
        assert shown["roc"][0] == ["model", "false_positive_rate", "true_positive_rate"]
        assert shown["learning"][0] == ["model", "fold", "step", "score"]
        assert all(len(shown[kind]) > 2 for kind in ("confusion", "roc", "calibration", "learning"))


async def test_a_model_without_pictures_says_when_they_come(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "3")
        await driver.sees("step 8")
        await driver.press("right")
        await driver.sees("Drawn from out-of-fold predictions")


async def test_a_row_can_be_clicked_and_opened_by_a_double_click(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("3")
        await driver.sees("Members")
        await driver.pilot.click("#models", offset=(6, 3))
        await driver.sees("Hyperparameters")
        await driver.pilot.click("#models", offset=(6, 3), times=2)
        await driver.until(lambda: isinstance(driver.app.screen, Reading))


async def test_y_copies_the_best_parameters(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "3")
        await driver.until(lambda: models_of(driver).key == "catboost")
        await driver.press("y")
        assert set(json.loads(driver.app.clipboard)) == {"learning_rate", "max_depth"}
        await driver.press("g", "y")
        await driver.until(lambda: any("no hyperparameters to copy yet" in toast for toast in driver.toasts()))


async def test_before_the_first_model(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=NARROW) as driver:
        await driver.press("3", "space", "enter", "y", "U", "c")
        await driver.sees("No model yet.")


async def test_the_numbers_above_the_charts_are_not_cut(tmp_path, monkeypatch):
    events = [*recordings.finished(), evaluations.binary("ensemble", None)]
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.press("3")
        for words in ("area 0.8789 · “1” against the rest", "average precision 0.8412 · “1” against the rest"):
            await driver.press("right")
            await driver.until(lambda words=words: words in flowed(driver.text()))
        await driver.press("right", "right")
        await driver.until(lambda: "calibration error 0.0312" in flowed(driver.text()))


def flowed(screen: str) -> str:
    """The text of the right column of panels, wrapped lines joined."""
    return " ".join(line[80:-1].strip() for line in screen.splitlines())
