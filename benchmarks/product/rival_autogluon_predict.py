"""Predictions of AutoGluon, for `predicting`: run by the interpreter of an environment that has AutoGluon, not tabapp.

PYTHON benchmarks/product/rival_autogluon_predict.py train TRAIN.csv TARGET TASK METRIC SECONDS PRESET FOLDER
PYTHON benchmarks/product/rival_autogluon_predict.py cold FOLDER ROWS.csv OUT.csv
PYTHON benchmarks/product/rival_autogluon_predict.py warm FOLDER ROWS.csv N REPEATS

`warm` prints the seconds of each prediction and the mean processor seconds of one, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import pandas as pd
from autogluon.tabular import TabularPredictor

METRICS = {"roc_auc": "roc_auc", "log_loss": "log_loss", "rmse": "root_mean_squared_error"}


def train(path: str, target: str, task: str, metric: str, seconds: str, preset: str, folder: str) -> None:
    table = pd.read_csv(path)
    if task != "regression":
        table[target] = table[target].astype(str)
    predictor = TabularPredictor(label=target, problem_type=task, eval_metric=METRICS[metric], path=folder, verbosity=1)
    predictor.fit(table, time_limit=float(seconds), presets=preset)


def predicted(predictor: TabularPredictor, rows: pd.DataFrame) -> pd.DataFrame:
    if predictor.problem_type == "regression":
        return predictor.predict(rows).to_frame("prediction")
    return predictor.predict_proba(rows)


def cold(folder: str, path: str, out: str) -> None:
    predicted(TabularPredictor.load(folder), pd.read_csv(path)).to_csv(out, index=False)


def warm(folder: str, path: str, n_rows: str, repeats: str) -> None:
    predictor, rows = TabularPredictor.load(folder), pd.read_csv(path).head(int(n_rows))
    predictor.persist()
    predicted(predictor, rows)
    seconds: list[float] = []
    before = time.process_time()
    for _ in range(int(repeats)):
        began = time.perf_counter()
        predicted(predictor, rows)
        seconds.append(time.perf_counter() - began)
    print(json.dumps([seconds, (time.process_time() - before) / int(repeats)]))


if __name__ == "__main__":
    {"train": train, "cold": cold, "warm": warm}[sys.argv[1]](*sys.argv[2:])
