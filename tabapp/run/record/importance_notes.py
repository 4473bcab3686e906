"""What every view says about importances: how many columns were measured, and which values are unstable."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.findings import ImportanceRow
from tabapp.run.record import events as ev

UNSTABLE = "unstable"


def ranked(rows: Sequence[ImportanceRow]) -> list[ImportanceRow]:
    """The rows by permutation importance, the largest first; unstable ones last."""
    return sorted(rows, key=lambda row: (row.unstable, -row.permutation))


def largest(rows: Sequence[ImportanceRow]) -> float:
    """The largest stable importance, with which the bars of a view begin; 0 without one."""
    return max((row.permutation for row in rows if not row.unstable), default=0.0)


def is_incomplete(found: ev.ImportancesReady) -> bool:
    """Whether the time ended before every column was measured."""
    return found.n_columns is not None and len(found.rows) < found.n_columns


def measured(found: ev.ImportancesReady, noun: str = "columns") -> str:
    """How many columns were measured: "12 of 2,000 columns", or "2,000 columns" if all were."""
    of = f" of {found.n_columns:,}" if is_incomplete(found) else ""
    return f"{len(found.rows):,}{of} {noun}"


def notes(found: ev.ImportancesReady) -> list[str]:
    """Sentences on what is missing from importances, or wrong with them."""
    sentences: list[str] = []
    if is_incomplete(found):
        first = ", the most promising ones first" if found.rows else ""
        sentences.append(
            f"{measured(found)} measured before the time ended{first}. Set a longer --budget to measure all of them."
        )
    n_unstable = sum(row.unstable for row in found.rows)
    if n_unstable:
        values = "1 importance is" if n_unstable == 1 else f"{n_unstable:,} importances are"
        sentences.append(
            f"{values} unstable: predictions changed for rows in which nothing was shuffled. Do not rely on "
            f"{'it' if n_unstable == 1 else 'them'}; run `tabapp models --check` on the model."
        )
    return sentences
