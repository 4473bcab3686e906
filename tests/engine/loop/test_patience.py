"""When more time is not expected to improve the ensemble, and runs that end therefore."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tabapp.engine.loop.patience import Patience
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig, check_config
from tabapp.run.record import events as ev
from tabapp.run.record.reducing.feed import describe
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
from tests.engine.loop.test_early_end import started

NOTHING_WAITS = ev.FitsPlanned(in_time=0)


def followed(*steps: tuple[float, float], metric: str = "rmse", width: float = 1.0) -> Patience:
    """Ensembles by their second and score."""
    patience = Patience(metric)
    for seconds, score in steps:
        changed = ev.EnsembleChanged(members=(), score=score, low=score - width / 2, high=score + width / 2)
        patience.record(seconds, changed)
    return patience


FLAT = ((10.0, 5.0), (60.0, 4.99), (70.0, 4.98), (80.0, 4.97))


def test_the_gain_of_the_last_doubling_is_extrapolated_to_the_end() -> None:
    settled = followed(*FLAT).settled(100.0, 400.0, NOTHING_WAITS)
    assert settled is not None
    assert settled.gain == pytest.approx((5.0 - 4.97) * math.log2(4))
    assert settled.half_width == 0.5


@pytest.mark.parametrize(
    ("patience", "seconds", "end", "planned"),
    [
        pytest.param(
            followed((10.0, 5.0), (60.0, 4.9), (70.0, 4.8), (80.0, 4.7)), 100.0, 400.0, NOTHING_WAITS, id="gains"
        ),
        pytest.param(followed(*FLAT[:3]), 100.0, 400.0, NOTHING_WAITS, id="two ensembles in the second half"),
        pytest.param(followed(*FLAT[1:]), 100.0, 400.0, NOTHING_WAITS, id="none in the first half"),
        pytest.param(followed(*FLAT), 100.0, 400.0, ev.FitsPlanned(in_time=1), id="a model waits"),
        pytest.param(followed(*FLAT), 100.0, math.inf, NOTHING_WAITS, id="no time limit"),
        pytest.param(followed(), 100.0, 400.0, NOTHING_WAITS, id="no ensemble"),
    ],
)
def test_a_score_that_may_still_gain_is_not_settled(
    patience: Patience, seconds: float, end: float, planned: ev.FitsPlanned
) -> None:
    assert patience.settled(seconds, end, planned) is None


def test_a_higher_score_is_a_gain_where_higher_is_better() -> None:
    rising = followed((10.0, 0.5), (60.0, 0.6), (70.0, 0.7), (80.0, 0.8), metric="roc_auc", width=0.1)
    falling = followed((10.0, 0.8), (60.0, 0.7), (70.0, 0.6), (80.0, 0.5), metric="roc_auc", width=0.1)
    assert rising.settled(100.0, 400.0, NOTHING_WAITS) is None
    settled = falling.settled(100.0, 400.0, NOTHING_WAITS)
    assert settled is not None
    assert settled.gain == 0.0


def test_an_undefined_score_is_left_out() -> None:
    patience = followed(*FLAT)
    patience.record(90.0, ev.EnsembleChanged(members=(), score=None, low=None, high=None))
    assert patience.settled(100.0, 400.0, NOTHING_WAITS) is not None


@pytest.mark.parametrize("patience", ["off", "auto"])
def test_a_settled_run_says_so_once_and_ends_if_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: str
) -> None:
    engine, _ = started(tmp_path)
    board = engine.conductor.board
    board.plan = msgspec.structs.replace(board.plan, patience=patience)
    settled = ev.ScoreSettled(gain=0.001, half_width=0.02)
    monkeypatch.setattr(Patience, "settled", lambda *arguments: settled)
    engine.conductor.run()
    said = [event for event in engine.events if isinstance(event, ev.ScoreSettled)]
    assert said == [msgspec.structs.replace(settled, ends=patience == "auto")]
    submitted = len(engine.executor.submitted)
    assert submitted <= 2 if patience == "auto" else submitted > 6
    state = replay(cast(list[ev.AnyEvent], engine.events))
    assert state.settled == said[0]
    lines = [line.text for line in state.feed if line.text.startswith("More time")]
    ending = ", so that fitting ends" if patience == "auto" else ""
    assert lines == [f"More time would probably add at most 0.0010 to a score of ±0.0200{ending}"]


@pytest.mark.parametrize(
    ("gain", "half_width", "said"),
    [(0.0, 0.0029, "add nothing to a score of ±0.002900"), (1.2, 3293.0, "add at most 1 to a score of ±3,293")],
)
def test_the_gain_is_written_like_the_interval(gain: float, half_width: float, said: str) -> None:
    line = describe(ev.ScoreSettled(gain=gain, half_width=half_width), RunState())
    assert line == ("info", f"More time would probably {said}")


def test_patience_needs_a_time_limit() -> None:
    check_config(RunConfig(data="t.csv", patience="auto"))
    check_config(RunConfig(data="t.csv", patience="auto", trials=3, budget=60.0))
    with pytest.raises(UsageError, match=r"^--patience auto ends a run before its time limit\. Add --budget\.$"):
        check_config(RunConfig(data="t.csv", patience="auto", trials=3))
