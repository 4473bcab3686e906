"""Classes that are spelled like a missing cell."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check, declare
from tabapp.data.forms.missing import show
from tabapp.data.forms.null_words import BESIDE_PLUS, BY_OPTION, is_word
from tabapp.data.schema import DataWarning, read_as
from tabapp.errors import option

declare(
    "unused_option",
    description="A text of --null or --keep-null is that of no cell.",
    remedy="Check the spelling of the text and of the column.",
    rank=16,
)


@check(
    "null_class",
    description="A class of the target is spelled like a missing cell.",
    remedy="If the rows have no class, use --null COLUMN=TEXT.",
    rank=15,
)
def null_class(evidence: Evidence) -> Iterator[DataWarning]:
    """Classes such as NA and "?", which the user has not declared. "none" is an ordinary word, and "-" is the opposite of "+"."""
    counts = dict(zip(evidence.goal.classes, evidence.goal.counts, strict=True))
    for text, reason in evidence.values[evidence.target].kept.items():
        if text in counts and reason not in ("", BY_OPTION, BESIDE_PLUS) and not is_word(text):
            message = f"{show(text)} is a class of {counts[text]:,} rows, because {reason}."
            action = f"kept; {option('null', f'{evidence.target}={text}')} reads it as missing"
            yield DataWarning(
                check="null_class",
                column=evidence.target,
                message=message,
                action=action,
                remedies=(read_as("null", text, evidence.target),),
            )
