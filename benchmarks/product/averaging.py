"""What the mean of fold models gains over single ones on unseen rows, beside the estimate that a run makes of it.

python -m benchmarks.product.averaging KEPT... [--data FOLDER] [--out FILE.json]

KEPT is the folder of --keep of a `benchmarks.product.rivals` run. Each line is a table and a draw: how much lower the squared error
or the Brier score is, as estimated on rows that two folds hold out (`tabapp.ensemble.averaging`) and on the test rows. The last
lines are means over the lines, and for each metric how much lower its error is, over what is estimated.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import machine, report
from benchmarks.product.honesty import measured_runs
from benchmarks.product.rivals import split, table_of_entry
from tabapp import metrics
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.prediction.local import LocalPredictor
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import encode_target, typed_frame
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.numbering import UsableRows
from tabapp.run.record.folder import RunFolder

MOST_ROWS = 3_000
HEADER = ("table", "draw", "estimated", "standard error", "on test rows")
Array = np.ndarray[Any, Any]


def fold_predictions(predictor: LocalPredictor, typed: pl.DataFrame) -> Array:
    """(folds, rows[, classes]): what the ensemble predicts with the models of each fold."""
    tables = {folder: preparer.transform(typed) for folder, preparer in predictor.preparers.items()}
    found: dict[int, Array] = {}
    for candidate in predictor.ensemble.candidates:
        for fold in candidate.folds:
            own = candidate.weight * predictor.models[fold.model].predict(tables[fold.features]).astype(np.float64)
            found[fold.fold] = found[fold.fold] + own if fold.fold in found else own
    return np.stack([found[fold] for fold in sorted(found)])


def error_of(metric: str, truth: Array, prediction: Array) -> float:
    """The error of a prediction: the score, or its difference to 1 if greater is better."""
    score = metrics.score(metric, truth, prediction)
    return 1.0 - score if metrics.get(metric).greater_is_better else score


def measure(folder: Path, table: str, draw: int, entry: dict[str, Any], data: Path) -> dict[str, Any]:
    """The estimate of a kept run, and what its test rows show."""
    (place,) = (path for path in (folder / "runs").iterdir() if (path / "run.json").is_file())
    run = FinishedRun(RunFolder(place))
    folds = sorted(run.members[0][0].results)
    scored = UsableRows.where(np.isin(run.data.fold, folds))
    estimated = averaging_of_ensemble(run.models, run.members, scored)
    assert estimated is not None
    _, test = split(table_of_entry(data, entry), entry["target"], entry["task"], draw)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "test.csv"
        test.sample(min(MOST_ROWS, test.height), seed=0).write_csv(file)
        typed = typed_frame(read_table(file, ReadOptions(delimiter=",")).frame, run.data.schema)
    truth = encode_target(typed, run.data.schema)
    predictor = load_bundle(folder / "b.tabapp", is_own=True).predictor
    assert isinstance(predictor, LocalPredictor)
    single = fold_predictions(predictor, typed)
    mean = single.mean(axis=0)
    hot = truth if mean.ndim == 1 else np.eye(mean.shape[1])[truth.astype(np.int64)]
    shares = {
        name: 1.0 - error_of(name, truth, mean) / float(np.mean([error_of(name, truth, each) for each in single]))
        for name in metrics.names_for(run.plan.task, first=run.plan.metric)
        if metrics.get(name).averaging_power is not None
    }
    return {
        "table": table,
        "draw": draw,
        "folds": len(single),
        "estimated": estimated.share,
        "standard_error": estimated.error,
        "measured": 1.0 - float(((mean - hot) ** 2).mean() / ((single - hot) ** 2).mean()),
        "of_metrics": shares,
    }


def cells(found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    return [
        found["table"],
        str(found["draw"]),
        f"{found['estimated']:.4f}",
        f"{found['standard_error']:.4f}",
        f"{found['measured']:.4f}",
    ]


def summary(found: list[dict[str, Any]]) -> list[list[str]]:
    """The last lines."""
    averaged = [each for each in found if each["folds"] > 1]
    means = [f"{np.mean([each[name] for each in averaged]):.4f}" for name in ("estimated", "measured")]
    lines = [["mean", "", means[0], "", means[1]]]
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in averaged:
        for name, share in each["of_metrics"].items():
            expected = 1.0 - (1.0 - each["estimated"]) ** (metrics.get(name).averaging_power or 0.0)
            if np.isfinite(share):
                ratios[name].append((share, expected))
    for name, pairs in ratios.items():
        measured, expected = np.mean(pairs, axis=0)
        lines.append([name, "", f"{expected:.4f}", "", f"{measured:.4f}"])
    return lines


def main() -> int:
    measured, out = measured_runs(__doc__, "averaging.json", measure)
    rows = [*map(cells, measured), *summary(measured)]
    report(machine(), HEADER, rows, measured, out, right=range(2, len(HEADER)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
