"""Replay runs on recorded fits: what a scheduler would have predicted on the test rows after so many seconds.

python -m benchmarks.lab.replay [--budgets 60,120,300,600] [--workers 2] [--lab FOLDER] [--out FILE.json]

Fits take the processor seconds that they took when they were recorded, plus what a fit costs beside training. The order of fits is
that of `Scheduler`, `gain` and the selection of the ensemble are those of a run. For each budget, the table shows the error on
the test rows (the difference to a perfect score), the share of worker time in members of the ensemble and in candidates that are
never complete, and whether the printed interval and the test score agree: the difference of the out-of-fold and the test score in
standard errors of both together.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np

from benchmarks.lab.collect import LAB
from benchmarks.lab.library import Library, LibraryScorer, open_libraries
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Scorer, pilots_of
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.selection import Selected, select_ensemble
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.choices import Rule
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.moment import Setup
from tabapp.engine.schedule.rules import TIMED_RULES
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.work import Fold, Work
from tabapp.ensemble.blending import blend
from tabapp.models import registry
from tabapp.policy import POLICY, Policy

START_SECONDS = 3.5
"""From the command to the first fit."""
OVERHEAD_SECONDS = 0.25
"""Of a fit: to start its process, to read features, and to save the model."""


class RecordedCompetition(Competition):
    """A competition with as many trials of each model as are recorded."""

    def __init__(self, library: Library, loss: Callable[[Candidate], float]) -> None:
        super().__init__(library.metric, library.n_folds, trials=None, new_trial=self._recorded, loss=loss)
        self._library = library
        for name in library.models:
            known = library.expectations(name)
            record = ModelRecord.of(registry.get(name), known["prior"], known["merit"])
            self.add_model(replace(record, later_share=known.get("later_share", 1.0)))

    def _recorded(self, name: str) -> Candidate:
        n_pilots = pilots_of(registry.get(name), self.n_folds)
        return Candidate(name, len(self.of_model(name)), {}, self.n_folds, n_pilots)

    def has_trials_left(self, name: str) -> bool:
        return len(self.of_model(name)) < self._library.n_trials(name)


@dataclass
class Replay:
    """The result of a replayed run.

    Attributes:
        selected: the last ensemble.
        test_error: of its prediction of the test rows.
        spent: worker seconds by model and trial.
        history: (seconds, test error) after each selection.
    """

    selected: Selected
    test_error: float
    spent: dict[tuple[str, int], float]
    complete: set[tuple[str, int]]
    history: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def share_of_members(self) -> float:
        members = {candidate.key for candidate, _ in self.selected.members}
        return sum(s for key, s in self.spent.items() if key in members) / sum(self.spent.values())

    def share_nowhere(self) -> float:
        return sum(s for key, s in self.spent.items() if key not in self.complete) / sum(self.spent.values())


def blended(library: Library, selected: Selected) -> Any:
    """An ensemble's prediction of the test rows."""
    tests = [library.predictions(candidate.key)[1] for candidate, _ in selected.members]
    return blend(tests, np.array([weight for _, weight in selected.members]))


