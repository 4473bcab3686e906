"""The verdict on a run as lines of text."""

from __future__ import annotations

from tabapp import charts
from tabapp.run.texts.verdict import GLYPHS, Fact, Mark, Verdict
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED

STYLES: dict[Mark, str] = {"good": "$success", "warn": "$warning", "": "$primary"}
LEVEL_STYLES = {"good": "bold $success", "weak": "bold $warning", "none": "bold $error", "unknown": "bold $primary"}
BAR_WIDTH = 8


def verdict_lines(verdict: Verdict, width: int) -> list[Content]:
    """The verdict as lines of a width."""
    style = LEVEL_STYLES[verdict.level]
    if verdict.is_interrupted:
        style = "bold $warning"
    lines = [Content.assemble(("★ ", "$accent"), (verdict.headline, "bold $accent"))]
    if verdict.word:
        lines += Content.assemble((f"{verdict.word}. ", style), verdict.judgment).wrap(width)
    for fact in verdict.facts:
        lines += _fact(fact, width)
    return lines + (_columns(verdict, width) if verdict.columns else [])


def _columns(verdict: Verdict, width: int) -> list[Content]:
    """The most important columns with a bar each; a name and its bar stay on one line."""
    parts = [
        Content.assemble(name, " ", (charts.bar(share, BAR_WIDTH).rstrip(), "$primary"))
        for name, share in verdict.columns
    ]
    parts.append(Content.styled(f"({verdict.columns_of})", MUTED))
    lines = [Content.assemble(("◆ ", "$primary"), ("Columns: ", MUTED), parts[0])]
    for part in parts[1:]:
        if lines[-1].cell_length + 2 + part.cell_length <= width:
            lines[-1] = Content.assemble(lines[-1], "  ", part)
        else:
            lines.append(part)
    return lines


def _fact(fact: Fact, width: int) -> list[Content]:
    text = Content.assemble((f"{GLYPHS[fact.mark]} ", STYLES[fact.mark]), (f"{fact.topic}: ", MUTED), fact.text)
    return list(text.wrap(width))
