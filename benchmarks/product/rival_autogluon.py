"""One AutoGluon fit, for `benchmarks.product.rivals`: run by the interpreter of an environment that has AutoGluon, not tabapp.

PYTHON benchmarks/product/rival_autogluon.py TRAIN.csv TEST.csv TARGET TASK METRIC SECONDS PRESET OUT.csv

Trains on TRAIN for SECONDS as documented, predicts TEST and writes a row of predictions for each row: one column per class, named
after it, or `prediction`. A file `leaderboard.csv` beside it has the score of each of its models.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd
from autogluon.tabular import TabularPredictor

METRICS = {"roc_auc": "roc_auc", "log_loss": "log_loss", "rmse": "root_mean_squared_error"}


def main() -> None:
    train, test, target, task, metric, seconds, preset, out = sys.argv[1:]
    table, rows = pd.read_csv(train), pd.read_csv(test)
    if task != "regression":
        table[target] = table[target].astype(str)
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor(
            label=target, problem_type=task, eval_metric=METRICS[metric], path=folder, verbosity=1
        ).fit(table, time_limit=float(seconds), presets=preset)
        regression = task == "regression"
        predictions = predictor.predict(rows).to_frame("prediction") if regression else predictor.predict_proba(rows)
        predictions.to_csv(out, index=False)
        predictor.leaderboard(silent=True).to_csv(Path(out).with_name("leaderboard.csv"), index=False)


if __name__ == "__main__":
    main()
