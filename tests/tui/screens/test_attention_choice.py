"""The chooser of the Explain screen: which model's attention is beside permutation importance."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.findings import ColumnAttention, CombinedColumns, ModelAttention
from tabapp.run.analyses.attention_importances import AttentionImportancesReady
from tabapp.run.record import events as ev
from tabapp.run.record.reducing.reduce import replay
from tabapp.tui.dialogs.basic import Choice
from tabapp.tui.session import analysis_queue
from tabapp.tui.viewmodels.attention_choice import attention_choices, chosen_attention, with_attention
from tests.tui import recordings
from tests.tui.driver import SIZES, drive

SHARES = dict.fromkeys([name for name, *_ in recordings.IMPORTANCES], 0.1)


def attention(model, shares, **changes):
    rows = tuple(
        ColumnAttention(feature=name, share=share, low=share / 2, high=share * 1.5, raw=share)
        for name, share in shares.items()
    )
    values = {"model": model, "trial": 0, "kind": "attention", "n_rows": 891, "n_folds": 5, "rows": rows}
    return ModelAttention(**{**values, **changes})


def events():
    found = [
        attention("ft_transformer", SHARES, agreement=0.94),
        attention(
            "amformer",
            {**SHARES, "Fare": 0.55},
            agreement=-0.2,
            streams=("sums", "products"),
            combinations=(CombinedColumns(columns=("Sex", "Fare"), frequency=0.9, n_found=3, n_folds=2),),
        ),
        attention("tab_transformer", {"Sex": 0.8, "Embarked": 0.2}, agreement=None),
        attention("node", SHARES, kind="selection", agreement=0.5),
    ]
    ready = [AttentionImportancesReady(model=each.model, trial=0, found=each) for each in found]
    missing = AttentionImportancesReady(model="npt", trial=0, reason="the time of the run ended before")
    *run, last = recordings.finished()
    return [*run, *ready, missing, last]


def test_members_of_the_ensemble_are_named_and_models_without_a_result_are_last():
    state = replay(events())
    member = ev.EnsembleMember(model="ft_transformer", trial=0, weight=0.4)
    state = msgspec.structs.replace(state, ensemble=msgspec.structs.replace(state.ensemble, members=(member,)))
    options = attention_choices(state)
    assert [model for model, _, _ in options] == ["ft_transformer", "amformer", "tab_transformer", "node", "npt"]
    assert options[0][2] == "40% of the ensemble · rank correlation +0.94"
    assert options[1][2] == "rank correlation -0.20"
    assert options[3][2].startswith("selection · ")
    assert options[4][2] == "enter computes it: the time of the run ended before"


def test_the_importances_have_the_attention_of_the_chosen_model():
    state = replay(events())
    assert chosen_attention(state, None).model == "ft_transformer"
    assert chosen_attention(state, "npt").model == "ft_transformer", "without a result, the first is shown"
    shown = with_attention(state, "tab_transformer").importances
    by_name = {row.feature: row for row in shown.rows}
    assert by_name["Sex"].attention == 0.8
    assert by_name["Age"].attention is None
    assert (shown.attention_model, shown.agreement) == ("tab_transformer", None)
    assert [row.permutation for row in shown.rows] == [row.permutation for row in state.importances.rows]


def test_the_identity_is_that_of_the_chosen_model():
    identified = [
        msgspec.structs.replace(event, identity="of amformer")
        if isinstance(event, AttentionImportancesReady) and event.model == "amformer"
        else event
        for event in events()
    ]
    assert with_attention(replay(identified[:-1]), "amformer").importances.attention_identity == "of amformer"


def test_a_run_of_an_earlier_version_is_shown_as_before():
    state = replay(recordings.finished())
    assert with_attention(state, None) is state
    assert attention_choices(state) == []


@pytest.mark.parametrize("size", SIZES)
async def test_the_chosen_model_is_beside_permutation(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, events(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5")
        await driver.sees("attention of FT", "Rank correlation +0.94")
        await driver.press("m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("rank correlation -0.20", "enter computes it")
        await driver.press(*"amformer", "enter")
        await driver.sees("55%", "Rank correlation -0.20")
        await driver.press("m", *"tab_t", "enter")
        await driver.sees("80%", "needs three columns")
        await driver.press("m", *"node", "enter")
        await driver.sees("selection of", "sel")


async def test_the_notes_name_streams_products_and_columns_without_attention(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, events(), size=(160, 60), attach=True, engine_runs=False) as driver:
        await driver.press("5", "m", *"amformer", "enter")
        await driver.sees("Sums are shown", "Sex × Fare (90%)")
        await driver.press("m", *"tab_t", "enter")
        await driver.sees("8 columns are outside")


async def test_a_model_without_a_result_is_computed(tmp_path, monkeypatch):
    asked = []

    async def analyze(kind, wish, *folders, **more):
        asked.append((wish.option, wish.value))
        return AttentionImportancesReady(model="npt", trial=0, found=attention("npt", SHARES))

    monkeypatch.setattr(analysis_queue, "analyze_in_background", analyze)
    monkeypatch.setattr(analysis_queue, "LOOK_AGAIN_SECONDS", 0.02)
    async with drive(tmp_path, monkeypatch, events(), attach=True, engine_runs=False) as driver:
        await driver.press("5", "m", *"npt", "enter")
        await driver.until(lambda: asked == [("attention", "npt")])
        await driver.until(lambda: any("is computed now" in toast for toast in driver.toasts()))
        await driver.write(AttentionImportancesReady(model="npt", trial=0, found=attention("npt", SHARES)))
        await driver.sees("attention of npt")


async def test_the_details_of_a_model_show_what_it_reports(tmp_path, monkeypatch):
    def with_summary(event):
        if not isinstance(event, ev.LeaderboardChanged | ev.RunFinished):
            return event
        name = "rows" if isinstance(event, ev.LeaderboardChanged) else "leaderboard"
        facts = {"trees": 120, "used columns": {"Sex": 0.75, "Fare": 0.25}}
        rows = [
            msgspec.structs.replace(row, summary=facts) if row.model == "catboost" else row
            for row in getattr(event, name)
        ]
        return msgspec.structs.replace(event, **{name: tuple(rows)})

    run = [with_summary(event) for event in recordings.finished()]
    async with drive(tmp_path, monkeypatch, run, attach=True, engine_runs=False) as driver:
        await driver.press("3")
        driver.app.screen.query_one("#models").move_to_key("catboost")
        await driver.press("enter")
        await driver.sees("Reported by the fitted models", "used columns", "Sex 0.75, Fare 0.25")