def replay(
    library: Library, budget: float, workers: int, policy: Policy = POLICY, rules: tuple[Rule, ...] = TIMED_RULES
) -> Replay | None:
    """Run the recorded fits in simulated time; None if no fit ends in time."""
    scorer = cast(Scorer, LibraryScorer(library))
    plan = cast(Plan, SimpleNamespace(metric=library.metric, seed=0, models=()))
    clock = Clock(budget, 0.0)
    assert clock.fitting_end is not None
    assert clock.end is not None
    end = budget - (clock.end - clock.fitting_end)
    competition = RecordedCompetition(library, scorer.loss)
    board = Board(plan, competition, scorer, policy)
    scheduler = Scheduler(
        Setup(
            competition=competition,
            workers=lambda device: workers,
            tune=True,
            race=True,
            gain=board.gain,
            weights=board.weights,
            clearly_behind=scorer.clearly_behind,
            is_timed=True,
            policy=policy,
        ),
        rules,
    )
    now, running = START_SECONDS, list[tuple[float, Fold, Work]]()
    spent: dict[tuple[str, int], float] = {}
    began: dict[tuple[tuple[str, int], int], float] = {}
    history: list[tuple[float, float]] = []

    def select(*, is_final: bool = False) -> None:
        complete = [c for c in competition.candidates.values() if c.is_complete] or list(
            competition.candidates.values()
        )
        board.selected = select_ensemble(complete, scorer, library.metric, 0, is_final=is_final, policy=policy)
        board.n_selections += 1
        if board.selected is not None:
            history.append((now, library.test_error(blended(library, board.selected))))

    while True:
        while len(running) < workers:
            limit = scheduler.cap_share() * budget
            work = scheduler.next_work({fold for _, fold, _ in running}, end - now, limit)
            if work is None:
                break
            took = library.result(work.candidate.key, work.fold)
            # Networks plan their epochs for the time they get.
            is_network = competition.models[work.candidate.model].uses_device
            seconds = min(took.seconds, limit) if is_network else took.seconds
            until = now + OVERHEAD_SECONDS + seconds + took.predict_seconds
            heapq.heappush(running, (until, (*work.candidate.key, work.fold), work))
            began[work.candidate.key, work.fold] = now
        if not running:
            break
        until, (name, trial, fold), work = heapq.heappop(running)
        result = library.result((name, trial), fold)
        seconds = min(until, end) - began[(name, trial), fold]
        spent[name, trial] = spent.get((name, trial), 0.0) + seconds
        now = min(until, end)
        if until > end:
            continue
        candidate = work.candidate
        candidate.results[fold] = msgspec.structs.replace(result, seconds=seconds - OVERHEAD_SECONDS)
        competition.models[name].spent += seconds
        scheduler.record_times(OVERHEAD_SECONDS)
        if candidate.is_complete:
            candidate.status = "complete"
            select()
        elif candidate.status == "active" and scheduler.is_behind(candidate):
            candidate.status = "pruned"
    select(is_final=True)
    if board.selected is None:
        return None
    complete = {c.key for c in competition.candidates.values() if c.is_complete}
    return Replay(board.selected, history[-1][1], spent, complete, history)


def standard_errors(library: Library, found: Replay) -> float:
    """The difference of the out-of-fold and the test score in standard errors of both together."""
    low, high = metrics.interval(library.metric, library.test_target, blended(library, found.selected), None, seed=0)
    printed, test = (
        found.selected.score,
        metrics.score(library.metric, library.test_target, blended(library, found.selected)),
    )
    both = np.hypot((printed.high - printed.low) / 3.92, (high - low) / 3.92)
    better = 1.0 if metrics.get(library.metric).greater_is_better else -1.0
    return float(better * (printed.value - test) / both) if both else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="60,120,300,600")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lab", type=Path, default=LAB)
    parser.add_argument("--out", type=Path, default=RESULTS / "lab_replay.json")
    options = parser.parse_args()
    budgets = [float(budget) for budget in options.budgets.split(",")]
    rows: list[list[str]] = []
    results: dict[str, dict[str, float]] = {}
    for library in open_libraries(options.lab):
        if not library.models:
            continue
        cells = [library.place.name, library.metric]
        for budget in budgets:
            found = replay(library, budget, options.workers)
            if found is None:
                cells += ["—"] * 4
                continue
            gap = standard_errors(library, found)
            values = {
                "test_error": found.test_error,
                "members": found.share_of_members(),
                "nowhere": found.share_nowhere(),
                "gap": gap,
            }
            results[f"{library.place.name}|{budget:g}"] = values
            cells += [f"{found.test_error:.5g}", f"{values['members']:.0%}", f"{values['nowhere']:.0%}", f"{gap:+.1f}"]
        rows.append(cells)
        print("  ".join(cells), file=sys.stderr, flush=True)
    header = ["table", "metric"]
    for budget in budgets:
        header += [f"error at {budget:g} s", "members", "nowhere", "gap"]
    facts = {**machine(), "workers": options.workers}
    report(facts, header, rows, results, options.out, right=tuple(range(2, len(header))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
