"""Whether printed scores, probabilities and prediction intervals hold on unseen rows, from what `rivals --keep` wrote.

python -m benchmarks.product.honesty KEPT... [--data FOLDER] [--out FILE.json]

KEPT is the folder of --keep of a `benchmarks.product.rivals` run. Each line is a table and a draw:

- "printed" is the cross-validated score in the bundle, "unseen" the score of the test rows, and "difference" what the second is
  better, in standard errors of both together; each standard error is a quarter of the width of a 95 % bootstrap interval.
- "calibration" is the expected calibration error of the test rows in 10 bins (Naeini, Cooper, Hauskrecht, AAAI 2015), of the
  positive class or of the most probable class, of tabapp and of the other system. "by chance" is the mean error that tabapp's
  probabilities would show if they were exact, over 200 simulated draws of the test rows' outcomes.
- "coverage" is the share of test rows within the 90 % prediction intervals, and "width" their mean width over that of intervals
  that have the same width everywhere.

The last lines say how many differences are within 1.96, their mean, how many calibration errors are not above the other system's,
how many of each system are below the 95th percentile of those that exact probabilities would show, and the means of coverage and
width.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.rivals import METRICS, split
from tabapp import metrics
from tabapp.bundle.prediction.intervals import residual_quantile
from tabapp.explain.evaluation import calibration
from tabapp.run.record.state import format_score

T = TypeVar("T")
FOLDER = re.compile(r"(?P<table>.+)-tabapp-(?P<draw>\d+)")
SIMULATED = 200
HEADER = (
    "table", "draw", "metric", "printed", "unseen", "difference", "calibration", "of the other", "by chance",
    "coverage", "width",
)  # fmt: skip


@dataclass(frozen=True)
class Honesty:
    """What a run promised and what its test rows showed; None where the task has no such value."""

    table: str
    draw: int
    metric: str
    printed: float
    unseen: float
    difference: float
    calibration: float | None = None
    calibration_of_other: float | None = None
    calibration_by_chance: float | None = None
    calibrated: bool | None = None
    other_calibrated: bool | None = None
    coverage: float | None = None
    width: float | None = None


def kept_runs(kept: Sequence[Path]) -> dict[tuple[str, int], Path]:
    """The folders of tabapp's complete runs by table and draw, in this order; of two runs of the same draw, the later one."""
    found: dict[tuple[str, int], Path] = {}
    for folder in (path for place in kept for path in place.iterdir()):
        match = FOLDER.fullmatch(folder.name)
        if match is not None and (folder / "out.csv").is_file():
            found[match["table"], int(match["draw"])] = folder
    return dict(sorted(found.items()))


def probabilities(file: Path, classes: Sequence[str]) -> np.ndarray[Any, Any]:
    """(rows, classes) of a file of predictions, whose columns are classes with or without a prefix."""
    predictions = pl.read_csv(file, infer_schema_length=None)
    columns = {name.removeprefix("probability_").strip(): name for name in predictions.columns}
    return predictions.select(columns[label] for label in classes).to_numpy()


@dataclass(frozen=True)
class Calibration:
    """Expected calibration error of a system's test rows, and the errors of exact probabilities: their mean, 95th percentile."""

    error: float
    by_chance: float
    limit: float


