"""The first part of a report: the verdict on the run in words."""

from __future__ import annotations

from tabapp.report.parts import Facts, Part, Text
from tabapp.run.record.state import RunState
from tabapp.run.texts.verdict import GLYPHS, verdict_of


def verdict_parts(state: RunState) -> list[Part]:
    """The verdict as a paragraph, and a line for each of its facts; nothing without a score."""
    verdict = verdict_of(state)
    if verdict is None:
        return []
    rows = [(fact.topic, f"{GLYPHS[fact.mark]} {fact.text}" if fact.mark else fact.text) for fact in verdict.facts]
    if verdict.columns:
        names = ", ".join(f"{name} {share:.0%}" for name, share in verdict.columns)
        rows.append(("Columns", f"{names} ({verdict.columns_of})"))
    text = ". ".join(filter(None, (verdict.word, verdict.headline, verdict.judgment)))
    return [Text(text), *([Facts(tuple(rows))] if rows else [])]
