"""When kept runs would have ended, and which share is chosen on other tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks.lab.kept import KeptRun
from benchmarks.lab.patience import chosen_share, stop_second
from tabapp.run.record import events as ev


def kept_run(*, waits_until: float) -> KeptRun:
    """A run of 100 seconds whose score stays the same, while a model waits at first."""
    changes = [
        ev.EnsembleChanged(members=(), score=5.0, low=4.0, high=6.0, t=1000.0 + second) for second in range(5, 100, 5)
    ]
    planned = [ev.FitsPlanned(in_time=1, t=1000.0), ev.FitsPlanned(in_time=0, t=1000.0 + waits_until)]
    events = sorted([*changes, *planned], key=lambda event: event.t)
    return cast(KeptRun, SimpleNamespace(metric="rmse", started=1000.0, fitting_end=100.0, events=events))


@pytest.mark.parametrize(("waits_until", "second"), [(0.5, 25.0), (60.0, 60.0), (99.5, 100.0)])
def test_a_run_ends_once_nothing_waits_and_the_score_stays(waits_until: float, second: float) -> None:
    assert stop_second(kept_run(waits_until=waits_until), 0.1, 3) == second


def test_the_share_that_saves_most_with_a_small_error_is_chosen() -> None:
    others = {"a|0": {0.05: (0.2, 1.0), 0.1: (0.4, 1.001), 0.2: (0.6, 1.01)}}
    assert chosen_share(others, [0.05, 0.1, 0.2]) == 0.1
    assert chosen_share({"a|0": {0.2: (0.6, 1.01)}}, [0.2]) is None
