"""Log loss and calibration error on unseen rows by how the probabilities of ensembles are calibrated.

python -m benchmarks.calibrating KEPT... [--data FOLDER] [--out FILE.json]

KEPT is the folder of --keep of a `benchmarks.rivals` run. Each line is a classification table and a draw. The blend of the run's
own ensemble is calibrated on out-of-fold rows by a temperature and by a scaling (`tabapp.ensemble.scaling`), of which a bundle has
the one with the lower log loss of out-of-fold rows that did not fit it:

- "gain, 1", "10" and "50" are how much lower the scaling makes the log loss of out-of-fold rows that did not fit it, in
  thousandths, by its penalty. The penalty was chosen by these, not by what follows.
- "temperature", "of the mean" and "scaling" are the log loss of the test rows with the temperature of single models, with that of
  the mean of the fold models, and with the scaling of the mean, over the log loss without calibration; "used" is that of a bundle.
- The last columns are the calibration error of the test rows with the temperature of the mean, of the bundle, and of the other
  system.

The last lines are means, and how many calibration errors are not above the other system's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.honesty import calibration_of, measured_runs, probabilities
from benchmarks.machine import machine, report
from benchmarks.rivals import split
from tabapp import metrics
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.prediction.local import LocalPredictor
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import encode_target, typed_frame
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.ensemble.greedy import blend
from tabapp.ensemble.scaling import fit_scaling, lowest_scaling, scaled
from tabapp.ensemble.temperature import fit_temperature, tempered
from tabapp.policy import POLICY
from tabapp.run.record.folder import RunFolder

PENALTIES = (1.0, 10.0, POLICY.scaling_penalty)
HEADER = (
    "table", "draw", *(f"gain, {penalty:g}" for penalty in PENALTIES), "temperature", "of the mean", "scaling", "used",
    "calibration", "of the bundle", "of the other",
)  # fmt: skip
LOSSES = ("temperature", "temperature_of_mean", "scaling", "used")
Array = np.ndarray[Any, Any]


def measure(folder: Path, table: str, draw: int, entry: dict[str, Any], data: Path) -> dict[str, Any]:
    """Calibrate the ensemble of a kept run on its out-of-fold rows, and score its test rows."""
    (place,) = (path for path in (folder / "runs").iterdir() if (path / "run.json").is_file())
    run = FinishedRun(RunFolder(place))
    scored, _ = run.scored
    rows = pl.read_csv(data / entry["file"], separator=entry["separator"], infer_schema=False)
    _, test = split(rows.drop(entry["leak_or_id_columns"]), entry["target"], entry["task"], draw)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "test.csv"
        test.write_csv(file)
        typed = typed_frame(read_table(file, ReadOptions(delimiter=",")).frame, run.data.schema)
    truth = encode_target(typed, run.data.schema)
    predictor = load_bundle(folder / "b.tabapp").predictor
    assert isinstance(predictor, LocalPredictor)
    mean = predictor.predict_batch(typed, lambda share: None)
    covered = run.scorer.out_of_fold(run.members[0][0])[1]
    own = [run.scorer.out_of_fold(candidate)[0][covered] for candidate, _ in run.members]
    blended = blend(own, np.array([weight for _, weight in run.members]))
    target, metric, seed = run.scorer.target[covered], run.plan.metric, run.plan.seed
    temperature = fit_temperature(blended, target, metric, seed=seed)
    factor = averaging_of_ensemble(run.folder, run.data, run.plan, run.members, scored).temperature

    def log_loss(values: Array) -> float:
        return metrics.score("log_loss", truth, values)

    gains = {
        f"{penalty:g}": metrics.score("log_loss", target, tempered(blended, temperature))
        - metrics.score(
            "log_loss",
            target,
            lowest_scaling(blended, target, temperature, seed=seed, policy=replace(POLICY, scaling_penalty=penalty))[1],
        )
        for penalty in PENALTIES
    }
    found = fit_scaling(blended, target, metric, temperature, seed=seed)
    scaling = lowest_scaling(blended, target, temperature, seed=seed)[0].of_mean(factor)
    of_mean = tempered(mean, (temperature or 1.0) * factor)
    used = of_mean if found is None else scaled(mean, scaling)
    values = (tempered(mean, temperature), of_mean, scaled(mean, scaling), used)
    base = log_loss(mean)
    rivals = [path for path in folder.parent.glob(f"{table}-autogluon*-{draw}") if (path / "out.csv").is_file()]
    others = [calibration_of(truth, probabilities(path / "out.csv", run.data.schema.classes)).error for path in rivals]
    return {
        "table": table,
        "draw": draw,
        "temperature": temperature,
        "factor": factor,
        "has_scaling": found is not None,
        "gains": gains,
        "log_losses": {name: log_loss(each) / base for name, each in zip(LOSSES, values, strict=True)},
        "log_loss": log_loss(used),
        "calibrations": [calibration_of(truth, each).error for each in (of_mean, used)],
        "calibration_of_other": others[0] if others else None,
    }


def cells(found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    gains = [f"{1000 * gain:+.2f}" for gain in found["gains"].values()]
    losses = [f"{loss:.4f}" for loss in found["log_losses"].values()]
    errors = [f"{error:.4f}" for error in found["calibrations"]]
    other = found["calibration_of_other"]
    return [found["table"], str(found["draw"]), *gains, *losses, *errors, "—" if other is None else f"{other:.4f}"]


def summary(found: list[dict[str, Any]]) -> list[list[str]]:
    """The last lines."""

    def mean(value: Callable[[dict[str, Any]], float]) -> float:
        return float(np.mean([value(each) for each in found]))

    gains = [f"{1000 * mean(lambda each, name=name: each['gains'][name]):+.2f}" for name in found[0]["gains"]]
    losses = [f"{np.exp(mean(lambda each, name=name: np.log(each['log_losses'][name]))):.4f}" for name in LOSSES]
    errors = [f"{mean(lambda each, place=place: each['calibrations'][place]):.4f}" for place in (0, 1)]
    compared = [each for each in found if each["calibration_of_other"] is not None]
    better = [sum(each["calibrations"][place] <= each["calibration_of_other"] for each in compared) for place in (0, 1)]
    counts = [f"{each} of {len(compared)}" for each in better]
    blank = [""] * (len(gains) + len(losses) + 1)
    return [["mean", "", *gains, *losses, *errors, ""], ["not above the other", *blank, *counts, ""]]


def main() -> int:
    measured, out = measured_runs(__doc__, "calibrating.json", measure, tasks=("binary", "multiclass"))
    rows = [*map(cells, measured), *summary(measured)]
    report(machine(), HEADER, rows, measured, out, right=range(2, len(HEADER)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
