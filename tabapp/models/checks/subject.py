"""What the checks share: the plugin under test, its outcomes, and the check of predictions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.checks.tables import make_context, make_table, shape_of
from tabapp.models.contract import FittedModel, Params, Plugin
from tabapp.task import Task
from tabapp.temporary import TemporaryFolder

SIZES = (400, 1_500, 6_000)
"""Numbers of rows that `Subject.accepted` tries."""
DATA_ONLY = (".json", ".safetensors", ".ubj", ".txt", ".cbm", ".npy", ".npz", ".csv", ".onnx")
"""Suffixes of file formats that hold data only."""
FEW_STEPS = {"max_epochs": 3, "n_trees": 30, "n_estimators": 30, "n_steps": 150}
"""Limits of hyperparameters with these usual names, for checks that do not measure quality."""

MANY_TREES: dict[str, Any] = {"n_trees": 400, "patience": 400, "learning_rate": 0.01, "refit": False}
"""Hyperparameters with these usual names, with which boosting does not end early."""


class Broken(Exception):
    """The plugin breaks a promise of the contract; the message says which."""


class Skipped(Exception):
    """The check does not apply to the plugin; the message says why."""


def demand(kept: bool, sentence: str) -> None:
    """Raise `Broken` with the sentence unless `kept` is true."""
    if not kept:
        raise Broken(sentence)


@dataclass(frozen=True)
class Trained:
    """A fitted model, what it was fitted on, and the scores that it reported."""

    model: FittedModel
    train: Table
    valid: Table
    n_classes: int
    reports: list[float]

    @property
    def task(self) -> Task:
        """The task of the model."""
        return "regression" if self.n_classes == 1 else "binary" if self.n_classes == 2 else "multiclass"


@dataclass(frozen=True)
class Subject:
    """A plugin under test.

    Attributes:
        plugin: the plugin.
        fit_seconds: soft deadline of each fit, in seconds; `quick_seconds` for checks that do not measure quality.
        smaller: replaces the default hyperparameters by ones that train faster; the identity by default.
    """

    plugin: Plugin
    fit_seconds: float = 10.0
    quick_seconds: float = 5.0
    smaller: Callable[[Params], Params] = field(default=lambda params: params)
    _trained: dict[Task, Trained] = field(default_factory=dict[Task, "Trained"], repr=False, compare=False)
    _large: list[Trained] = field(default_factory=list["Trained"], repr=False, compare=False)

    def any_task(self) -> Task:
        """A task that the plugin supports."""
        return "binary" if "binary" in self.plugin.tasks else self.plugin.tasks[0]

    def quick(self) -> Subject:
        """The same plugin with few training steps, for checks that do not measure quality."""

        def few_steps(params: Params) -> Params:
            params = self.smaller(params)
            fewer = {name: min(n, getattr(params, name)) for name, n in FEW_STEPS.items() if hasattr(params, name)}
            return msgspec.structs.replace(params, **fewer)

        return Subject(self.plugin, self.quick_seconds, self.quick_seconds, few_steps)

    def trained(self, task: Task) -> Trained:
        """The model of a full fit on the smallest accepted table. The checks of one subject share it.

        Raises:
            Skipped: the plugin supports none of the sizes.
        """
        if task not in self._trained:
            table, spec, n_classes = self.accepted(task)
            reports: list[float] = []
            model = self.fit(task, table, spec, n_classes, on_report=lambda step, value: reports.append(value))
            train, valid = split_for_early_stopping(table)
            self._trained[task] = Trained(model, train, valid, n_classes, reports)
        return self._trained[task]

    def trained_on_any_task(self) -> Trained:
        """A model of `trained`: the first one that exists, or one of `any_task`."""
        return next(iter(self._trained.values()), None) or self.trained(self.any_task())

    def large(self) -> Trained:
        """A model of hundreds of trees, else one of `trained_on_any_task`. The checks of one subject share it.

        Raises:
            Skipped: the plugin supports no generated table.
        """
        if self.plugin.uses_device or not hasattr(self.plugin.params_type, "n_trees"):
            return self.trained_on_any_task()
        if not self._large:

            def grow(params: Params) -> Params:
                more = {name: value for name, value in MANY_TREES.items() if hasattr(params, name)}
                return msgspec.structs.replace(params, **more)

            task = "regression" if "regression" in self.plugin.tasks else self.any_task()
            table, spec, n_classes = self.accepted(task, n_rows=1_000)
            model = Subject(self.plugin, self.fit_seconds, smaller=grow).fit(task, table, spec, n_classes)
            self._large.append(Trained(model, *split_for_early_stopping(table), n_classes, []))
        return self._large[0]

    def accepted(self, task: Task, **columns: Any) -> tuple[Table, FeatureSpec, int]:
        """The smallest generated table that the plugin supports, with its spec and number of classes.

        Args:
            columns: keyword arguments of `make_table`; `n_rows` is the size to try first.

        Raises:
            Skipped: the plugin supports none of the sizes.
        """
        reason = f"it does not support {task} tasks"
        if task in self.plugin.tasks:
            for n_rows in (columns.pop("n_rows", SIZES[0]), *SIZES[1:]):
                made = make_table(task, n_rows=n_rows, **columns)
                reason = self.plugin.supports(task, shape_of(*made))
                if reason is None:
                    return made
        raise Skipped(reason or "")

    def fit(
        self, task: Task, table: Table, spec: FeatureSpec, n_classes: int, valid: Table | None = None, **context: Any
    ) -> FittedModel:
        """Train the defaults on three quarters of a table and stop early on the rest, or on `valid` if given."""
        train, held_out = split_for_early_stopping(table) if valid is None else (table, valid)
        params = self.smaller(self.plugin.defaults(task, shape_of(train, spec, n_classes), "cpu"))
        context.setdefault("soft_deadline", time.monotonic() + self.fit_seconds)
        with TemporaryFolder("check") as folder:
            return self.plugin.fit(
                train, held_out, params, make_context(task, spec, n_classes, Path(folder), **context)
            )


def split_for_early_stopping(table: Table) -> tuple[Table, Table]:
    """The first three quarters of the rows, and the rest."""
    n_train = len(table) * 3 // 4
    return table.take(slice(0, n_train)), table.take(slice(n_train, None))


def saved_and_loaded(plugin: Plugin, model: FittedModel) -> FittedModel:
    """Save a model, demand that its files hold data only, and load it."""
    with TemporaryFolder("check") as name:
        folder = Path(name) / "model"
        folder.mkdir()
        model.save(folder)
        files = [path for path in folder.rglob("*") if path.is_file()]
        demand(bool(files), "save writes nothing")
        odd = [path.name for path in files if path.suffix not in DATA_ONLY]
        demand(not odd, f"save writes {', '.join(odd)}; only data may be saved ({', '.join(DATA_ONLY)})")
        pickled = [path.name for path in files if path.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05", b"\x80\x02")]
        demand(not pickled, f"{', '.join(pickled)} is a pickle file, which can execute code")
        return plugin.load(folder)


def check_prediction(prediction: Any, task: Task, n_rows: int, n_classes: int) -> None:
    """Demand the type, shape and range that the contract states for predictions."""
    demand(isinstance(prediction, np.ndarray), f"predict returns {type(prediction).__name__}, not a NumPy array")
    dtype = np.float64 if task == "regression" else np.float32
    demand(prediction.dtype == dtype, f"predictions are {prediction.dtype}, not {np.dtype(dtype)}")
    shape = (n_rows,) if task == "regression" else (n_rows, n_classes)
    demand(prediction.shape == shape, f"predictions have the shape {prediction.shape}, not {shape}")
    demand(bool(np.isfinite(prediction).all()), "some predictions are not finite")
    if task != "regression" and n_rows:
        demand(prediction.min() >= 0, "some probabilities are negative")
        off = float(np.abs(prediction.sum(axis=1) - 1).max())
        demand(off < 1e-4, f"probabilities of a row sum to 1 ± {off:.2g}")
