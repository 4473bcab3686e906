from __future__ import annotations

import msgspec
import pytest

from tabapp.findings import ReliabilityBin
from tabapp.run.record import events as ev
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import EnsembleStep, FinishedFit, RunState
from tabapp.run.record.stopping import stopped
from tabapp.run.texts.differences import alike, mark_of
from tabapp.run.texts.verdict import Verdict, skill, verdict_of
from tests.recordings import HOPELESS, events_of
from tests.run.recording import ENSEMBLE_ROW, LIGHTGBM_ROW, PLAN, finished, recorded

BASELINE = ev.PairedDifference(
    model=ev.BASELINE, what="the share of each class", score=0.5, advantage=0.41, low=0.38, high=0.44
)
SINGLE = ev.PairedDifference(
    model="lightgbm", trial=0, identity="one", score=0.912, advantage=-0.002, low=-0.006, high=0.002
)
ROWS = (
    msgspec.structs.replace(ENSEMBLE_ROW, rank=1, identity="all", folds=PLAN.folds, predict_ms_per_1k=30.0),
    msgspec.structs.replace(
        LIGHTGBM_ROW, rank=2, identity="one", score=0.912, folds=PLAN.folds, trials=4, predict_ms_per_1k=10.0
    ),
)
MEMBERS = (
    ev.EnsembleMember(model="lightgbm", trial=0, weight=0.6),
    ev.EnsembleMember(model="mlp", trial=0, weight=0.4),
)


def state_of(
    *differences: ev.PairedDifference,
    identity: str = "all",
    members: tuple[ev.EnsembleMember, ...] = MEMBERS,
    ends: bool = True,
    **changes: object,
) -> RunState:
    """The state of a run whose ensemble was compared with others."""
    events = [event for event in recorded("a-run") if not isinstance(event, ev.RunFinished | ev.Described)]
    events += [
        ev.EnsembleChanged(members=members, score=0.91, low=0.9, high=0.92, identity="all", folds=PLAN.folds),
        ev.LeaderboardChanged(rows=ROWS),
        ev.EnsembleCompared(n_rows=1000, rows=differences, identity=identity),
    ]
    events += [finished("a-run", leaderboard=ROWS, **changes)] if ends else []
    return replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, 1)])  # type: ignore[misc]


def verdict(state: RunState) -> Verdict:
    found = verdict_of(state)
    assert found is not None
    return found


def texts(state: RunState) -> str:
    return " ".join(fact.text for fact in verdict(state).facts)


@pytest.mark.parametrize(("advantage", "shown"), [(-0.00004, "+0.0000"), (0.00004, "+0.0000"), (0.0, "+0.0000")])
def test_a_difference_that_is_shown_as_zero_makes_no_model_better(advantage, shown):
    text = texts(state_of(BASELINE, msgspec.structs.replace(SINGLE, advantage=advantage)))
    assert f"LightGBM alone does not differ clearly (0.9120, {shown} ±" in text


def test_a_single_model_that_looks_better_is_explained():
    state = state_of(BASELINE, SINGLE)
    assert "LightGBM alone looks better (0.9120, +0.0020 ±0.0040), and predicts 3 times as fast." in texts(state)
    assert "the best of 4 trials on the rows that score it" in texts(state)
    single = alike(state)
    assert single is not None
    assert mark_of(state, single) == "≈ +0.0020 ±0.0040"


def test_a_model_that_is_clearly_behind_has_no_mark_of_likeness():
    state = state_of(BASELINE, msgspec.structs.replace(SINGLE, score=0.89, advantage=0.02, low=0.01, high=0.03))
    assert "LightGBM alone is clearly worse (0.9120, -0.0200 ±0.0100)" in texts(state)
    assert mark_of(state, state.leaderboard[1]) == "-0.0200 ±0.0100"
    assert alike(state) is None


def test_an_ensemble_of_one_model_is_not_compared_with_it():
    state = state_of(
        BASELINE, SINGLE, members=(ev.EnsembleMember(model="lightgbm", trial=LIGHTGBM_ROW.trial or 0, weight=1.0),)
    )
    assert "The ensemble is LightGBM alone." in texts(state)
    assert mark_of(state, state.leaderboard[1]) == ""


def test_differences_of_an_earlier_ensemble_are_not_shown():
    state = state_of(BASELINE, SINGLE, identity="earlier", ends=False)
    assert mark_of(state, state.leaderboard[1]) == ""
    assert "The comparisons are of an earlier ensemble." in texts(state)


@pytest.mark.parametrize(
    ("baseline", "level", "words"),
    [
        (BASELINE, "good", "82% of the way from always predicting the share of each class (0.5000)"),
        (msgspec.structs.replace(BASELINE, score=0.905, advantage=0.005, low=0.001), "weak", "only 5% of the way"),
        (msgspec.structs.replace(BASELINE, low=-0.01), "none", "Chance can explain the difference"),
        (None, "unknown", ""),
    ],
)
def test_the_level_depends_on_the_best_constant_prediction(baseline, level, words):
    found = verdict(state_of(*([baseline] if baseline else [])))
    assert (found.level, words in found.judgment) == (level, True)


def test_an_interrupted_run_says_so_and_a_partial_score_is_marked():
    state = state_of(BASELINE, status="interrupted")
    assert verdict(state).word == "Good, interrupted"
    row = msgspec.structs.replace(ROWS[0], folds=1)
    partial = msgspec.structs.replace(state, leaderboard=(row, ROWS[1]))
    assert f"The score covers only 1 of {PLAN.folds} folds." in texts(partial)


