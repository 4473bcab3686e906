"""Correlated columns, interactions, attention maps and the agreement of importance methods as tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run import events as ev
from tabapp.run.config import format_duration
from tabapp.run.diagnosis_table import DiagnosisTable
from tabapp.run.state import RunState, format_score, title_of

SHOWN_PAIRS = 15


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
            rows.append((" + ".join(group.columns), _interval(group.permutation, group.low, group.high)))
            rows += [
                (f"  {name}", _interval(plain[name].permutation, plain[name].low, plain[name].high))
                for name in group.columns
                if name in plain
            ]
        sentence = (
            "Columns of a group depend on each other, so each seems less important alone: shuffled together, they show what the "
            f"group is worth to {title_of(state, found.model)}."
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
                _interval(plain[each.feature].permutation, plain[each.feature].low, plain[each.feature].high),
                _interval(each.permutation, each.low, each.high),
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
        f"H is the share of the joint effect of two columns on {title_of(state, found.model)} that is not the sum of their single "
        f"effects. The size is the standard deviation of that part, in units of the {unit}: read H only where the size matters."
    )
    rows = tuple((f"{p.a} × {p.b}", f"{p.h:.2f}", f"{p.size:.3g}") for p in found.pairs[:SHOWN_PAIRS])
    return DiagnosisTable("Interactions", (sentence,), ("columns", "H", "size"), rows, (1, 2))


def attention_tables(found: ev.AttentionReady, state: RunState) -> list[DiagnosisTable]:
    """The attention of each layer, relative to chance, averaged over heads; the rows are the columns that attend."""
    tables: list[DiagnosisTable] = []
    model = f" · {title_of(state, found.model)}" if len(state.attention) > 1 else ""
    for each in found.maps:
        mean = mean_over_heads(each)
        rows = tuple(
            (
                query,
                *(
                    f"{share / chance:.1f}" if chance > 0 else "—"
                    for share, chance in zip(row, each.chance, strict=True)
                ),
            )
            for query, row in zip(each.queries, mean, strict=True)
        )
        sentence = (
            f"{each.kind.capitalize()} of {title_of(state, found.model)} on {found.n_rows:,} held-out rows, {len(each.heads)} "
            f"head{'s' if len(each.heads) > 1 else ''} averaged, divided by what equal {each.kind} would give: 1 is chance."
        )
        header = ("from ↓ to →", *each.keys)
        if len(each.queries) == 1:
            # A long line would not fit a page.
            rows = tuple(
                sorted(zip(each.keys, rows[0][1:], strict=True), key=lambda line: line[1].rjust(9), reverse=True)
            )
            header = (f"from {each.queries[0]} to", each.kind)
        tables.append(DiagnosisTable(each.name + model, (sentence,), header, rows, tuple(range(1, len(header)))))
    return tables


def mean_over_heads(found: ev.AttentionMapView) -> list[list[float]]:
    """(queries, keys) mean of the heads."""
    n = len(found.heads)
    return [
        [sum(head[q][k] for head in found.heads) / n for k in range(len(found.keys))] for q in range(len(found.queries))
    ]


def faithfulness_table(found: ev.FaithfulnessReady, state: RunState) -> DiagnosisTable:
    """The importance of the top columns by each method, their rank correlations, and what to trust where they differ."""
    sentences = [
        f"Importances of {title_of(state, found.model)} by {len(found.methods)} methods. Permutation and drop-and-refit are losses "
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


def _interval(value: float, low: float, high: float) -> str:
    return f"{format_score(value)} ({format_score(low)} to {format_score(high)})"


def heat_map(names: Sequence[str], pairs: Sequence[ev.InteractionView]) -> list[list[float]]:
    """(columns, columns) sizes of the interactions, 0 on the diagonal and where none is known."""
    sizes = {frozenset((pair.a, pair.b)): pair.size for pair in pairs}
    return [[sizes.get(frozenset((a, b)), 0.0) if a != b else 0.0 for b in names] for a in names]