def calibration_of(codes: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Calibration:
    """Calibration of the second class of two, else of the most probable class; codes (rows,), values (rows, classes)."""
    if values.shape[1] == 2:
        happened, probability = codes == 1, values[:, 1]
    else:
        happened, probability = values.argmax(axis=1) == codes, values.max(axis=1)
    random = np.random.default_rng(0)
    simulated = [calibration(random.random(len(probability)) < probability, probability)[1] for _ in range(SIMULATED)]
    return Calibration(
        calibration(happened, probability)[1], float(np.mean(simulated)), float(np.quantile(simulated, 0.95))
    )


def constant_half_width(run: Path) -> float:
    """Half-width of 90 % intervals that have the same width everywhere, from the out-of-fold predictions of a run."""
    with np.load(run / "ensemble.npz") as ensemble, np.load(run / "splits.npz") as splits:
        return residual_quantile(splits["target"][ensemble["rows"]], ensemble["prediction"])


def measure(folder: Path, table: str, draw: int, entry: dict[str, Any], data: Path) -> Honesty:
    """Compare what a kept run printed with its test rows."""
    rows = pl.read_csv(data / entry["file"], separator=entry["separator"], infer_schema=False)
    _, test = split(rows.drop(entry["leak_or_id_columns"]), entry["target"], entry["task"], draw)
    name, values = METRICS[entry["task"]], test[entry["target"]]
    with zipfile.ZipFile(folder / "b.tabapp") as bundle:
        printed = json.loads(bundle.read("manifest.json"))["metrics"][0]
    others: dict[str, Any] = {}
    if entry["task"] == "regression":
        truth = values.cast(pl.Float64).to_numpy()
        predictions = pl.read_csv(folder / "out.csv")
        low, high = predictions["low"].to_numpy(), predictions["high"].to_numpy()
        predicted = predictions["prediction"].to_numpy()
        (run,) = (path for path in (folder / "runs").iterdir() if (path / "run.json").is_file())
        others["coverage"] = float(np.mean((low <= truth) & (truth <= high)))
        others["width"] = float(np.mean(high - low)) / (2 * constant_half_width(run))
    else:
        labels = values.cast(pl.String).str.strip_chars()
        classes = sorted(labels.unique())
        truth = labels.replace_strict(classes, list(range(len(classes)))).to_numpy()
        predicted = probabilities(folder / "out.csv", classes)
        own = calibration_of(truth, predicted)
        others |= {
            "calibration": own.error,
            "calibration_by_chance": own.by_chance,
            "calibrated": own.error <= own.limit,
        }
        rivals = [path for path in folder.parent.glob(f"{table}-autogluon*-{draw}") if (path / "out.csv").is_file()]
        if rivals:
            other = calibration_of(truth, probabilities(rivals[0] / "out.csv", classes))
            others |= {"calibration_of_other": other.error, "other_calibrated": other.error <= other.limit}
    unseen = metrics.score(name, truth, predicted)
    low, high = metrics.interval(name, truth, predicted, seed=0)
    error = math.hypot(high - low, printed["high"] - printed["low"]) / (2 * metrics.Z95)
    sign = 1 if metrics.get(name).greater_is_better else -1
    difference = sign * (unseen - printed["score"]) / error
    return Honesty(table, draw, name, printed["score"], unseen, difference, **others)


def cells(found: Honesty) -> list[str]:
    """A row of the table."""
    shown = [f"{found.difference:+.2f}"]
    calibrations = (found.calibration, found.calibration_of_other, found.calibration_by_chance)
    for value in (*calibrations, found.coverage, found.width):
        shown.append("—" if value is None else f"{value:.3f}")
    return [found.table, str(found.draw), found.metric, format_score(found.printed), format_score(found.unseen), *shown]


def summary(found: Sequence[Honesty]) -> list[tuple[str, str]]:
    """The last lines: what is summed up, and its value."""
    differences = np.array([each.difference for each in found])
    within = int(np.sum(np.abs(differences) <= metrics.Z95))
    lines = [("differences within 1.96", f"{within} of {len(found)} ({within / len(found):.0%})")]
    error = f" ± {np.std(differences, ddof=1) / math.sqrt(len(found)):.2f}" if len(found) > 1 else ""
    lines.append(("mean difference, with its standard error", f"{differences.mean():+.2f}{error}"))
    pairs = [
        (each.calibration, each.calibration_of_other)
        for each in found
        if each.calibration is not None and each.calibration_of_other is not None
    ]
    if pairs:
        better = sum(own <= other for own, other in pairs)
        lines.append(
            ("calibration error not above the other's", f"{better} of {len(pairs)} ({better / len(pairs):.0%})")
        )
    for system, verdicts in (
        ("tabapp's", [each.calibrated for each in found]),
        ("the other's", [each.other_calibrated for each in found]),
    ):
        judged = [verdict for verdict in verdicts if verdict is not None]
        if judged:
            share = f"{sum(judged)} of {len(judged)} ({sum(judged) / len(judged):.0%})"
            lines.append((f"{system} calibration errors below the 95th percentile of chance", share))
    widths = [(each.coverage, each.width) for each in found if each.coverage is not None and each.width is not None]
    if widths:
        coverage, width = np.mean(widths, axis=0)
        lines.append(("mean coverage of 90 % intervals", f"{coverage:.3f}"))
        lines.append(("mean width over that of constant intervals", f"{width:.3f}"))
    return lines


def measured_runs(
    description: str | None,
    out: str,
    measure: Callable[[Path, str, int, dict[str, Any], Path], T],
    tasks: Collection[str] = tuple(METRICS),
) -> tuple[list[T], Path]:
    """Parse the command line, measure each kept run of these tasks, and return the results and the file for them.

    Args:
        description: of the command.
        out: default name of the file.
        measure: of the folder of a run, its table and draw, the table's entry in `datasets.json`, and the folder of the tables.

    Raises:
        SystemExit: with 0 if the tables are not there, with 1 if there is no such run.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, nargs="+", help="folders of benchmarks.product.rivals --keep")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / out)
    options = parser.parse_args()
    listing = options.data / "datasets.json"
    if not listing.is_file():
        print(f"{listing} is not there; name the folder of the tables with --data or TABAPP_DATA.", file=sys.stderr)
        sys.exit(0)
    known = {entry["name"]: entry for entry in json.loads(listing.read_text())}
    measured = [
        measure(folder, table, draw, known[table], options.data)
        for (table, draw), folder in kept_runs(options.kept).items()
        if known[table]["task"] in tasks
    ]
    if not measured:
        sys.exit(f"{options.kept[0]} has no kept run of tabapp ({', '.join(tasks)}).")
    return measured, options.out


def main() -> int:
    measured, out = measured_runs(__doc__, "honesty.json", measure)
    empty = [""] * (len(HEADER) - 2)
    rows = [*map(cells, measured), *([name, value, *empty] for name, value in summary(measured))]
    report(machine(), HEADER, rows, [asdict(each) for each in measured], out, right=range(3, len(HEADER)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
