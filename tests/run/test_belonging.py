"""What an evaluation or an analysis belongs to, in the state, in reports, and on screens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tabapp.report.make import make_report
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import all_kinds
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState, subject_of
from tabapp.run.texts.diagnoses import known_results, tables_of
from tabapp.tui.viewmodels.model_card import model_card
from tests.run.recording import ENSEMBLE_ROW, LIGHTGBM_ROW, analyses, finished, recorded, target_result, targets

NETWORK_ROW = msgspec.structs.replace(
    LIGHTGBM_ROW, rank=3, model="ft_transformer", title="FT-Transformer", identity="network", in_ensemble=0.0
)
ROWS = (
    msgspec.structs.replace(ENSEMBLE_ROW, identity="ensemble-2"),
    msgspec.structs.replace(LIGHTGBM_ROW, identity="lightgbm-2"),
    NETWORK_ROW,
)
EVALUATION = ev.EvaluationReady(
    model="ensemble", trial=None, n_rows=777, labels=("no", "yes"), confusion=((4, 3), (2, 1))
)
DESCRIBED = [
    EVALUATION,
    *(event for event in [*recorded("a-run"), *analyses()] if isinstance(event, ev.Described)),
]
NAMES = [f"{type(event).__name__}-{event.model}" for event in DESCRIBED]


def state_with(found: ev.Described, *, ends: bool) -> RunState:
    """The state of a run with three rows and one description, which ends or continues."""
    events = [event for event in recorded("a-run")[:8] if not isinstance(event, ev.Described)]
    events += [found, ev.LeaderboardChanged(rows=ROWS)]
    events += [finished("a-run", leaderboard=ROWS, importances=())] if ends else []
    return replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, start=1)])  # type: ignore[misc]


def described(state: RunState) -> list[ev.Described]:
    """Every description in a state."""
    values = [getattr(state, name) for name in RunState.__struct_fields__]
    values += [each for value in values if isinstance(value, dict) for each in value.values()]
    return [value for value in values if isinstance(value, ev.Described)]


def current(found: ev.Described) -> Any:
    """A description of what the leaderboard scores."""
    identity = {row.model: row.identity for row in ROWS}
    changes = {"attention_identity": "network"} if isinstance(found, ev.ImportancesReady) else {}
    return msgspec.structs.replace(found, identity=identity[found.model], **changes)


def earlier(found: ev.Described) -> Any:
    trial = None if found.model == ev.ENSEMBLE else 7
    return msgspec.structs.replace(found, identity="an-earlier-one", trial=trial)


def test_the_descriptions_of_this_test_are_all_that_exist() -> None:
    kinds = {kind for kind in all_kinds() if issubclass(kind, ev.Described)}
    assert {type(event) for event in DESCRIBED} == kinds
    named = {kind for kind in all_kinds() if kind.__name__.endswith(("Ready", "Chosen", "Compared"))}
    assert named == kinds


@pytest.mark.parametrize("found", DESCRIBED, ids=NAMES)
def test_at_the_end_only_descriptions_of_the_final_predictions_are_left(found: ev.Described) -> None:
    for kept in (current(found), msgspec.structs.replace(found, identity="")):
        assert [each.identity for each in described(state_with(kept, ends=True))] == [kept.identity]
    assert described(state_with(earlier(found), ends=True)) == []


@pytest.mark.parametrize("found", DESCRIBED, ids=NAMES)
def test_during_a_run_an_earlier_description_is_marked(found: ev.Described) -> None:
    title = subject_of(state_with(current(found), ends=False), current(found))
    assert title in {"Ensemble", "LightGBM", "ft_transformer"}
    state = state_with(earlier(found), ends=False)
    (kept,) = described(state)
    marked = subject_of(state, kept)
    assert marked == ("an earlier ensemble" if found.model == "ensemble" else f"{title} (trial 7)")
    texts = repr([*make_report(state).sections, *(tables_of(each, state) for each in known_results(state))])
    if not isinstance(found, ev.EvaluationReady) or found.model == "ensemble":
        assert marked in texts


def test_importances_of_an_earlier_attention_are_dropped() -> None:
    found = next(event for event in DESCRIBED if isinstance(event, ev.ImportancesReady))
    old = msgspec.structs.replace(current(found), attention_identity="an-earlier-one")
    assert described(state_with(old, ends=True)) == []


def test_a_report_says_that_the_final_ensemble_was_not_evaluated() -> None:
    report = make_report(state_with(earlier(EVALUATION), ends=True))
    quality = next(section for section in report.sections if section.title.startswith("Quality"))
    assert "ended before its predictions were evaluated" in repr(quality)
    assert "777" not in repr(report)
    assert "777" in repr(make_report(state_with(current(EVALUATION), ends=True)))


def test_the_card_of_a_model_says_what_its_evaluation_describes() -> None:
    for found, mark in ((current(EVALUATION), ""), (earlier(EVALUATION), "an earlier ensemble")):
        card = model_card(state_with(found, ends=False), "ensemble")
        assert card is not None
        assert card.evaluated == mark
    card = model_card(state_with(earlier(EVALUATION), ends=True), "ensemble")
    assert card is not None
    assert card.evaluation is None


def test_the_end_of_a_target_drops_earlier_descriptions() -> None:
    result = target_result("bought", 0.91, leaderboard=ROWS)
    events: list[Any] = [targets()[0], earlier(EVALUATION), ev.TargetFinished(index=0, result=result)]
    state = replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, start=1)])
    own = state.targets[0].state
    assert own is not None
    assert described(own) == []
