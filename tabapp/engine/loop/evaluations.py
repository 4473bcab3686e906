"""Plots of the out-of-fold predictions of each model's best trial, recomputed at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.board import Board
from tabapp.engine.loop.time_share import Allowance
from tabapp.explain import evaluation as plots
from tabapp.run.record import events as ev
from tabapp.run.record.event_base import ENSEMBLE
from tabapp.run.record.folder import RunFolder

PAUSE_SECONDS = 5.0
"""Least time between two evaluations of the same model."""
EVALUATION_SHARE, FIRST_EVALUATION_SECONDS = 0.0015, 0.1
"""Evaluations during fitting take at most the first share of the elapsed time, plus these seconds."""
MOST_ROWS = 50_000
MOST_CELLS = 200_000
"""Rows times classes. A table above either limit is sampled with the run's seed."""

Array = npt.NDArray[Any]


@dataclass
class Evaluations:
    """Keeps the evaluations of all models up to date, one model per call."""

    folder: RunFolder
    data: RunData
    board: Board
    _made: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    _allowance: Allowance = field(default_factory=lambda: Allowance(EVALUATION_SHARE, FIRST_EVALUATION_SECONDS))

    def refresh(self) -> ev.EvaluationReady | None:
        """Evaluate one model whose best trial has changed and whose last evaluation is old enough; None if there is none."""
        if not self._allowance.is_left:
            return None
        now = time.monotonic()
        for model in (ENSEMBLE, *self.board.competition.models):
            known, made = self._made.get(model, ("", -PAUSE_SECONDS))
            identity = self._identity_of(model)
            if now - made < PAUSE_SECONDS or identity in ("", known):
                continue
            self._made[model] = (identity, now)
            began = time.thread_time()
            evaluation = self._evaluate(model)
            self._allowance.spend(time.thread_time() - began)
            return evaluation
        return None

    def catch_up(
        self, deadline: float, failed: Callable[[str, Exception], None] | None = None
    ) -> list[ev.EvaluationReady]:
        """Evaluate all models that are not up to date, until `deadline` (of `time.monotonic()`).

        Includes best trials with only some of their folds, since no more fits follow. The ensemble is evaluated whatever the time:
        its evaluation is the one that a report shows, and samples keep it short.

        Args:
            failed: receives a model whose evaluation failed, and the error; by default, it is raised.
        """
        made: list[ev.EvaluationReady] = []
        for model in (ENSEMBLE, *self.board.competition.models):
            if model != ENSEMBLE and time.monotonic() > deadline:
                break
            identity = self._identity_of(model, partial=True)
            if identity not in ("", self._made.get(model, ("", 0.0))[0]):
                self._made[model] = (identity, time.monotonic())
                try:
                    made.append(self._evaluate(model))
                except Exception as error:
                    if failed is None:
                        raise
                    failed(model, error)
        return made

    def _identity_of(self, model: str, *, partial: bool = False) -> str:
        """Identifies the predictions that an evaluation of the model would use; empty if there are none."""
        if model == ENSEMBLE:
            return "" if self.board.selected is None else self.board.selected.identity
        best = self.board.competition.best_of(model)
        return best.identity if best is not None and (best.is_complete or partial) else ""

    def _evaluate(self, model: str) -> ev.EvaluationReady:
        scorer, selected = self.board.scorer, self.board.selected
        if model == ENSEMBLE and selected is not None:
            members = [candidate for candidate, _ in selected.members]
            described: dict[str, Any] = {"model": model, "trial": None, "identity": selected.identity}
            found = self._evaluation(described, selected.prediction, selected.covered, self._size(members))
            if selected.calibration is None:
                return found
            without = self._evaluation(described, selected.blend, selected.covered, 0)
            return msgspec.structs.replace(
                found,
                temperature=selected.calibration if isinstance(selected.calibration, float) else None,
                uncalibrated_error=without.calibration_error,
                uncalibrated_log_loss=without.log_loss,
            )
        best = self.board.competition.best_of(model)
        assert best is not None
        prediction, covered = scorer.out_of_fold(best)
        described = {"model": model, "trial": best.trial, "identity": best.identity}
        return self._evaluation(described, prediction[covered], covered, self._size([best]))

    def _size(self, candidates: list[Candidate]) -> int:
        folders = [self.folder.fits / name / "model" for c in candidates for name in c.fit_names]
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    def _evaluation(
        self, described: dict[str, Any], prediction: Array, covered: npt.NDArray[np.bool_], size: int
    ) -> ev.EvaluationReady:
        truth = self.board.scorer.target[covered]
        n_classes = prediction.shape[1] if prediction.ndim == 2 else 1
        rows = plots.sample_rows(len(truth), min(MOST_ROWS, MOST_CELLS // n_classes), self.board.plan.seed)
        sampled = not isinstance(rows, slice)
        truth, prediction = truth[rows], prediction[rows].astype(np.float64)
        common: dict[str, Any] = {
            **described,
            "n_rows": len(truth),
            "sampled": sampled,
            "size": size,
        }
        if n_classes == 1:
            return _regression(common, truth, prediction)
        return _classification(common, truth, prediction, self.data.schema.classes)


def _regression(common: dict[str, Any], truth: Array, prediction: Array) -> ev.EvaluationReady:
    counts, span = plots.density(truth, prediction)
    found = plots.residuals(truth, prediction)
    return ev.EvaluationReady(
        **common,
        density=counts,
        density_range=span,
        residuals=found.counts,
        residual_range=found.span,
        residual_quantiles=found.quantiles,
        bands=found.bands,
    )


def _classification(
    common: dict[str, Any], truth: Array, prediction: Array, classes: tuple[str, ...]
) -> ev.EvaluationReady:
    labels, matrix = plots.confusion(truth, prediction, classes)
    binary = len(classes) == 2
    codes = [1] if binary else range(len(classes))
    roc = [plots.roc_curve(truth == code, prediction[:, code]) for code in codes]
    precision_recall = [plots.precision_recall_curve(truth == code, prediction[:, code]) for code in codes]
    if binary:
        bins, error = plots.calibration(truth == 1, prediction[:, 1])
    else:
        bins, error = plots.calibration(prediction.argmax(axis=1) == truth, prediction.max(axis=1))
    area = metrics.roc_auc(truth, prediction)
    average = metrics.average_precision(truth, prediction) if binary else float("nan")
    return ev.EvaluationReady(
        **common,
        labels=labels,
        confusion=matrix,
        positive=classes[1] if binary else "",
        roc=roc[0] if binary else plots.mean_curve(roc),
        precision_recall=precision_recall[0] if binary else plots.mean_curve(precision_recall),
        gain=plots.gain_curve(truth == 1, prediction[:, 1]) if binary else (),
        roc_auc=None if np.isnan(area) else plots.rounded(area),
        average_precision=None if np.isnan(average) else plots.rounded(average),
        base_rate=plots.rounded(float(np.mean(truth == 1))) if binary else None,
        calibration=bins,
        calibration_error=plots.rounded(error),
        log_loss=plots.rounded(metrics.score(metrics.LOG_LOSS, truth, prediction)),
    )
