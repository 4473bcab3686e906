"""Where the time of the workers went: the share of fits that count in the final ensemble, from the events of finished runs.

python -m benchmarks.product.worker_time RUN... [--out FILE.json]

RUN is a run folder or its events.jsonl. The time of a fit lasts from its start to its end, or to the end of fitting if it was
stopped there. It belongs to one of three classes, by its candidate (a trial of a model): "weight" if the final ensemble gives the
candidate a weight, "complete" if it has all folds and no weight, and "nowhere" if it never got all folds and the ensemble does not
use it. The shares are of the time of all fits; "idle" is the share of the fitting time of all workers in which no fit ran. The last
line has the means over the runs. A single run of what `benchmarks.product.rivals --keep` wrote has the name of its folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.machine import RESULTS, machine, report
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader

CLASSES = ("weight", "complete", "nowhere")
COLUMNS = (*CLASSES, "first_folds", "idle")

Key = tuple[str, int]


class WorkerTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the workers of a run.

    Attributes:
        weight, complete, nowhere: seconds of fits by class of their candidate.
        first_folds: seconds of the fits on the first fold that are part of `nowhere`.
        available: seconds of fitting times the number of workers.
        n_fits, n_members: started fits, and members of the final ensemble.
    """

    weight: float
    complete: float
    nowhere: float
    first_folds: float
    available: float
    n_fits: int
    n_members: int

    @property
    def shares(self) -> dict[str, float]:
        """Share of each class in the time of all fits, and of idle time in the available time."""
        busy = self.weight + self.complete + self.nowhere
        shares = {name: getattr(self, name) / busy if busy else 0.0 for name in (*CLASSES, "first_folds")}
        return {**shares, "idle": 1 - busy / self.available if self.available else 0.0}


@dataclass
class Ledger:
    """The fits of a run, added up while its events are read.

    Attributes:
        available: seconds of fitting times the number of workers.
        fits: candidate, fold and seconds of each fit that has ended or was stopped.
        done: complete folds by candidate.
        members: the last ensemble.
    """

    workers: int = 0
    n_folds: int = 0
    available: float = 0.0
    fitting_since: float | None = None
    running: dict[str, tuple[ev.FitStarted, float]] = field(default_factory=dict[str, tuple[ev.FitStarted, float]])
    fits: list[tuple[Key, int, float]] = field(default_factory=list[tuple[Key, int, float]])
    done: dict[Key, set[int]] = field(default_factory=dict[Key, set[int]])
    members: set[Key] = field(default_factory=set[Key])

    def end(self, fit: str, t: float) -> None:
        """A fit ended at a time."""
        started, since = self.running.pop(fit, (None, 0.0))
        if started is not None:
            self.fits.append(((started.model, started.trial), started.fold, t - since))

    def end_fitting(self, t: float) -> None:
        """The session stopped fitting at a time, with all fits that were running."""
        for fit in list(self.running):
            self.end(fit, t)
        if self.fitting_since is not None:
            self.available += self.workers * (t - self.fitting_since)
        self.fitting_since = None


def worker_time(events: Iterable[ev.AnyEvent]) -> WorkerTime:
    """The seconds of a run by class.

    Raises:
        ValueError: the run has no plan, or has not finished fitting.
    """
    ledger = ledger_of(events)
    totals = dict.fromkeys((*CLASSES, "first_folds"), 0.0)
    for key, fold, seconds in ledger.fits:
        complete = len(ledger.done.get(key, ())) == ledger.n_folds
        name = "weight" if key in ledger.members else "complete" if complete else "nowhere"
        totals[name] += seconds
        totals["first_folds"] += seconds if name == "nowhere" and fold == 0 else 0.0
    return WorkerTime(**totals, available=ledger.available, n_fits=len(ledger.fits), n_members=len(ledger.members))


def ledger_of(events: Iterable[ev.AnyEvent]) -> Ledger:
    """Add up the fits of a run.

    Raises:
        ValueError: the run has no plan, or has not finished fitting.
    """
    ledger, t = Ledger(), 0.0
    for event in events:
        match event:
            case ev.RunStarted():
                # The last session was killed.
                ledger.end_fitting(t)
            case ev.PlanMade():
                ledger.workers, ledger.n_folds = event.workers, event.folds
            case ev.StageChanged(stage="fitting") if ledger.fitting_since is None:
                ledger.fitting_since = event.t
            case ev.StageChanged(stage="ensembling"):
                ledger.end_fitting(event.t)
            case ev.FitStarted():
                ledger.running[event.fit] = event, event.t
            case ev.FitFinished():
                ledger.end(event.fit, event.t)
                ledger.done.setdefault((event.model, event.trial), set()).add(event.fold)
            case ev.FitFailed():
                ledger.end(event.fit, event.t)
            case ev.TrialPruned():
                # A fit that is pruned while it runs has no event of its own.
                key = event.model, event.trial
                for fit in [fit for fit, (fs, _) in ledger.running.items() if (fs.model, fs.trial) == key]:
                    ledger.end(fit, event.t)
            case ev.EnsembleChanged():
                ledger.members = {(member.model, member.trial) for member in event.members}
            case _:
                pass
        t = event.t
    if not ledger.workers or not ledger.available:
        raise ValueError("The run has no plan, or has not finished fitting.")
    return ledger


def read(run: Path) -> WorkerTime:
    """The worker time of a run folder, or of an event file.

    Raises:
        ValueError: as `worker_time`, with the name of the run.
        OSError: there is no such run.
    """
    path = run / "events.jsonl" if run.is_dir() else run
    path.stat()
    try:
        return worker_time(EventReader(path).read_new())
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from None


def mean_shares(times: Sequence[WorkerTime]) -> dict[str, float]:
    """Means of the shares over runs, each run with equal weight."""
    return {name: sum(time.shares[name] for time in times) / len(times) for name in COLUMNS}


def names_of(runs: Sequence[Path]) -> list[str]:
    """A name for each run: of NAME/runs/ID the first part, if it is the only run with that name, or else its path."""
    names = [run.parent.parent.name if run.parent.name == "runs" else "" for run in runs]
    return [name if name and names.count(name) == 1 else str(run) for run, name in zip(runs, names, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=RESULTS / "worker_time.json")
    options = parser.parse_args()
    try:
        times = dict(zip(names_of(options.runs), map(read, options.runs), strict=True))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    mean = mean_shares(list(times.values()))
    rows = [
        [run, *(f"{time.shares[name]:.0%}" for name in COLUMNS), str(time.n_fits), str(time.n_members)]
        for run, time in times.items()
    ]
    rows.append(["mean", *(f"{mean[name]:.0%}" for name in COLUMNS), "", ""])
    results = {
        "runs": {run: {**msgspec.to_builtins(time), "shares": time.shares} for run, time in times.items()},
        "mean": mean,
    }
    header = ["run", "weight", "complete", "nowhere", "first folds of these", "idle", "fits", "members"]
    report(machine(), header, rows, results, options.out, right=tuple(range(1, len(header))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