def test_models_that_were_not_started_are_counted_with_what_more_time_reaches():
    state = state_of(BASELINE)
    missing = [
        msgspec.structs.replace(LIGHTGBM_ROW, model=name, rank=0, score=None, status="skipped", not_started=True)
        for name in ("mlp", "resnet")
    ]
    plan = msgspec.structs.replace(PLAN, budget=60.0, workers=1)
    waiting = tuple(ev.WaitingModel(model=name, seconds=5, needed=40.0) for name in ("mlp", "resnet"))
    changed = msgspec.structs.replace(
        state, leaderboard=(*ROWS, *missing), plan=plan, planned=ev.FitsPlanned(waiting=waiting)
    )
    assert "models were not started. 1m more would probably reach about 1 of them." in texts(changed)

    quick = msgspec.structs.replace(
        changed, planned=ev.FitsPlanned(waiting=waiting[:1]), leaderboard=(*ROWS, missing[0])
    )
    assert "1m more would probably reach it." in texts(quick)
    assert "more would" not in texts(stopped(quick))


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.0, "gained nothing"),
        (1e-9, "gained hardly anything"),
        (0.0005, "gained 0.0005"),
        (0.01, "still gained 0.0100"),
    ],
)
def test_a_gain_that_is_written_as_zero_is_put_in_words(gain, words):
    steps = tuple(
        EnsembleStep(seconds=seconds, score=score, low=score - 0.01, high=score + 0.01)
        for seconds, score in ((10, 0.9), (20, 0.9 + gain))
    )
    assert f"The second half of fitting {words}" in texts(msgspec.structs.replace(state_of(BASELINE), steps=steps))


def test_a_run_whose_engine_was_killed_is_interrupted():
    state = state_of(BASELINE, SINGLE, ends=False)
    assert verdict(state).word == "Good"
    assert verdict(stopped(state)).word == "Good, interrupted"


def test_a_run_without_a_score_has_no_verdict():
    assert verdict_of(RunState()) is None


def test_a_recorded_run_on_a_random_target_is_no_better_than_a_constant():
    found = verdict(replay(events_of(HOPELESS)))
    assert found.level == "none"
    assert found.word == "No better than a constant prediction"
    assert "The columns say little about chance" in found.judgment


def test_the_way_to_a_perfect_score():
    assert skill(0.75, 0.5, greater_is_better=True) == pytest.approx(0.5)
    assert skill(5.0, 20.0, greater_is_better=False) == pytest.approx(0.75)
    assert skill(3.0, 0.0, greater_is_better=True) is None


def test_a_model_that_looks_better_on_some_folds_is_named():
    state = state_of(BASELINE)
    ahead = msgspec.structs.replace(LIGHTGBM_ROW, model="mlp", title="MLP", rank=3, score=0.95, folds=2)
    assert "looks better on" not in texts(state)
    found = texts(msgspec.structs.replace(state, leaderboard=(*ROWS, ahead)))
    assert f"MLP looks better on 2 of {PLAN.folds} folds (0.9500), but was not completed." in found


def test_a_model_that_is_behind_others_on_the_same_folds_is_not_named():
    row = msgspec.structs.replace(LIGHTGBM_ROW, model="mlp", title="MLP", rank=3, score=0.95, folds=2, trial=0)
    state = state_of(BASELINE, SINGLE)

    def on_two_folds(mlp: float, lightgbm: float) -> RunState:
        fits = {
            f"{model}-{fold}": FinishedFit(model=model, trial=trial, fold=fold, score=score, seconds=1.0)
            for model, trial, score in (("mlp", 0, mlp), ("lightgbm", LIGHTGBM_ROW.trial or 0, lightgbm))
            for fold in range(2)
        }
        return msgspec.structs.replace(state, leaderboard=(*state.leaderboard, row), fits=fits)

    assert "MLP looks better" not in texts(on_two_folds(0.95, 0.96))
    assert "MLP looks better" in texts(on_two_folds(0.95, 0.94))


@pytest.mark.parametrize("ends", [False, True])
def test_a_run_that_ended_by_patience_says_so(ends: bool) -> None:
    state = state_of(BASELINE, SINGLE)
    settled = ev.ScoreSettled(gain=0.0, half_width=0.01, ends=ends)
    sentence = "Fitting ended before its time limit, since more would probably add little."
    assert (sentence in texts(msgspec.structs.replace(state, settled=settled))) == ends


@pytest.mark.parametrize(
    ("predicted", "observed", "said"),
    [
        (0.06, 0.1, "where it predicts 6%, 10% come true"),
        (0.0184, 0.0235, "where it predicts 1.8%, 2.4% come true"),
        (0.00512, 0.00541, "where it predicts 0.51%, 0.54% come true"),
    ],
)
def test_percents_have_the_decimals_in_which_they_differ(predicted: float, observed: float, said: str) -> None:
    state = state_of(BASELINE, SINGLE)
    found = next(each for each in recorded("a-run") if isinstance(each, ev.EvaluationReady))
    off = ReliabilityBin(predicted=predicted, observed=observed, low=observed, high=observed, count=500)
    found = msgspec.structs.replace(found, model=ev.ENSEMBLE, calibration=(off,), calibration_error=0.05)
    assert said in texts(msgspec.structs.replace(state, evaluations={ev.ENSEMBLE: found}))
