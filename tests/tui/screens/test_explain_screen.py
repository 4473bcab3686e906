"""The Explain screen: the effect of the feature under the cursor, and where predictions are wrong."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.findings import Effect, EffectCurve
from tabapp.run.analyses.dependence import DependenceReady, GroupImportance
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.widgets.effects import EffectFacts, Effects, coming
from tests.tui import evaluations, recordings
from tests.tui.driver import NARROW, SIZES, drive


def explained(*more):
    return [*recordings.finished(), evaluations.slices(), *(more or (evaluations.effects(),))]


@pytest.mark.parametrize("size", SIZES)
async def test_the_effect_follows_the_cursor(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, explained(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5", *(["c"] if size == NARROW else []))
        await driver.sees("Effect of Sex", "mean for “1”", "female", "0.738", "314")
        driver.app.screen.query_one("#explanation").move_to_key("Age")
        await driver.sees("Effect of Age", "0.72", "63", "█")
        driver.app.screen.query_one("#explanation").move_to_key("Name")
        await driver.sees("Effect of Name", "Drawn for the features that matter most", "Sex, Age")


async def test_the_effects_of_many_classes_are_over_each_other(tmp_path, monkeypatch):
    events = explained(evaluations.effects(("setosa", "virginica")))
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("● setosa", "◆ virginica", "male")
        driver.app.screen.query_one("#explanation").move_to_key("Age")
        await driver.sees("Effect of Age", "● setosa")


async def test_the_effect_of_a_regression_has_no_class(tmp_path, monkeypatch):
    events = explained(evaluations.effects(("",)))
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("mean prediction", "female")
        driver.app.screen.query_one("#explanation").move_to_key("Age")
        await driver.sees("mean · faint: inner 80 % of rows")


def test_bars_of_similar_numbers_do_not_start_at_0():
    """House prices between 181,600 and 182,100 would all have the same bar."""
    prices = Effect(
        feature="Exterior", places=(), labels=("brick", "wood"), counts=(9, 9),
        curves=(EffectCurve(label="", values=(182_100.0, 181_600.0), low=(), high=()),),
    )  # fmt: skip
    legend, brick, wood = (
        line.plain for line in Effects("Effect").draw(EffectFacts("Exterior", prices, 18, ""), 60, 6)
    )
    assert legend == "mean prediction · bars start at 181,550"
    assert brick.count("━") > 8 * wood.count("━") > 0
    far = msgspec.structs.replace(prices, curves=(EffectCurve(label="", values=(200.0, 100.0), low=(), high=()),))
    legend, most, least = (line.plain for line in Effects("Effect").draw(EffectFacts("Exterior", far, 18, ""), 60, 6))
    assert legend == "mean prediction"
    assert most.count("━") == pytest.approx(2 * least.count("━"), abs=1)
    shares = msgspec.structs.replace(prices, curves=(EffectCurve(label="yes", values=(0.9, 0.88), low=(), high=()),))
    _, most, least = (line.plain for line in Effects("Effect").draw(EffectFacts("Exterior", shares, 18, ""), 60, 6))
    assert least.count("━") > most.count("━") * 0.9, "probabilities start at 0"


@pytest.mark.parametrize("size", SIZES)
async def test_weak_slices_are_distinguished_from_chance(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, explained(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5", *(["c", "c"] if size == NARROW else []))
        await driver.sees("Largest errors · log loss 0.4292 in all", "1 clearly worse · 34 slices of 891 rows")
        await driver.sees("●  Pclass = 3", "491", "0.7012", "31%", "+0.21", "·  Age missing")
        driver.app.screen.query_one("#slices").focus()
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("491 of 891 rows have Pclass = 3", "31.0% of these rows", "The interval is above 0")
        await driver.press("escape", "down", "enter")
        await driver.sees("177 of 891 rows", "chance may explain")


async def test_a_slice_is_read_by_a_double_click(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("Pclass = 3")
        await driver.pilot.click("#slices", offset=(8, 2), times=2)
        await driver.until(lambda: isinstance(driver.app.screen, Reading))


async def test_without_attention_the_order_stays_and_the_key_says_why(tmp_path, monkeypatch):
    events = [
        msgspec.structs.replace(event, rows=tuple(msgspec.structs.replace(row, attention=None) for row in event.rows))
        if isinstance(event, ev.ImportancesReady)
        else event
        for event in explained()
    ]
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("sorted by permutation")
        await driver.press("a")
        await driver.until(lambda: any("permutation is the only order" in toast for toast in driver.toasts()))
        assert driver.app.screen.query_one("#explanation").sort == "permutation"


def incomplete(*, unstable: str) -> list[ev.Event]:
    """A run whose time ended before all of its columns were measured, with an unstable value."""
    return [
        msgspec.structs.replace(
            event,
            n_columns=2_000,
            rows=tuple(
                msgspec.structs.replace(row, unstable=True, permutation=9.0) if row.feature == unstable else row
                for row in event.rows
            ),
        )
        if isinstance(event, ev.ImportancesReady)
        else event
        for event in explained()
    ]


async def test_columns_that_were_not_measured_and_unstable_values_are_named(tmp_path, monkeypatch):
    events = incomplete(unstable="Age")
    n_rows = len(recordings.importances(0.0).rows)
    async with drive(tmp_path, monkeypatch, events, size=(140, 50), attach=True, engine_runs=False) as driver:
        await driver.sees(f"{n_rows} of 2,000 columns")
        await driver.press("5")
        await driver.sees(f"{n_rows} of 2,000 features", "unstable", "1 importance is unstable", "promising ones first")
        table = driver.app.screen.query_one("#explanation")
        assert table.key != "Age", "an unstable value does not lead"


async def test_the_panels_of_a_narrow_terminal_take_turns(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, explained(), size=NARROW, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        for text in ("How to read this", "Effect of Sex", "Largest errors", "How to read this"):
            await driver.sees(text)
            await driver.press("c")


@pytest.mark.parametrize("size", SIZES)
async def test_before_there_is_anything_to_explain(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("5", "enter", "a", "c", "c")
        await driver.sees("Importances follow")


def test_what_is_computed_next_is_not_announced_for_the_end_of_the_fits():
    assert coming(RunState(stage="fitting")) == "Computed once the fits are done."
    assert coming(RunState(stage="explaining")) == "The fits are done; computed next."


async def test_a_run_without_slices_says_so(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("there are too few rows", "No effects: the run ended before them")


@pytest.mark.parametrize(
    "text",
    [
        "Partial dependence",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in ("Attention alone misleads", "its interval is widened")
        ),
    ],
)
async def test_the_help_says_what_misleads(tmp_path, monkeypatch, text):
    async with drive(tmp_path, monkeypatch, explained(), size=(120, 60), attach=True, engine_runs=False) as driver:
        await driver.press("5", "question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.until(lambda: text in driver.app.screen._text.plain)


async def test_preliminary_importances_say_of_which_model_they_are(tmp_path, monkeypatch):
    found = msgspec.structs.replace(recordings.importances(0.0), preliminary=True)
    async with drive(tmp_path, monkeypatch, [*recordings.running(), found]) as driver:
        await driver.press("5")
        await driver.sees("Importance · preliminary, of CatBoost")


async def test_a_group_is_one_row_that_opens(tmp_path, monkeypatch):
    group = DependenceReady(
        model="catboost",
        groups=(GroupImportance(columns=("Age", "Sex"), permutation=0.3, low=0.25, high=0.35),),
        conditional=(),
    )
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("Sex")
        await driver.write(group)
        table = driver.app.screen.query_one("#explanation")
        await driver.until(lambda: "group Age + Sex" in [row.key for row in table.rows])
        assert not {"Age", "Sex"} & {row.key for row in table.rows}
        table.move_to_key("group Age + Sex")
        await driver.sees("▸ Age + Sex", "depend on each other")
        await driver.press("enter")
        await driver.until(lambda: "Sex" in [row.key for row in table.rows])
        keys = [row.key for row in table.rows]
        place = keys.index("group Age + Sex")
        assert set(keys[place + 1 : place + 3]) == {"Age", "Sex"}
        assert len(keys) == len(set(keys))
        await driver.press("enter")
        await driver.until(lambda: "Sex" not in [row.key for row in table.rows])
