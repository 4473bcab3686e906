"""Correlated columns, interactions, attention maps and the agreement of importance methods as tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run.options.config import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.importance_notes import UNSTABLE
from tabapp.run.record.state import RunState, format_score, subject_of
from tabapp.run.texts.diagnosis_table import DiagnosisTable

SHOWN_PAIRS = 15
LONGEST_HEADER = 72
"""Characters of the names of a map's columns."""
PALE = 3.0
"""Times chance at least in the strongest shade, so that equal attention is pale."""


def dependence_tables(state: RunState) -> list[DiagnosisTable]:
    """What is known of a run, in the order of this module."""
    found: list[DiagnosisTable] = []
    if state.dependence is not None:
        found += _dependence(state.dependence, state)
    if state.interactions is not None:
        found.append(interactions_table(state.interactions, state))
    if state.faithfulness is not None:
        found.append(faithfulness_table(state.faithfulness, state))
    for attention in state.attention.values():
        found += attention_tables(attention, state)
    return found


def _dependence(found: ev.DependenceReady, state: RunState) -> list[DiagnosisTable]:
    plain = {row.feature: row for row in state.importances.rows} if state.importances is not None else {}
    tables: list[DiagnosisTable] = []
    if found.groups:
        rows: list[tuple[str, ...]] = []
        for group in sorted(found.groups, key=lambda each: -each.permutation):
            rows.append((" + ".join(group.columns), _interval(group)))
            rows += [(f"  · {name}", _interval(plain[name])) for name in group.columns if name in plain]
        sentence = (
            "Columns of a group depend on each other, so each seems less important alone: shuffled together, they show what the "
            f"group is worth to {subject_of(state, found)}."
        )
        tables.append(DiagnosisTable("Correlated columns", (sentence,), ("columns", "permutation"), tuple(rows), (1,)))
    if found.conditional:
        sentence = (
            "Conditional permutation shuffles a column only among rows that are similar in the columns it depends on. It measures "
            "what the column adds to them; plain permutation also counts what they share."
        )
        rows = [
            (
                each.feature,
                _interval(plain[each.feature]),
                _interval(each),
            )
            for each in found.conditional
            if each.feature in plain
        ]
        tables.append(
            DiagnosisTable(
                "Conditional importance", (sentence,), ("column", "plain", "conditional"), tuple(rows), (1, 2)
            )
        )
    return tables


def interactions_table(found: ev.InteractionsReady, state: RunState) -> DiagnosisTable:
    """The pairs of columns with the largest interaction."""
    unit = f"probability of {found.label}" if found.label else "target"
    sentence = (
        f"H is the share of the joint effect of two columns on {subject_of(state, found)} that is not the sum of their single "
        f"effects. The size is the standard deviation of that part, in units of the {unit}: read H only where the size matters."
    )
    rows = tuple((f"{p.a} × {p.b}", f"{p.h:.2f}", _size(p.size)) for p in found.pairs[:SHOWN_PAIRS])
    return DiagnosisTable("Interactions", (sentence,), ("columns", "H", "size"), rows, (1, 2))


def interactions_map(found: ev.InteractionsReady) -> DiagnosisTable:
    """H of every pair of columns, shaded by the size of the interaction."""
    pairs = {frozenset((pair.a, pair.b)): pair for pair in found.pairs}
    most = max((pair.size for pair in found.pairs), default=0.0) or 1.0
    rows: list[tuple[str, ...]] = []
    shades: list[tuple[float, ...]] = []
    for a in found.columns:
        each = [pairs.get(frozenset((a, b))) if a != b else None for b in found.columns]
        rows.append((a, *("—" if pair is None else f"{pair.h:.2f}" for pair in each)))
        shades.append(tuple(0.0 if pair is None else pair.size / most for pair in each))
    sentence = "The number is H; the stronger the color, the larger the interaction."
    header, numbered = _fitted(("column", *found.columns), tuple(rows))
    return DiagnosisTable(
        "Interactions by column", (sentence,), header, numbered, tuple(range(1, len(header))), tuple(shades)
    )


