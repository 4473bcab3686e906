"""The importances of a report: permutation importance, and the attention of each model that has any."""

from __future__ import annotations

from tabapp.report.parts import Bar, Bars, Part, Table, Text
from tabapp.run.analyses.attention_importances import AttentionImportancesReady, attention_parts, comparison_table
from tabapp.run.record.importance_notes import notes
from tabapp.run.record.state import RunState, format_score, subject_of, title_of

MAX_IMPORTANCES = 30
TRUST = "Where they disagree, trust permutation importance, which measures the effect on the score."


def importance_parts(state: RunState) -> list[Part]:
    """Permutation importance, and the attention of each model; empty without importances."""
    return [*_permutation(state), *_attention(state)]


def _permutation(state: RunState) -> list[Part]:
    found, plan = state.importances, state.plan
    if found is None or plan is None:
        return []
    if not found.rows:
        if notes(found):
            return [Text(sentence) for sentence in notes(found)]
        return [Text(f"The time limit left no time for importances of {subject_of(state, found)}.")]
    shown = found.rows[:MAX_IMPORTANCES]
    bars = tuple(Bar(row.feature, row.permutation, row.low, row.high) for row in shown if not row.unstable)
    parts: list[Part] = [
        Text(
            f"Permutation importance: how much the {plan.metric_title} of {subject_of(state, found)} worsens when the values "
            f"of a column are shuffled, on {found.n_rows:,} held-out rows. Negative values are noise around zero."
        ),
        Bars("Permutation importance", f"worse {plan.metric_title}", bars),
    ]
    parts += [Text(sentence) for sentence in notes(found)]
    if any(row.unstable for row in shown):
        unstable = tuple((row.feature, format_score(row.permutation)) for row in shown if row.unstable)
        parts.append(Table("Unstable importances", ("column", f"worse {plan.metric_title}"), unstable, (1,)))
    if len(found.rows) > len(shown):
        parts.append(Text(f"{len(found.rows) - len(shown)} less important columns are not shown."))
    return parts


def _attention(state: RunState) -> list[Part]:
    """The attention of each model, side by side with permutation and on its own, with the trust that it deserves."""
    found = state.results(AttentionImportancesReady)
    if not found:
        return _attention_of_earlier_versions(state)
    parts: list[Part] = []
    comparison = comparison_table(state, MAX_IMPORTANCES)
    if comparison is not None:
        parts += [Table(comparison.title, comparison.header, comparison.rows, comparison.right), Text(TRUST)]
    for event in found:
        subject = subject_of(state, event)
        if event.found is None:
            parts.append(Text(f"There is no attention of {subject}: {event.reason}."))
            continue
        kind = event.found.kind
        rows = sorted(event.found.rows, key=lambda row: -row.share)[:MAX_IMPORTANCES]
        bars = tuple(Bar(row.feature, row.share, row.low, row.high) for row in rows)
        first, *more = attention_parts(event.found, subject)
        parts += [Text(sentence) for sentence in first.sentences]
        parts.append(Bars(f"{kind.capitalize()} of {subject}", f"share of {kind}", bars))
        if event.found.streams:
            header = ("Column", *event.found.streams)
            cells = tuple((row.feature, *(f"{share:.1%}" for share in row.streams)) for row in rows)
            right = tuple(range(1, len(header)))
            parts.append(Table(f"{' and '.join(event.found.streams).capitalize()} of {subject}", header, cells, right))
        for table in more:
            parts += [*map(Text, table.sentences), Table(table.title, table.header, table.rows, table.right)]
    return parts


def _attention_of_earlier_versions(state: RunState) -> list[Part]:
    """The attention of the one model that runs of earlier versions have."""
    found = state.importances
    if found is None or found.attention_model is None:
        return []
    bars = [Bar(row.feature, row.attention) for row in found.rows if row.attention is not None]
    bars = tuple(sorted(bars, key=lambda bar: -bar.value)[:MAX_IMPORTANCES])
    parts: list[Part] = [Bars(f"Attention of {title_of(state, found.attention_model)}", "share of attention", bars)]
    if found.agreement is not None:
        text = f"The rank correlation of attention and permutation importance is {found.agreement:.2f}. {TRUST}"
        parts.append(Text(text))
    return parts
