"""Classes of the target: too rare for every fold, or a small positive class."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.schema import DataWarning

_FOLDS = 5
_IMBALANCE = 0.1
_SHOWN = 5


@check(
    "rare_class",
    description="A class has fewer rows than there are folds.",
    remedy="Merge or remove such classes, or collect more rows of them.",
    rank=60,
)
def rare_class(evidence: Evidence) -> Iterator[DataWarning]:
    """Classes that some folds have no row of."""
    goal = evidence.goal
    rare = [(label, count) for label, count in zip(goal.classes, goal.counts, strict=True) if count < _FOLDS]
    if rare:
        shown = ", ".join(f"{label!r} ({count})" for label, count in rare[:_SHOWN]) + (
            " …" if len(rare) > _SHOWN else ""
        )
        message = f"{len(rare)} of {len(goal.classes)} classes have fewer than {_FOLDS} rows: {shown}."
        action = "kept; some folds have no row of them to train on or to score"
        yield DataWarning(check="rare_class", column=evidence.target, message=message, action=action)


@check(
    "imbalance",
    description="Less than a tenth of the rows belong to one of two classes.",
    remedy="Compare models by roc_auc, average_precision or a cost; accuracy hardly depends on the rare class.",
    rank=61,
)
def imbalance(evidence: Evidence) -> Iterator[DataWarning]:
    """A binary target with a rare class."""
    goal = evidence.goal
    total = sum(goal.counts)
    if goal.task != "binary" or min(goal.counts) >= _IMBALANCE * total:
        return
    fewest, rarer = min(zip(goal.counts, goal.classes, strict=True))
    message = f"Only {fewest / total:.1%} of the rows belong to class {rarer!r}."
    action = "kept; every fold has the same class shares; prefer roc_auc or average_precision to accuracy"
    yield DataWarning(check="imbalance", column=evidence.target, message=message, action=action)
