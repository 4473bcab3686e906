"""The analyses of a run as text, and the options to request them."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run.diagnoses import DiagnosisTable
from tabapp.run.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED

KNOWN, THRESHOLD, ROBUSTNESS, FAIRNESS = "known", "threshold", "robustness", "fairness"
LEARNING_CURVE, FAITHFULNESS = "learning-curve", "faithfulness"
COST = "cost"


def analysis_options(state: RunState, known: int) -> list[tuple[str, str, str]]:
    """The analyses that a run allows: value, label and note."""
    options = [(KNOWN, "Results so far", f"{known}")] if known else []
    if state.plan is not None and state.plan.task == "binary":
        options.append((THRESHOLD, "Threshold", "by a metric or by costs; kept in the bundle"))
    return [
        *options,
        (ROBUSTNESS, "Robustness", "score with missing and noisy cells"),
        (LEARNING_CURVE, "Learning curve over rows", "would more rows help? trains the best model again"),
        (FAITHFULNESS, "Attention compared", "with permutation, gradients, and training without a column"),
        (FAIRNESS, "Groups of a column", "rates, errors and calibration per group"),
    ]


THRESHOLD_OPTIONS = [
    ("f1", "F1", "precision and recall"),
    ("balanced_accuracy", "Balanced accuracy", "mean recall of both classes"),
    ("accuracy", "Accuracy", "share of correct labels"),
    (COST, "Costs", "of a false negative and a false positive"),
    ("none", "0.5", "restore the more probable class"),
]


def tables_content(tables: Sequence[DiagnosisTable]) -> Content:
    """Sentences and tables below each other, each with its title if there are several."""
    lines: list[Content] = []
    for found in tables:
        lines += [Content("")] if lines else []
        lines += [Content.styled(found.title, "bold $primary")] if len(tables) > 1 else []
        lines += [Content(sentence) for sentence in found.sentences]
        if found.rows:
            widths = [max(len(row[i]) for row in (found.header, *found.rows)) for i in range(len(found.header))]
            lines += [Content(""), Content.styled(_line(found.header, widths, found.right), MUTED)]
            lines += [Content(_line(row, widths, found.right)) for row in found.rows]
    return Content("\n").join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    parts = [
        cell.rjust(width) if index in right else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()
