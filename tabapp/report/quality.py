"""The parts of a report on out-of-fold predictions: confusion, curves, calibration and residuals, and weak slices."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.report.parts import Facts, HeatMap, Histogram, Part, Table, Text
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Lines, Series
from tabapp.run.record.state import RunState, format_score, subject_of
from tabapp.run.texts.diagnoses import lift_at

MAX_ERRORS = 10
QUANTILES = ("5 %", "25 %", "50 %", "75 %", "95 %")


def named(state: RunState, found: ev.Described) -> str:
    """What is described, within a sentence."""
    title = subject_of(state, found)
    return "the ensemble" if title == "Ensemble" else title


def quality_parts(state: RunState) -> list[Part]:
    """The diagnostics of the best model: the ensemble if there is one, else the first of the leaderboard."""
    found = state.evaluations.get("ensemble")
    if found is None and state.best is not None:
        found = state.evaluations.get(state.best.model)
    if found is None:
        ended = state.finished is not None and state.best is not None
        return [Text("The run ended before its predictions were evaluated.")] if ended else []
    rows = f"a sample of {found.n_rows:,}" if found.sampled else f"{found.n_rows:,}"
    parts: list[Part] = [Text(f"Out-of-fold predictions of {named(state, found)} on {rows} rows.")]
    return parts + (_classification(found, state.plan) if found.labels else _regression(found, state.plan))


def _classification(found: ev.EvaluationReady, plan: ev.PlanMade | None) -> list[Part]:
    facts = [
        (name, f"{value:.4f}")
        for name, value in (
            ("Area under the ROC curve", found.roc_auc),
            ("Average precision", found.average_precision),
            ("Log loss", found.log_loss),
            ("Log loss before calibration", found.uncalibrated_log_loss),
            ("Calibration error", found.calibration_error),
            ("Calibration error before calibration", found.uncalibrated_error),
            ("Temperature of the probabilities", found.temperature),
        )
        if value is not None
    ]
    parts: list[Part] = [Facts(tuple(facts))] if facts else []
    if found.confusion:
        parts.append(HeatMap("Confusion matrix", "true class", "predicted class", found.labels, found.confusion))
        parts += _by_class(found, plan.classes if plan is not None else ())
    of = f" ({found.positive})" if found.positive else " (mean of the classes)"
    unit = (0.0, 1.0)
    if found.roc:
        roc = (Series("ROC", found.roc),)
        diagonal = ((0.0, 0.0), (1.0, 1.0))
        parts.append(Lines(f"ROC curve{of}", "false positive rate", "true positive rate", roc, diagonal, unit, unit))
    if found.precision_recall:
        curve = (Series("precision", found.precision_recall),)
        chance = ((0.0, found.base_rate), (1.0, found.base_rate)) if found.base_rate is not None else ()
        parts.append(Lines(f"Precision–recall curve{of}", "recall", "precision", curve, chance, unit, unit))
    if found.gain:
        gain = (Series("gain", found.gain),)
        diagonal = ((0.0, 0.0), (1.0, 1.0))
        parts.append(
            Lines(f"Cumulative gain{of}", "share of rows", "share of positive rows", gain, diagonal, unit, unit)
        )
        shares = (0.05, 0.1, 0.2, 0.3, 0.5)
        cells = tuple(f"{lift_at(found.gain, share):.2f}" for share in shares)
        header = tuple(f"first {share:.0%}" for share in shares)
        parts.append(Table("Lift over random rows", header, (cells,), tuple(range(len(shares)))))
    if found.calibration:
        bins = found.calibration
        points = tuple((b.predicted, b.observed) for b in bins)
        curve = (Series("observed", points, tuple(b.low for b in bins), tuple(b.high for b in bins)),)
        diagonal = ((0.0, 0.0), (1.0, 1.0))
        parts.append(
            Lines(
                "Calibration: observed frequency with its 95 % interval",
                "predicted probability",
                "observed frequency",
                curve,
                diagonal,
                unit,
                unit,
            )
        )
    return parts


def _by_class(found: ev.EvaluationReady, classes: Sequence[str]) -> list[Part]:
    """Precision, recall and F1 of each class, and the most frequent errors among more than two classes."""
    matrix, n = found.confusion, len(found.labels)
    predicted = [sum(row[i] for row in matrix) for i in range(n)]

    def share(part: float, whole: float) -> str:
        return f"{part / whole:.3f}" if whole else "—"

    rows = tuple(
        (
            label,
            f"{sum(matrix[i]):,}",
            share(matrix[i][i], predicted[i]),
            share(matrix[i][i], sum(matrix[i])),
            share(2 * matrix[i][i], sum(matrix[i]) + predicted[i]),
        )
        for i, label in enumerate(found.labels)
    )
    parts: list[Part] = [Table("By class", ("Class", "Rows", "Precision", "Recall", "F1"), rows, (1, 2, 3, 4))]
    # Rare classes that are merged into one row are no class of the target.
    own = [i for i, label in enumerate(found.labels) if not classes or label in classes]
    errors = sorted((-matrix[i][j], i, j) for i in own for j in own if i != j and matrix[i][j])
    if n > 2 and errors:
        shown = tuple(
            (found.labels[i], found.labels[j], f"{-count:,}", f"{-count / sum(matrix[i]):.1%}")
            for count, i, j in errors[:MAX_ERRORS]
        )
        header = ("True class", "Predicted class", "Rows", "Share of the true class")
        parts.append(Table("Most frequent errors", header, shown, (2, 3)))
    return parts


def _regression(found: ev.EvaluationReady, plan: ev.PlanMade | None) -> list[Part]:
    parts: list[Part] = []
    target = plan.target if plan is not None else "target"
    if found.residuals:
        parts.append(Histogram("Residuals", f"true {target} minus prediction", found.residual_range, found.residuals))
    if found.residual_quantiles:
        cells = tuple(format_score(value) for value in found.residual_quantiles)
        parts.append(Table("Quantiles of the residuals", QUANTILES, (cells,), tuple(range(len(QUANTILES)))))
    if found.bands:
        points = tuple((band.predicted, band.median) for band in found.bands)
        low, high = tuple(band.low for band in found.bands), tuple(band.high for band in found.bands)
        ends = (points[0][0], 0.0), (points[-1][0], 0.0)
        parts.append(
            Lines(
                "Residuals by prediction: median and the middle 80 %",
                f"predicted {target}",
                "residual",
                (Series("median", points, low, high),),
                ends,
            )
        )
    return parts


def slice_parts(state: RunState) -> list[Part]:
    """The slices of the data with the highest error."""
    found = state.slices
    if found is None:
        return []
    clear = [row for row in found.rows if row.clear]
    text = (
        f"The mean error ({found.measure}) of {named(state, found)} is {format_score(found.overall)}. Of {found.tested:,} "
        f"tested slices of the data, {len(clear) or 'none'} {'has' if len(clear) == 1 else 'have'} a clearly higher error."
    )
    if not found.rows:
        return [Text(text)]
    rows = tuple(
        (
            f"{row.column} {row.level}",
            f"{row.n:,}",
            format_score(row.error),
            f"{format_score(row.difference)} ({format_score(row.low)} to {format_score(row.high)})",
            *([] if row.share_wrong is None else [f"{row.share_wrong:.0%}"]),
            "yes" if row.clear else "no",
        )
        for row in found.rows
    )
    wrong = ["Wrong class"] if all(row.share_wrong is not None for row in found.rows) else []
    header = ("Slice", "Rows", "Error", "More than other rows", *wrong, "Clear")
    return [Text(text), Table("Slices with the highest error", header, rows, (1, 2, *range(4, 4 + len(wrong))))]
