"""Rows whose target is missing."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.columns import column_of
from tabapp.data.forms.missing import counted_texts, strip
from tabapp.data.schema import DataWarning


@check(
    "no_target",
    description="The target is missing in some rows, which are set aside.",
    remedy="If one of the texts is a class, use --keep-null TEXT. Otherwise, complete or remove the rows.",
    rank=12,
)
def no_target(evidence: Evidence) -> Iterator[DataWarning]:
    """Rows without a target, with the texts that made them so."""
    known = evidence.values[evidence.target].texts
    without = known.null_count()
    if not without:
        return
    n_rows = evidence.n_rows
    texts = strip(column_of(evidence.frame, evidence.target)).filter(known.is_null())
    message = f"{without:,} of {n_rows:,} rows have no target ({counted_texts(texts)})."
    action = "set aside; only models that learn from unlabeled rows use them"
    yield DataWarning(check="no_target", column=evidence.target, message=message, action=action)