def _fitted(
    header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows of a map; numbers replace names that do not fit a page and that the rows have, too."""
    names = [row[0] for row in rows]
    if sum(map(len, header)) <= LONGEST_HEADER or not set(header[1:]) & set(names):
        return header, rows
    numbers = tuple(str(names.index(name) + 1) if name in names else name for name in header[1:])
    return (header[0], *numbers), tuple((f"{i} {row[0]}", *row[1:]) for i, row in enumerate(rows, start=1))


def _size(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def attention_tables(found: ev.AttentionReady, state: RunState) -> list[DiagnosisTable]:
    """The attention of each layer, relative to chance, averaged over heads; the rows are the columns that attend."""
    tables: list[DiagnosisTable] = []
    model = f" · {subject_of(state, found)}" if len(state.attention) > 1 else ""
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
        header, rows = _fitted(("from ↓ to →", *each.keys), rows)
        if len(each.queries) == 1:
            # A long line would not fit a page.
            order = sorted(range(len(each.keys)), key=lambda key: -(ratios[0][key] or 0.0))
            rows, shades = tuple((each.keys[key], rows[0][1 + key]) for key in order), ()
            header = (f"from {each.queries[0]} to", each.kind)
            if any(each.spread[0]):
                margins = [f"±{value or 0.0:.1f}" for value in _relative(each.spread[0], each.chance)]
                rows = tuple((*row, margins[key]) for row, key in zip(rows, order, strict=True))
                header = (*header, "over folds")
        tables.append(
            DiagnosisTable(each.name + model, (sentence,), header, rows, tuple(range(1, len(header))), shades)
        )
    return tables


def _relative(shares: Sequence[float], chance: Sequence[float]) -> list[float | None]:
    """Shares divided by those of chance, None where that is 0."""
    return [share / each if each > 0 else None for share, each in zip(shares, chance, strict=True)]


def mean_over_heads(found: ev.AttentionMapView) -> list[list[float]]:
    """(queries, keys) mean of the heads."""
    n = len(found.heads)
    return [
        [sum(head[q][k] for head in found.heads) / n for k in range(len(found.keys))] for q in range(len(found.queries))
    ]


def faithfulness_table(found: ev.FaithfulnessReady, state: RunState) -> DiagnosisTable:
    """The importance of the top columns by each method, their rank correlations, and what to trust where they differ."""
    sentences = [
        f"Importances of {subject_of(state, found)} by {len(found.methods)} methods. Permutation and drop-and-refit are losses "
        f"of {found.metric_title}; the other methods give shares."
    ]
    for i, method in enumerate(found.methods):
        for j in range(i):
            value = found.correlations[i][j]
            if value is not None:
                sentences.append(f"Rank correlation of {found.methods[j]} and {method}: {value:+.2f}.")
    sentences += [f"{row.feature}: {row.advice}" for row in found.rows if row.advice]
    sentences += partial_sentences(found.partial)
    rows = tuple((row.feature, *(_value(value) for value in row.values)) for row in found.rows)
    header = ("column", *found.methods)
    return DiagnosisTable("Agreement of methods", tuple(sentences), header, rows, tuple(range(1, len(header))))


def partial_sentences(found: ev.Partial | None) -> tuple[str, ...]:
    """What the time limit of an analysis left out; empty if it is complete."""
    if found is None:
        return ()
    return (
        f"Partial result: {found.trained} of {found.planned} models were trained within {format_duration(found.seconds)}. Choose a "
        "longer --budget of tabapp diagnose for the others.",
    )


def _value(value: float | None) -> str:
    return format_score(value)


def _interval(row: ev.ImportanceRow | ev.GroupImportance | ev.ConditionalImportance) -> str:
    interval = UNSTABLE if row.unstable else f"{format_score(row.low)} to {format_score(row.high)}"
    return f"{format_score(row.permutation)} ({interval})"
