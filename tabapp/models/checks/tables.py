"""Generated tables, contexts and shapes for the plugin checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tabapp.features.arrays import FIRST_LEVEL, FeatureSpec, Table
from tabapp.metrics import default_metric
from tabapp.models.contract import FitContext, Shape
from tabapp.task import Task


def make_table(
    task: Task,
    *,
    n_rows: int = 240,
    n_numeric: int = 4,
    cardinalities: tuple[int, ...] = (5, 3),
    n_classes: int = 3,
    seed: int = 0,
) -> tuple[Table, FeatureSpec, int]:
    """Generate a table whose target depends on the first numeric and the first categorical column.

    Args:
        cardinalities: number of codes of each categorical column, including the two reserved ones.
        n_classes: classes of a multiclass target; ignored for other tasks.

    Returns:
        The table, its spec, and its number of classes (1 for regression).
    """
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n_rows, n_numeric)).astype(np.float32)
    codes = [generator.integers(1, c, n_rows) for c in cardinalities]
    categorical = np.array(codes, dtype=np.int32).reshape(len(codes), n_rows).T.copy()
    signal = 0.1 * generator.normal(size=n_rows)
    if n_numeric:
        signal = signal + numeric[:, 0]
    if len(cardinalities):
        signal = signal + (categorical[:, 0] == FIRST_LEVEL)
    if task == "regression":
        target, n_classes = 1000.0 + 50.0 * signal, 1
    else:
        n_classes = 2 if task == "binary" else n_classes
        edges = np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1])
        target = np.searchsorted(edges, signal).astype(np.int64)
    names = tuple(f"x{i}" for i in range(n_numeric)), tuple(f"c{i}" for i in range(len(cardinalities)))
    spec = FeatureSpec(
        numeric=names[0], categorical=names[1], cardinalities=cardinalities, sources=(*names[0], *names[1])
    )
    return Table(numeric, categorical, target), spec, n_classes


def make_context(
    task: Task,
    spec: FeatureSpec,
    n_classes: int,
    folder: Path,
    *,
    seed: int = 0,
    metric: str | None = None,
    soft_deadline: float | None = None,
    on_report: Callable[[int, float], None] = lambda step, value: None,
) -> FitContext:
    """A fit context with one CPU thread and, unless given, the default metric of the task."""
    return FitContext(
        task=task,
        n_classes=n_classes,
        metric=metric or default_metric(task),
        features=spec,
        seed=seed,
        device="cpu",
        n_threads=1,
        folder=folder,
        soft_deadline=soft_deadline,
        on_report=on_report,
    )


def shape_of(table: Table, spec: FeatureSpec, n_classes: int) -> Shape:
    """The `Shape` of a generated table."""
    return Shape(len(table), len(spec.numeric), len(spec.categorical), n_classes)
