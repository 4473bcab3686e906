"""The comparison of two runs as text."""

from __future__ import annotations

from tabapp.run.protocol.comparing import Comparison, verdict
from tabapp.run.record.state import format_score
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED

LONGEST_NAME, LONGEST_VALUE = 22, 32
LONGEST_TITLE, LONGEST_RUN = 26, 18
"""A row of the leaderboards fits into the dialog at 80 columns."""


def comparison_content(found: Comparison, a: str, b: str) -> Content:
    """Verdict, leaderboards side by side, and what differs.

    Args:
        a, b: names of the runs.
    """
    lines = [
        *(
            Content.assemble((name, "bold $primary"), (f" · {run.best}, {run.rows:,} rows · {run.run}", MUTED))
            for name, run in ((a, found.a), (b, found.b))
        ),
        Content(""),
        Content.styled(verdict(found, a, b), "bold"),
    ]
    if found.matched_by:
        lines.append(Content.styled(f"Rows are matched by their {found.matched_by}.", MUTED))
    lines += [
        Content(""),
        Content.styled(_row(_heading(found), _short(a, LONGEST_RUN), _short(b, LONGEST_RUN)), MUTED),
    ]
    if found.score_a is not None:
        lines.append(Content(_row("Common rows", format_score(found.score_a), format_score(found.score_b))))
    lines += [Content(_row(row.title, format_score(row.a), format_score(row.b))) for row in found.leaderboard]
    for part in dict.fromkeys(each.part for each in found.differences):
        lines += [Content(""), Content.styled(f"Different {part}", MUTED)]
        for each in found.differences:
            if each.part == part:
                name = Content(each.name).truncate(LONGEST_NAME, ellipsis=True, pad=True)
                lines.append(Content.assemble(name, "  ", _short(each.a), (" → ", MUTED), _short(each.b)))
    return Content("\n").join(lines)


def _heading(found: Comparison) -> str:
    """The metric of the scores below, unless each run has another one."""
    if any((each.part, each.name) == ("plan", "metric") for each in found.differences):
        return "each by its own metric"
    return found.metric_title


def _row(name: str, a: str, b: str) -> str:
    return f"{_short(name, LONGEST_TITLE):<{LONGEST_TITLE}} {a:>{LONGEST_RUN}} {b:>{LONGEST_RUN}}"


def _short(value: str, most: int = LONGEST_VALUE) -> str:
    return value if len(value) <= most else f"{value[: most - 1]}…"
