"""Rows whose target is missing."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.columns import column_of
from tabapp.data.forms.missing import counted_texts, show, strip
from tabapp.data.schema import DataWarning, Remedy, read_as
from tabapp.errors import option


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
    cells = strip(column_of(evidence.frame, evidence.target)).filter(known.is_null())
    found = [f"{cells.null_count():,} empty"] if cells.null_count() else []
    if texts := counted_texts(cells):
        found.append(f"{without - cells.null_count():,} read as missing ({texts})")
    message = f"{without:,} of {evidence.n_rows:,} rows without a target: {', '.join(found)}."
    remedies: tuple[Remedy, ...] = ()
    action = "set aside; only models that learn from unlabeled rows use them"
    if evidence.goal.classes and (spellings := evidence.values[evidence.target].missing_spellings):
        text = spellings[0]
        action += f"; {option('keep_null', f'{evidence.target}={text}')} makes {show(text)} a class"
        remedies = (read_as("keep_null", text, evidence.target),)
    yield DataWarning(check="no_target", column=evidence.target, message=message, action=action, remedies=remedies)
