"""Features that give the target away."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.leaks import find_leaks
from tabapp.data.schema import DataWarning, leave_out
from tabapp.errors import option


@check(
    "leak",
    description="A feature determines the target, or seems to be known only after it.",
    remedy="Ask whether its value is known at the time of a prediction; if not, leave it out with --ignore.",
    rank=10,
)
def leak(evidence: Evidence) -> Iterator[DataWarning]:
    """Copies of the target, which are left out, and features that all but determine it, which are kept with a warning."""
    for name, original in evidence.copies.items():
        if original == evidence.target:
            message = f"It is a copy of the target {original!r}."
            yield DataWarning(check="leak", column=name, message=message, action="left out")
    found = find_leaks(
        evidence.columns, evidence.features, evidence.answer, evidence.target, len(evidence.goal.classes)
    )
    for name, message in found.items():
        action = f"kept; if it is known only after the fact, leave it out with {option('ignore', name)}"
        yield DataWarning(check="leak", column=name, message=message, action=action, remedies=(leave_out(name),))
