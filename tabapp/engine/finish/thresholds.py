"""The threshold of a bundle that is rebuilt with other models than those for which `tabapp diagnose` chose it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.explain.decision import LEAST_SCORED_ROWS, choose_threshold
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.record.state import format_score

Array = npt.NDArray[Any]


def threshold_for(run: FinishedRun, prediction: Array, covered: Array) -> tuple[float | None, str]:
    """The threshold of an ensemble other than that of the run, and a sentence about it for the user; (None, "") if the run's bundle
    has none.

    It is chosen again by the metric that chose the old one. If the run does not record that metric, the old threshold is kept.

    Args:
        prediction: (covered rows, 2) out-of-fold probabilities of the new ensemble.
        covered: (scored,) mask of the scored rows that it predicts.
    """
    old = run.contents.ensemble.threshold
    if old is None:
        return None, ""
    event = run.state.result(ThresholdChosen)
    if event is None or event.value is None or not np.isclose(event.value, old):
        return (
            old,
            f"The threshold {old:.3f} of the run's bundle is kept, but not chosen again: its metric is not known.",
        )
    if event.by_hand:
        return old, f"The threshold {old:.3f}, which you chose, is kept."
    try:
        metric = metrics.get(event.metric)
    except Exception as error:
        # A third-party metric may be gone, or raise anything.
        return old, f"The threshold {old:.3f} of the run's bundle is kept, but not chosen again: {error}"
    truth = run.scorer.target[covered]
    if len(truth) < LEAST_SCORED_ROWS or len(np.unique(truth)) < 2:
        return (
            old,
            f"The threshold {old:.3f} of the run's bundle is kept: too few rows of each class are scored to choose it again.",
        )
    weight = None if run.scorer.weight is None else run.scorer.weight[covered]
    folds = run.scorer.folds[covered]
    chosen = choose_threshold(metric.name, truth, prediction, folds, weight, seed=run.plan.seed)
    return chosen.value, (
        f"The threshold is chosen again for these models by {metric.title}: {chosen.value:.3f} instead of {old:.3f}. Their "
        f"{metric.title} is {format_score(chosen.score)} (95 % interval {format_score(chosen.score_low)} to "
        f"{format_score(chosen.score_high)}); with 0.5 it is {format_score(chosen.at_half)}."
    )
