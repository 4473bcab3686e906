"""What each model takes and gives, over finished runs: how often it starts, its time, its weight, and the error without it.

python -m benchmarks.lab.model_value RUN... [--out FILE.json]

RUN is a run folder with the out-of-fold predictions of its fits. "planned" is the number of runs that could start the model, and
"started" the share of these that did. "time" and "weight" are its mean shares of the worker time and of the weight of the final
ensemble in these runs. "without" is the error of the ensemble that is selected from the candidates of all other models over that of
the ensemble of all, out of fold: the geometric mean over the runs whose ensemble has the model, with its standard error. The models
that ensembles lose most without come first.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.worker_time import ledger_of
from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.selection import select_ensemble
from tabapp.run.record.folder import EventReader, RunFolder


@dataclass
class Value:
    """A model in several runs.

    Attributes:
        started: for each run that could start it, whether it did.
        time, weight: its shares of the worker time and of the ensemble in each of these runs.
        without: ratios of errors, of the runs whose ensemble has it.
    """

    started: list[bool] = field(default_factory=list[bool])
    time: list[float] = field(default_factory=list[float])
    weight: list[float] = field(default_factory=list[float])
    without: list[float] = field(default_factory=list[float])

    @property
    def mean_ratio(self) -> tuple[float, float]:
        """The geometric mean of the ratios with its standard error; NaN for fewer than one or two."""
        logs = np.log(self.without)
        error = logs.std(ddof=1) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        return float(np.exp(logs.mean())) if len(logs) else math.nan, float(error)


def error_of(run: FinishedRun, candidates: list[Candidate]) -> float:
    """The cross-fitted error of the ensemble of some candidates, out of fold; NaN without candidates."""
    selected = select_ensemble(candidates, run.scorer, run.plan.metric, run.plan.seed)
    if selected is None:
        return math.nan
    offset = 1.0 if metrics.get(run.plan.metric).greater_is_better else 0.0
    return offset + metrics.get(run.plan.metric).as_loss(selected.score.value)


def add_run(values: dict[str, Value], folder: RunFolder) -> None:
    """Add what the models of a run took and gave.

    Raises:
        ValueError: the run has not finished fitting.
        UsageError: the run has no ensemble.
    """
    run = FinishedRun(folder)
    fits = ledger_of(EventReader(folder.events).read_new()).fits
    total = sum(seconds for _, _, seconds in fits)
    complete = [candidate for candidate in run.candidates.values() if candidate.is_complete]
    error = error_of(run, complete)
    for name in (model.name for model in run.plan.models if model.reason is None):
        value = values.setdefault(name, Value())
        own = [seconds for (model, _), _, seconds in fits if model == name]
        value.started.append(bool(own))
        value.time.append(sum(own) / total if total else 0.0)
        value.weight.append(sum(weight for candidate, weight in run.members if candidate.model == name))
        if value.weight[-1] > 0:
            without = error_of(run, [candidate for candidate in complete if candidate.model != name])
            if without > 0 and error > 0:
                value.without.append(without / error)


def rows_of(values: dict[str, Value]) -> list[list[str]]:
    """The table, the models with the largest loss first."""

    def order(item: tuple[str, Value]) -> tuple[float, float, str]:
        ratio, _ = item[1].mean_ratio
        return -1.0 if math.isnan(ratio) else -ratio, -float(np.mean(item[1].weight)), item[0]

    rows: list[list[str]] = []
    for name, value in sorted(values.items(), key=order):
        shares = [f"{np.mean(each):.1%}" for each in (value.started, value.time, value.weight)]
        ratio, error = value.mean_ratio
        without = "—" if math.isnan(ratio) else f"{ratio:.3f}" + ("" if math.isnan(error) else f" ± {error:.3f}")
        rows.append([name, str(len(value.started)), *shares, str(len(value.without)), without])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=RESULTS / "model_value.json")
    options = parser.parse_args(arguments)
    values: dict[str, Value] = {}
    for path in options.runs:
        add_run(values, RunFolder(path))
    header = ["model", "planned", "started", "time", "weight", "in ensembles", "without"]
    results = {name: vars(value) for name, value in values.items()}
    report({**machine(), "runs": len(options.runs)}, header, rows_of(values), results, options.out, right=range(1, 7))
    return 0


if __name__ == "__main__":
    sys.exit(main())
