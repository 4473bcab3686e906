"""Runs that `benchmarks.product.rivals --keep` kept, with the predictions of their candidates on the test rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.product.honesty import kept_runs
from benchmarks.product.rivals import METRICS, split, table_of_entry
from tabapp import metrics
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.ensemble.blending import blend
from tabapp.ensemble.greedy import EnsembleResult, cross_fitted
from tabapp.ensemble.scaling import calibrated
from tabapp.features.arrays import Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, list_runs

Key = tuple[str, int]
Array = npt.NDArray[Any]


class KeptRun:
    """A complete run of a draw of a table.

    Attributes:
        keys: model and trial of the candidates that have all folds.

    Args:
        place: its folder in that of --keep.
        entry: the listing's entry of the table.
        data: folder of the tables.
    """

    def __init__(self, place: Path, table: str, draw: int, entry: dict[str, Any], data: Path) -> None:
        self.place, self.table, self.draw = place, table, draw
        self.task, self.metric = entry["task"], METRICS[entry["task"]]
        self.run = FinishedRun(list_runs(place / "runs")[0])
        _, test = split(table_of_entry(data, entry), entry["target"], entry["task"], draw)
        labeled = place / "labeled_test.csv"
        test.write_csv(labeled)
        self._frame: pl.DataFrame = typed_frame(read_table(labeled, ReadOptions(delimiter=",")).frame, self.schema)
        self.test_target = encode_target(self._frame, self.schema)
        self.target = self.run.data.target
        self.keys = [key for key, candidate in self.run.candidates.items() if candidate.is_complete]
        self._prepared: dict[tuple[str, int], Table] = {}

    @property
    def schema(self) -> Schema:
        """The schema of the training rows."""
        return self.run.data.schema

    def out_of_fold(self, key: Key) -> Array:
        """(rows, classes) or (rows,) predictions of the training rows."""
        return self.run.models.out_of_fold(self.run.candidates[key], self.run.data.scored)

    def test(self, key: Key) -> Array:
        """The mean of the fold models' predictions of the test rows."""
        saved = self.place / "test_predictions" / f"{key[0].replace(':', '-')}-{key[1]}.npy"
        if not saved.is_file():
            saved.parent.mkdir(exist_ok=True)
            candidate = self.run.candidates[key]
            models = {fold: self.run.models.model(candidate, fold) for fold in sorted(candidate.results)}
            tables = {fold: self.test_table(key, fold) for fold in models}
            np.save(saved, np.mean([model.predict(tables[fold]) for fold, model in models.items()], axis=0))
        return np.load(saved, allow_pickle=False)

    def test_table(self, key: Key, fold: int) -> Table:
        """The features of the test rows for a fold of a candidate."""
        candidate = self.run.candidates[key]
        name = str(candidate.results[fold].recipe), fold
        if name not in self._prepared:
            self._prepared[name] = self.transformed(self.run.models.features(candidate, fold).preparer)
        return self._prepared[name]

    def transformed(self, preparer: FeaturePreparer) -> Table:
        """The features of the test rows."""
        return replace(preparer.transform(self._frame), target=None)

    @cached_property
    def events(self) -> list[ev.AnyEvent]:
        """The log of the run."""
        return EventReader(self.run.folder.events).read_new()

    @property
    def started(self) -> float:
        """The time of the first event."""
        return self.events[0].t

    @cached_property
    def complete_at(self) -> dict[Key, float]:
        """Seconds from the start of the run to the last fold of each candidate."""
        found: dict[Key, float] = {}
        for event in self.events:
            if isinstance(event, ev.FitFinished) and (event.model, event.trial) in self.keys:
                found[event.model, event.trial] = event.t - self.started
        return found

    @property
    def fitting_end(self) -> float:
        """Seconds from the start of the run to the end of fitting."""
        ends = [event.t for event in self.events if isinstance(event, ev.StageChanged) and event.stage == "ensembling"]
        return ends[-1] - self.started

    def ensemble(self, oof: list[Array], tests: list[Array]) -> tuple[EnsembleResult, float]:
        """The ensemble that the run would select from candidates, and its error on the test rows."""
        found = cross_fitted(oof, self.target, self.metric)
        return found, self.error(calibrated(blend(tests, found.weights), found.calibration))

    def error(self, prediction: Array) -> float:
        """Difference of the score of the test rows to a perfect one."""
        value = metrics.score(self.metric, self.test_target, prediction)
        return 1 - value if metrics.get(self.metric).greater_is_better else value


def open_kept(kept: list[Path], data: Path, tables: Iterable[str] = ()) -> list[KeptRun]:
    """The kept runs of some tables, or of all."""
    entries = {entry["name"]: entry for entry in json.loads((data / "datasets.json").read_text())}
    wanted = set(tables)
    return [
        KeptRun(place, table, draw, entries[table], data)
        for (table, draw), place in kept_runs(kept).items()
        if not wanted or table in wanted
    ]
