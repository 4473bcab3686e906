"""A run that no engine computes: its folder is locked, and events are appended to it at a rate.

python -m benchmarks.performance.written_run FOLDER --models 25 --trials 400 --rate 12

Prints `written` when the finished trials are in the folder, and appends the events of further ones until its parent process ends.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import RunFolder
from tests.tui.recordings import opening

FOLDS, WORKERS = 8, 2
STEPS = 10
"""Reports of progress of a fit that is written live."""
KINDS = (("Trees", "gbdt"), ("Network", "deep"), ("Linear model", "classic"))
"""Title and family of the models, which alternate."""
MEMBERS = 8
SECONDS_PER_TRIAL = 4.0


class SyntheticRun:
    """The events of a run in the order of an engine: models take turns, and each trial has all of its folds.

    Attributes:
        n_trials: number of complete trials of all models together.
    """

    def __init__(self, n_models: int) -> None:
        self._random = random.Random(0)
        kinds = [KINDS[n % len(KINDS)] for n in range(n_models)]
        self._models = [
            ev.ModelView(name=f"model_{n:02}", title=f"{title} {n:02}", family=family)
            for n, (title, family) in enumerate(kinds)
        ]
        self._rows = {
            model.name: ev.LeaderboardRow(rank=0, model=model.name, title=model.title, family=model.family)
            for model in self._models
        }
        self._levels = {model.name: self._random.uniform(0.80, 0.88) for model in self._models}
        self.n_trials = 0

    def start(self) -> list[ev.Event]:
        """The events until fitting begins."""
        plan: dict[str, Any] = {"models": tuple(self._models), "folds": FOLDS, "workers": WORKERS, "budget": None}
        plan |= {"choices": (), "validation": f"{FOLDS}-fold stratified"}
        begun = [
            msgspec.structs.replace(event, **plan) if isinstance(event, ev.PlanMade) else event for event in opening()
        ]
        return [*begun, ev.StageChanged(stage="fitting"), self._leaderboard()]

    def trial(self, *, live: bool) -> Iterator[ev.Event]:
        """The events of the next trial. Without `live`, reports of progress and of every change between folds are left out."""
        name = self._models[self.n_trials % len(self._models)].name
        number, level = self._rows[name].trials, self._levels[name]
        scores = [level + self._random.gauss(0.002 * number, 0.01) for _ in range(FOLDS)]
        fits: list[dict[str, Any]] = [
            {"fit": f"{name}-{number}-{fold}", "model": name, "trial": number, "fold": fold} for fold in range(FOLDS)
        ]
        for first in range(0, FOLDS, WORKERS):
            at_once = fits[first : first + WORKERS]
            for fit in at_once:
                yield ev.FitStarted(**fit, folds=FOLDS, pid=1, seconds=4.0, reason="its model has had the least time")
            if live:
                self._rows[name] = msgspec.structs.replace(self._rows[name], activity=f"trial {number}")
                yield _planned(name, number, first + WORKERS)
                yield self._leaderboard()
                for step in range(1, STEPS + 1):
                    for fit in at_once:
                        value = level - 0.2 / step + self._random.gauss(0, 0.002)
                        yield ev.FitProgress(**fit, step=10 * step, value=value)
                yield ev.Resources(cpu_percent=180.0, memory=2 << 30, memory_total=24 << 30)
            for fit in at_once:
                yield ev.FitFinished(**fit, score=scores[fit["fold"]], seconds=4.0)
        yield from self._end_of_trial(name, number, statistics.fmean(scores))

    def _end_of_trial(self, name: str, number: int, score: float) -> Iterator[ev.Event]:
        params = {"learning_rate": 10 ** self._random.uniform(-3, -1), "max_depth": self._random.randint(3, 10)}
        yield ev.TrialFinished(model=name, trial=number, score=score, seconds=30.0, params=params)
        row = msgspec.structs.replace(self._rows[name], trials=number + 1, status="ok", activity="")
        if row.score is None or score > row.score:
            row = msgspec.structs.replace(row, trial=number, params=params, fit_seconds=30.0, predict_ms_per_1k=3.0)
            row = msgspec.structs.replace(row, **_scored(score))
        self._rows[name] = row
        self.n_trials += 1
        yield self._ensemble()
        yield self._leaderboard()

    def _best(self) -> list[ev.LeaderboardRow]:
        return sorted((row for row in self._rows.values() if row.score is not None), key=lambda row: -(row.score or 0))

    def _ensemble(self) -> ev.EnsembleChanged:
        rows = self._best()[:MEMBERS]
        members = [ev.EnsembleMember(model=row.model, trial=row.trial or 0, weight=1 / len(rows)) for row in rows]
        return ev.EnsembleChanged(members=tuple(members), **_scored(_together(rows)))

    def _leaderboard(self) -> ev.LeaderboardChanged:
        best = self._best()
        members = {row.model for row in best[:MEMBERS]}
        rows = [
            msgspec.structs.replace(row, rank=rank, in_ensemble=(row.model in members) / MEMBERS)
            for rank, row in enumerate(best, start=2)
        ]
        if best:
            ensemble = ev.LeaderboardRow(rank=1, model=ev.ENSEMBLE, title="Ensemble", family="ensemble", status="ok")
            rows.insert(0, msgspec.structs.replace(ensemble, **_scored(_together(best))))
        return ev.LeaderboardChanged(rows=(*rows, *(row for row in self._rows.values() if row.score is None)))


def _together(best: Sequence[ev.LeaderboardRow]) -> float:
    """The score of an ensemble of some models, best first."""
    return (best[0].score or 0.0) + 0.003


def _scored(score: float) -> dict[str, Any]:
    """A score on all folds with its interval."""
    return {"score": score, "low": score - 0.02, "high": score + 0.02, "folds": FOLDS}


def _planned(name: str, trial: int, fold: int) -> ev.FitsPlanned:
    fits = [
        ev.PlannedFit(model=name, trial=trial, fold=each, folds=FOLDS, seconds=4.0, reason="its folds are open")
        for each in range(fold, min(fold + 3, FOLDS))
    ]
    return ev.FitsPlanned(next=tuple(fits))


class Writer:
    """Appends events to a run folder with their numbers and times."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._seq = folder, 0

    def write(self, events: Sequence[ev.Event], t: float) -> None:
        """Append events at once, with the same time."""
        lines: list[bytes] = []
        for event in events:
            self._seq += 1
            lines.append(encode(msgspec.structs.replace(event, seq=self._seq, t=t)))
        with self._folder.events.open("ab") as file:
            file.write(b"".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new run folder")
    parser.add_argument("--models", type=int, required=True)
    parser.add_argument("--trials", type=int, required=True, help="finished trials of all models together")
    parser.add_argument("--rate", type=float, required=True, help="events a second after these")
    options = parser.parse_args()
    folder, run, parent = RunFolder(options.folder), SyntheticRun(options.models), os.getppid()
    writer = Writer(folder)
    with folder.lock():
        begin = time.time() - SECONDS_PER_TRIAL * options.trials
        writer.write(run.start(), begin)
        for number in range(options.trials):
            writer.write(list(run.trial(live=False)), begin + SECONDS_PER_TRIAL * (number + 1))
        print("written", flush=True)
        due = time.monotonic()
        while os.getppid() == parent:
            for event in run.trial(live=True):
                writer.write([event], time.time())
                due += 1 / options.rate
                time.sleep(max(0.0, due - time.monotonic()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
