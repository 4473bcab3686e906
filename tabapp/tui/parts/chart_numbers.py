"""The numbers of a chart of models, to be saved."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tabapp.run.record import events as ev
    from tabapp.tui.viewmodels.model_card import Comparison

TITLES = {
    "roc": ("false_positive_rate", "true_positive_rate"),
    "precision_recall": ("recall", "precision"),
    "gain": ("share_of_rows", "share_of_positive_rows"),
    "learning": ("fold", "step", "score"),
}


def chart_numbers(comparison: Comparison, kind: str) -> list[list[object]]:
    """One row for each point, cell or bar of each model, below a row of titles; nothing if the chart cannot be drawn."""
    rows: list[list[object]] = []
    titles: list[object] = []
    for card in comparison.cards:
        if kind == "learning":
            titles = list(TITLES["learning"])
            found = [[fold, *point] for fold, curve in enumerate(card.curves, start=1) for point in curve]
        elif card.evaluation is None:
            continue
        else:
            titles, found = _of_evaluation(card.evaluation, kind)
        rows += [[card.name, *row] for row in found]
    return [["model", *titles], *rows] if rows else []


def _of_evaluation(each: ev.EvaluationReady, kind: str) -> tuple[list[object], list[list[object]]]:
    if kind == "confusion":
        return ["true", *each.labels], [[label, *row] for label, row in zip(each.labels, each.confusion, strict=True)]
    if kind in TITLES:
        return list(TITLES[kind]), [list(point) for point in getattr(each, kind)]
    if kind == "density":
        edges = _edges(each.density_range, len(each.density))
        cells: list[list[object]] = [[*true, *guess, n] for true, row in zip(edges, each.density, strict=True)
                 for guess, n in zip(edges, row, strict=True)]  # fmt: skip
        return ["true_from", "true_to", "predicted_from", "predicted_to", "rows"], cells
    if kind == "residuals":
        bins = zip(_edges(each.residual_range, len(each.residuals)), each.residuals, strict=True)
        return ["residual_from", "residual_to", "rows"], [[*edge, n] for edge, n in bins]
    parts = [msgspec.to_builtins(part) for part in (each.calibration if kind == "calibration" else each.bands)]
    return list(parts[0]) if parts else [], [list(part.values()) for part in parts]


def _edges(span: tuple[float, float], n_bins: int) -> list[tuple[float, float]]:
    """The ends of equal bins of a range."""
    low, high = span
    at = [low + (high - low) * n / max(1, n_bins) for n in range(n_bins + 1)]
    return list(pairwise(at))
