"""When the pictures of a model's out-of-fold predictions are made, and from what: its best trial, at most every few seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.board import Board
from tabapp.engine.candidates import Candidate
from tabapp.engine.fit import RunData
from tabapp.explain import evaluation as pictures
from tabapp.run import events as ev
from tabapp.run.folder import RunFolder

ENSEMBLE = "ensemble"
PAUSE_SECONDS = 5.0
"""Between two pictures of the same model."""
MOST_ROWS = 50_000
MOST_CELLS = 200_000
"""Rows times classes; above either a seeded sample is drawn."""

Array = npt.NDArray[Any]


@dataclass
class Evaluations:
    """Keeps the pictures of all models up to date, one model a look."""

    folder: RunFolder
    data: RunData
    board: Board
    _made: dict[str, tuple[object, float]] = field(default_factory=dict[str, tuple[object, float]])

    def refresh(self) -> ev.EvaluationReady | None:
        """The pictures of one model whose best trial has changed and whose last ones are old enough; None when there is none."""
        now = time.monotonic()
        for model in (ENSEMBLE, *self.board.scheduler.models):
            known, made = self._made.get(model, (None, -PAUSE_SECONDS))
            if now - made < PAUSE_SECONDS or not self._has_changed(model, known):
                continue
            self._made[model] = (self._state_of(model), now)
            return self._evaluate(model)
        return None

    def catch_up(self, deadline: float) -> list[ev.EvaluationReady]:
        """Those that are not up to date, as far as the time until `deadline` (of `time.monotonic()`) allows.

        Now that nothing more comes, a best trial with some of its folds is drawn too.
        """
        made: list[ev.EvaluationReady] = []
        for model in (ENSEMBLE, *self.board.scheduler.models):
            if time.monotonic() > deadline:
                break
            state = self._state_of(model, partial=True)
            if state is not None and state != self._made.get(model, (None, 0.0))[0]:
                self._made[model] = (state, time.monotonic())
                made.append(self._evaluate(model))
        return made

    def _has_changed(self, model: str, known: object) -> bool:
        state = self._state_of(model)
        return state is not None and state != known

    def _state_of(self, model: str, *, partial: bool = False) -> object:
        """What the pictures of a model would be drawn from; None when there is nothing to draw."""
        if model == ENSEMBLE:
            selected = self.board.selected
            return None if selected is None else tuple((c.key, weight) for c, weight in selected.members)
        best = self.board.scheduler.best_of(model)
        if best is None or not (best.is_complete or partial):
            return None
        return best.trial, tuple(sorted(best.results))

    def _evaluate(self, model: str) -> ev.EvaluationReady:
        scorer, selected = self.board.scorer, self.board.selected
        if model == ENSEMBLE and selected is not None:
            members = [candidate for candidate, _ in selected.members]
            return self._pictures(model, None, selected.prediction, selected.covered, self._size(members))
        best = self.board.scheduler.best_of(model)
        assert best is not None
        prediction, covered = scorer.out_of_fold(best)
        return self._pictures(model, best.trial, prediction[covered], covered, self._size([best]))

    def _size(self, candidates: list[Candidate]) -> int:
        folders = [self.folder.fits / c.fit_name(fold) / "model" for c in candidates for fold in c.results]
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    def _pictures(
        self, model: str, trial: int | None, prediction: Array, covered: npt.NDArray[np.bool_], size: int
    ) -> ev.EvaluationReady:
        truth = self.board.scorer.target[covered]
        n_classes = prediction.shape[1] if prediction.ndim == 2 else 1
        rows = pictures.sample_rows(len(truth), min(MOST_ROWS, MOST_CELLS // n_classes), self.board.plan.seed)
        sampled = not isinstance(rows, slice)
        truth, prediction = truth[rows], prediction[rows].astype(np.float64)
        common: dict[str, Any] = {
            "model": model,
            "trial": trial,
            "n_rows": len(truth),
            "sampled": sampled,
            "size": size,
        }
        if n_classes == 1:
            return _regression(common, truth, prediction)
        return _classification(common, truth, prediction, self.data.schema.classes)


def _regression(common: dict[str, Any], truth: Array, prediction: Array) -> ev.EvaluationReady:
    counts, span = pictures.density(truth, prediction)
    found = pictures.residuals(truth, prediction)
    return ev.EvaluationReady(
        **common,
        density=counts,
        density_range=span,
        residuals=found.counts,
        residual_range=found.span,
        residual_quantiles=found.quantiles,
        bands=tuple(
            ev.ResidualBand(predicted=predicted, low=low, median=median, high=high, count=count)
            for predicted, low, median, high, count in found.bands
        ),
    )


def _classification(
    common: dict[str, Any], truth: Array, prediction: Array, classes: tuple[str, ...]
) -> ev.EvaluationReady:
    labels, matrix = pictures.confusion(truth, prediction, classes)
    binary = len(classes) == 2
    codes = [1] if binary else range(len(classes))
    roc = [pictures.roc_curve(truth == code, prediction[:, code]) for code in codes]
    precision_recall = [pictures.precision_recall_curve(truth == code, prediction[:, code]) for code in codes]
    if binary:
        bins, error = pictures.calibration(truth == 1, prediction[:, 1])
    else:
        bins, error = pictures.calibration(prediction.argmax(axis=1) == truth, prediction.max(axis=1))
    area = metrics.score("roc_auc", truth, prediction)
    average = metrics.score("average_precision", truth, prediction) if binary else float("nan")
    return ev.EvaluationReady(
        **common,
        labels=labels,
        confusion=matrix,
        positive=classes[1] if binary else "",
        roc=roc[0] if binary else pictures.mean_curve(roc),
        precision_recall=precision_recall[0] if binary else pictures.mean_curve(precision_recall),
        roc_auc=None if np.isnan(area) else pictures.rounded(area),
        average_precision=None if np.isnan(average) else pictures.rounded(average),
        base_rate=pictures.rounded(float(np.mean(truth == 1))) if binary else None,
        calibration=tuple(
            ev.ReliabilityBin(
                predicted=row.predicted, observed=row.observed, low=row.low, high=row.high, count=row.count
            )
            for row in bins
        ),
        calibration_error=pictures.rounded(error),
    )
