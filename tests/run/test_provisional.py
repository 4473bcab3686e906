from __future__ import annotations

import msgspec
import pytest

from tabapp.headless.summary import leaderboard_cells
from tabapp.run.record.state import ActiveFit, RunState
from tabapp.run.texts.provisional import provisional_scores, score_or_provisional
from tests.run.recording import LIGHTGBM_ROW, PLAN

QUEUED_ROW = msgspec.structs.replace(
    LIGHTGBM_ROW, rank=0, score=None, low=None, high=None, status="running", activity="fold 1"
)


def training(*fits: tuple[str, tuple[float, ...]]) -> dict[str, ActiveFit]:
    return {
        f"{model}-{n}": ActiveFit(
            fit=f"{model}-{n}",
            model=model,
            trial=0,
            fold=n,
            folds=5,
            started=0.0,
            curve=tuple(enumerate(values, start=1)),
        )
        for n, (model, values) in enumerate(fits)
    }


@pytest.mark.parametrize(("greater_is_better", "best"), [(True, 0.9), (False, 0.2)])
def test_the_best_step_of_all_running_fits_counts(greater_is_better, best):
    plan = msgspec.structs.replace(PLAN, greater_is_better=greater_is_better)
    active = training(("lightgbm", (0.5, 0.8, 0.2)), ("lightgbm", (0.9, 0.6)), ("mlp", ()))
    assert provisional_scores(RunState(plan=plan, leaderboard=(QUEUED_ROW,), active=active)) == {"lightgbm": best}


def test_a_model_with_a_score_has_no_provisional_one():
    state = RunState(plan=PLAN, leaderboard=(LIGHTGBM_ROW,), active=training(("lightgbm", (0.5,))))
    assert provisional_scores(state) == {}


def test_a_tilde_marks_a_provisional_score():
    assert score_or_provisional(None, 0.75) == "~0.7500"
    assert score_or_provisional(0.8, 0.75) == "0.8000"
    assert score_or_provisional(None, None) == "—"
    assert leaderboard_cells(QUEUED_ROW, 5, 0.75)[2] == "~0.7500"
    assert leaderboard_cells(QUEUED_ROW, 5)[2] == "—"
