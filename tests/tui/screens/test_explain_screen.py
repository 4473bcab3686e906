"""The Explain screen: the effect of the feature under the cursor, and where predictions are wrong."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tabapp.findings import Interaction
from tabapp.run.analyses.attention import AttentionReady
from tabapp.run.analyses.dependence import DependenceReady, GroupImportance
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.protocol.analyses import AnalysisError, AnalysisFailed
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.tui.dialogs.basic import Choice, Reading
from tabapp.tui.screens import explain as explain_screen
from tabapp.tui.viewmodels.diagnoses import analysis_options
from tests.run.recording import analyses
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


@pytest.mark.parametrize("size", SIZES)
async def test_weak_slices_are_distinguished_from_chance(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, explained(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5", *(["c", "c"] if size == NARROW else []))
        await driver.sees("Largest errors · log loss 0.4292 in all", "1 clearly worse · 34 slices of 891 rows")
        await driver.sees("●  Pclass = 3", "491", "0.7012", "31%", "+0.21", "·  Age missing")
        await driver.press("tab", "enter")
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
        await driver.sees(f"{n_rows} of 2,000 columns", "unstable")
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
        await driver.sees("Computed once the fits are done")


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


async def test_an_analysis_is_requested_and_shown(tmp_path, monkeypatch):
    asked = []
    answers = {"robustness": 1, "learning-curve": 2, "fairness": 4, "threshold": 0}

    may_end = asyncio.Event()

    async def analyze(kind, request, *folders):
        asked.append((request.option, request.value))
        await may_end.wait()
        return analyses()[answers[request.option]]

    monkeypatch.setattr(explain_screen, "analyze_in_background", analyze)
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("5")
        for choose, words in (
            (["robust"], ["damaged cells", "0.8500 (0.8300 to 0.8700)"]),
            (["learning"], ["More rows would likely help", "training rows"]),
            (["groups", "sex"], ["selection rate", "= east", "clear difference"]),
            (["threshold", "f1"], ["at least 0.310", "The bundle keeps this threshold", "truly yes"]),
        ):
            await driver.press("d")
            for text in choose:
                await driver.until(lambda: isinstance(driver.app.screen, Choice))
                before = driver.app.screen
                await driver.press(*text, "enter")
                await driver.until(lambda before=before: driver.app.screen is not before)
            if choose == ["robust"]:
                await driver.sees("analyzing: robustness…")
                may_end.set()
            await driver.until(lambda: isinstance(driver.app.screen, Reading))
            await driver.sees(*words)
            await driver.press("escape")
        await driver.sees("features · ")
        assert asked == [
            ("robustness", None),
            ("learning-curve", None),
            ("fairness", "Sex"),
            ("threshold", "f1"),
        ]
        await driver.write(*analyses())
        await driver.press("d")
        await driver.sees("Results so far            11")
        await driver.press("enter")
        await driver.sees("Robustness", "Threshold")


async def test_costs_become_a_metric_and_errors_are_shown(tmp_path, monkeypatch):
    async def analyze(kind, request, *folders):
        raise AnalysisError(AnalysisFailed(error=f"No threshold by {request.value}."))

    monkeypatch.setattr(explain_screen, "analyze_in_background", analyze)
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("5", "d", *"threshold", "enter")
        await driver.press(*"costs", "enter")
        await driver.sees("Threshold by costs")
        await driver.press("enter")
        await driver.until(lambda: any("No threshold by cost:fn=5,fp=1." in toast for toast in driver.toasts()))


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


async def test_attention_maps_by_layer_and_head(tmp_path, monkeypatch):
    attention = next(event for event in analyses() if isinstance(event, AttentionReady))
    async with drive(tmp_path, monkeypatch, [*explained(), attention], attach=True, engine_runs=False) as driver:
        await driver.press("5", "d", *"map", "enter")
        await driver.sees("Attention map", "layer 1", "mean of 2 heads", "head 2")
        await driver.press("enter")
        # 0.5 for age with a chance of 0.25, and 0.3 for city with one of 0.5.
        await driver.sees("Attention · layer 1", "[CLS]", "2.0", "0.6")
        await driver.press("escape", "d", *"map", "enter", *"head 2", "enter")
        await driver.sees("Attention · layer 1 · head 2")


async def test_interactions_are_a_heat_map(tmp_path, monkeypatch):
    pairs = (("Age", "Sex", 0.35, 0.04), ("Age", "Fare", 0.2, 0.01), ("Fare", "Sex", 0.9, 0.001))
    found = InteractionsReady(
        model="catboost", label="yes", columns=("Age", "Sex", "Fare"),
        pairs=tuple(Interaction(a=a, b=b, h=h, size=size) for a, b, h, size in pairs),
    )  # fmt: skip
    async with drive(tmp_path, monkeypatch, [*explained(), found], attach=True, engine_runs=False) as driver:
        await driver.press("5", "d", *"inter", "enter")
        await driver.sees("The number is H", "Age × Sex")
        lines = [line.split() for line in driver.app.screen._text.plain.splitlines()]
        assert ["Age", "—", "0.35", "0.20"] in lines
        assert ["Sex", "0.35", "—", "0.90"] in lines


async def test_maps_of_several_models_have_their_names(tmp_path, monkeypatch):
    attention = next(event for event in analyses() if isinstance(event, AttentionReady))
    step = msgspec.structs.replace(attention.maps[1], title="step 1", heads=attention.maps[1].heads[:1], kind="mask")
    masks = msgspec.structs.replace(attention, model="tabnet", maps=(step,))
    async with drive(tmp_path, monkeypatch, [*explained(), attention, masks], attach=True, engine_runs=False) as driver:
        await driver.press("5", "d", *"map", "enter")
        await driver.sees("FT-Transformer · layer 1 · head 2", "tabnet · Mask, step 1")
        await driver.press(*"step", "enter")
        await driver.sees("Mask · step 1", "Share of the mask of tabnet", "2.0")


def test_attention_is_compared_only_where_a_model_has_it():
    def offered(ready):
        return [value for value, _, _ in analysis_options(RunState(importances=ready), 0)]

    ready = recordings.importances(0.0)
    assert "faithfulness" in offered(ready)
    assert "faithfulness" in offered(None)
    assert "faithfulness" not in offered(msgspec.structs.replace(ready, attention_model=None))
