"""Public tables of the judge, cut to at most 1,000 training rows.

Tables of a class target keep their ten most frequent classes, without those of fewer than 1 % of the rows or fewer than
`FEWEST_OF_CLASS` rows. Tables of a numeric target become tables of two classes, below or above the median. All systems get the
same numbers: numeric columns, codes of categories, NaN where a cell is missing or its category does not occur in the training
rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

MOST_TRAINING_ROWS, MOST_TEST_ROWS = 1_000, 2_000
MOST_CLASSES, FEWEST_OF_CLASS, SMALLEST_SHARE = 10, 8, 0.01
LEFT_OUT = {"sms_spam", "motorcycle_claims", "california_sklearn", "soybean"}
"""Free text, a target that is zero in 99 % of the rows, a second copy of a table, and one that takes CatBoost seven minutes."""
BUNDLED = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
MISSING = ["", "?", "NA", "NULL", "nan", "NaN"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class JudgeTable:
    """A whole table.

    Attributes:
        numeric: numeric columns by name, with NaN for missing cells.
        text: categorical columns by name, with None for missing cells.
        labels: (rows,) class of each row, from 0.
        from_numbers: whether the classes are halves of a numeric target.
    """

    name: str
    numeric: dict[str, Floats]
    text: dict[str, list[str | None]]
    labels: Codes
    from_numbers: bool


@dataclass(frozen=True)
class Draw:
    """Training and test rows of one draw of a table.

    Attributes:
        train, test: (rows, columns) numbers and codes of categories, NaN for missing cells.
        categorical: (columns,) whether a column holds codes.
        train_labels, test_labels: (rows,) classes from 0; every class occurs in both.
    """

    train: Floats
    test: Floats
    categorical: NDArray[np.bool_]
    train_labels: Codes
    test_labels: Codes

    @property
    def n_classes(self) -> int:
        return int(self.train_labels.max()) + 1


def read_tables(folder: Path, names: list[str] | None = None) -> list[JudgeTable]:
    """The tables of a folder with `datasets.json`, and those that scikit-learn bundles, by name."""
    entries = json.loads((folder / "datasets.json").read_text())
    tables = [
        _table_of(folder, entry) for entry in entries if entry["name"] not in LEFT_OUT and _wanted(entry["name"], names)
    ]
    tables += [_bundled(name) for name in BUNDLED if _wanted(name, names)]
    return sorted(tables, key=lambda table: table.name)


def draw_of(table: JudgeTable, draw: int) -> Draw:
    """A stratified draw of the rows: at most two thirds, and at most 1,000, for training."""
    n_rows = len(table.labels)
    n_train = min(MOST_TRAINING_ROWS, n_rows * 2 // 3)
    n_test = min(MOST_TEST_ROWS, n_rows - n_train)
    train, test = train_test_split(
        np.arange(n_rows), train_size=n_train, test_size=n_test, random_state=draw, stratify=table.labels
    )
    columns = [(values[train], values[test]) for values in table.numeric.values()]
    columns += [_coded(values, train, test) for values in table.text.values()]
    # A column without a value in the training rows has no information.
    kept = [not np.isnan(column[0]).all() for column in columns]
    categorical = np.array([False] * len(table.numeric) + [True] * len(table.text))
    return Draw(
        train=np.stack([column[0] for column, keep in zip(columns, kept, strict=True) if keep], axis=1),
        test=np.stack([column[1] for column, keep in zip(columns, kept, strict=True) if keep], axis=1),
        categorical=categorical[kept],
        train_labels=table.labels[train],
        test_labels=table.labels[test],
    )


def macro_auc(labels: Codes, probabilities: Floats) -> float:
    """Mean ROC AUC of each class against the others; that of the second class for two classes. Ties count as half."""
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    return float(np.mean([_auc(labels == c, probabilities[:, c]) for c in classes]))


def _auc(positive: NDArray[np.bool_], scores: Floats) -> float:
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    ranks = rankdata(scores)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(ranks / (n_positive * (len(positive) - n_positive)))


def _wanted(name: str, names: list[str] | None) -> bool:
    return names is None or name in names


def _table_of(folder: Path, entry: dict[str, Any]) -> JudgeTable:
    encoding = "utf8-lossy"
    frame = pl.read_csv(folder / entry["file"], separator=entry["separator"], infer_schema=False, encoding=encoding)
    frame = frame.drop(entry["leak_or_id_columns"]).with_columns(pl.all().str.strip_chars())
    frame = frame.with_columns(pl.all().replace(dict.fromkeys(MISSING)))
    frame = frame.filter(pl.col(entry["target"]).is_not_null())
    target = frame[entry["target"]]
    from_numbers = entry["task"] == "regression"
    if from_numbers:
        values = target.cast(pl.Float64)
        target = (values > values.median()).cast(pl.String)
    return _of_frame(entry["name"], frame.drop(entry["target"]), target, from_numbers)


def _bundled(name: str) -> JudgeTable:
    data = BUNDLED[name]()
    frame = pl.DataFrame(data.data, schema=[f"x{i}" for i in range(data.data.shape[1])]).cast(pl.String)
    return _of_frame(name, frame, pl.Series(data.target).cast(pl.String), False)


def _of_frame(name: str, frame: pl.DataFrame, target: pl.Series, from_numbers: bool) -> JudgeTable:
    fewest = max(FEWEST_OF_CLASS, target.len() * SMALLEST_SHARE)
    counts = target.value_counts(sort=True).filter(pl.col("count") >= fewest).head(MOST_CLASSES)
    classes = sorted(counts[target.name])
    kept = target.is_in(classes)
    frame, target = frame.filter(kept), target.filter(kept)
    numbers = frame.select(pl.all().cast(pl.Float64, strict=False))
    is_numeric = [numbers[c].null_count() == frame[c].null_count() for c in frame.columns]
    return JudgeTable(
        name=name,
        numeric={
            c: numbers[c].fill_null(float("nan")).to_numpy()
            for c, yes in zip(frame.columns, is_numeric, strict=True)
            if yes
        },
        text={c: frame[c].to_list() for c, yes in zip(frame.columns, is_numeric, strict=True) if not yes},
        labels=target.replace_strict(classes, list(range(len(classes)))).cast(pl.Int64).to_numpy(),
        from_numbers=from_numbers,
    )


def _coded(values: list[str | None], train: Codes, test: Codes) -> tuple[Floats, Floats]:
    levels = sorted({values[i] for i in train if values[i] is not None})  # pyright: ignore[reportArgumentType]
    codes: dict[str | None, float] = {level: float(code) for code, level in enumerate(levels)}
    return tuple(np.array([codes.get(values[i], np.nan) for i in rows]) for rows in (train, test))  # pyright: ignore
