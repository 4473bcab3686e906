"""Attention maps of a model, by layer and head."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tabapp.run.analyses.parts import numbered_header
from tabapp.run.record.analysis import Analysis, DiagnosisTable
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState, subject_of

PALE = 3.0
"""Times chance at least in the strongest shade, so that equal attention is pale."""


class AttentionMap(msgspec.Struct, frozen=True, kw_only=True):
    """Attention of one layer between columns, by head, averaged over folds.

    Attributes:
        queries, keys: columns, "[CLS]", "[prompts]" or "[target]"; columns of little attention are merged into "other".
        chance: by key, the share that equal attention to all features gives it.
        heads: by head, (queries, keys) shares of attention.
        spread: (queries, keys) half-widths of the 95 % intervals over folds of the mean over heads; 0 with one fold.
        kind: "attention"; "mask" for the steps of TabNet, "selection" for the splits of NODE.
    """

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    chance: tuple[float, ...]
    heads: tuple[tuple[tuple[float, ...], ...], ...]
    spread: tuple[tuple[float, ...], ...]
    kind: str = "attention"

    @property
    def name(self) -> str:
        """What it shows, such as "Attention, layer 1"."""
        return f"{self.kind.capitalize()}, {self.title}"


class AttentionReady(AnalysisEvent, tag="attention.ready", frozen=True, kw_only=True):
    """Attention maps of a model on `n_rows` held-out rows."""

    n_rows: int
    maps: tuple[AttentionMap, ...]

    @property
    def part(self) -> str:
        return self.model


def attention_tables(found: AttentionReady, state: RunState) -> list[DiagnosisTable]:
    """The attention of each layer, relative to chance, averaged over heads; the rows are the columns that attend."""
    tables: list[DiagnosisTable] = []
    model = f" · {subject_of(state, found)}" if len(state.results(AttentionReady)) > 1 else ""
    for each in found.maps:
        ratios = [_relative(row, each.chance) for row in mean_over_heads(each)]
        most = max(PALE, *(ratio for row in ratios for ratio in row if ratio is not None))
        rows = tuple(
            (query, *("—" if ratio is None else f"{ratio:.1f}" for ratio in row))
            for query, row in zip(each.queries, ratios, strict=True)
        )
        shades = tuple(tuple((ratio or 0.0) / most for ratio in row) for row in ratios)
        heads = f" {len(each.heads)} heads averaged," if len(each.heads) > 1 else ""
        sentence = (
            f"{each.kind.capitalize()} of {subject_of(state, found)} on {found.n_rows:,} held-out rows,{heads} divided by what "
            f"equal {each.kind} would give: 1 is chance."
        )
        header, rows = numbered_header(("from ↓ to →", *each.keys), rows)
        if len(each.queries) == 1:
            # A long line would not fit a page.
            order = sorted(range(len(each.keys)), key=lambda key: -(ratios[0][key] or 0.0))
            rows, shades = tuple((each.keys[key], rows[0][1 + key]) for key in order), ()
            header = (f"from {each.queries[0]} to", each.kind)
            if any(each.spread[0]):
                margins = [f"±{value or 0.0:.1f}" for value in _relative(each.spread[0], each.chance)]
                rows = tuple((*row, margins[key]) for row, key in zip(rows, order, strict=True))
                header = (*header, "over folds")
        right = tuple(range(1, len(header)))
        tables.append(DiagnosisTable(each.name + model, (sentence,), header, rows, right, shades))
    return tables


def _relative(shares: Sequence[float], chance: Sequence[float]) -> list[float | None]:
    """Shares divided by those of chance, None where that is 0."""
    return [share / each if each > 0 else None for share, each in zip(shares, chance, strict=True)]


def mean_over_heads(found: AttentionMap) -> list[list[float]]:
    """(queries, keys) mean of the heads."""
    n = len(found.heads)
    return [
        [sum(head[q][k] for head in found.heads) / n for k in range(len(found.keys))] for q in range(len(found.queries))
    ]


ANALYSIS = Analysis(event=AttentionReady, rank=80, tables=attention_tables, of_columns=True, title="Attention maps")
