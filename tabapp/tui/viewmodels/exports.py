"""Kinds of bundles that the Export dialog offers, with estimates of size and speed."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.run.options.units import format_duration
from tabapp.run.protocol.exporting import Compared, ExportOptions
from tabapp.run.record.state import RunState, format_score


@dataclass(frozen=True)
class ExportKind:
    """A kind of bundle, with its size, speed and score in words."""

    label: str
    note: str
    options: ExportOptions


def export_kinds(state: RunState, n_bytes: int) -> list[ExportKind]:
    """The bundle of a finished run as it is, and smaller ones.

    Args:
        n_bytes: size of the bundle.
    """
    row = next((row for row in state.leaderboard if row.model == "ensemble"), None)
    folds = max(1, row.folds if row is not None else 1)
    score = "" if row is None or row.score is None else f" · {format_score(row.score)}"
    ms = None if row is None else row.predict_ms_per_1k

    def note(share: float, about: str) -> str:
        speed = "" if ms is None else f" · {about}{format_duration(share * ms / 1000)} for 1,000 rows"
        return f"{about}{share * n_bytes / 1e6:,.2g} MB{speed}{score}"

    return [
        ExportKind("as it is", note(1.0, ""), ExportOptions()),
        ExportKind("trained again on all rows", note(1 / folds, "about "), ExportOptions(refit=True)),
        ExportKind(
            "trained again, half precision",
            f"{note(1 / folds, 'about ')}; networks take half the space",
            ExportOptions(refit=True, half=True),
        ),
        ExportKind(
            "at most 20ms for 1,000 rows",
            "trained again; size and score follow",
            ExportOptions(refit=True, limit_ms=20.0),
        ),
    ]


def comparison_text(compared: Compared) -> str:
    """Size, speed and score of a new bundle next to those of the run, and what became of its threshold."""
    old, new = compared.rows
    sentence = (
        f"{new.n_bytes / 1e6:.3g} MB instead of {old.n_bytes / 1e6:.3g} MB, "
        f"{format_duration(new.ms / 1000)} instead of {format_duration(old.ms / 1000)} for "
        f"{compared.n_rows:,} rows, {compared.metric} {format_score(new.score)} instead of {format_score(old.score)}."
    )
    return f"{sentence} {compared.threshold_note}".strip()
