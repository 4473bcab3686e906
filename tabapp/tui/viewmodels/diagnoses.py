"""The analyses of a run as text, and the options to request them."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run import events as ev
from tabapp.run.dependence_tables import mean_over_heads
from tabapp.run.diagnoses import DiagnosisTable
from tabapp.run.state import RunState, title_of
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED

KNOWN, THRESHOLD, ROBUSTNESS, FAIRNESS = "known", "threshold", "robustness", "fairness"
LEARNING_CURVE, TIME_CURVE, FAITHFULNESS, ATTENTION = "learning-curve", "time-curve", "faithfulness", "attention"
SHADES = ("$foreground 40%", "", "$primary", "bold $primary")
"""Styles of less attention than chance, about as much, more, and more than twice as much."""
COST = "cost"


def analysis_options(state: RunState, known: int) -> list[tuple[str, str, str]]:
    """The analyses that a run allows: value, label and note."""
    options = [(KNOWN, "Results so far", f"{known}")] if known else []
    if state.plan is not None and state.plan.task == "binary":
        options.append((THRESHOLD, "Threshold", "by a metric or by costs; kept in the bundle"))
    if state.attention:
        options.append((ATTENTION, "Attention map", "by layer and head"))
    options += [
        (ROBUSTNESS, "Robustness", "score with missing and noisy cells"),
        (LEARNING_CURVE, "Learning curve over rows", "would more rows help? trains the best model again"),
    ]
    columns = state.schema.columns if state.schema is not None else ()
    if any(column.kind == "datetime" or column.role == "time" for column in columns):
        options.append((TIME_CURVE, "Learning curve over time", "do old rows help, and does the model age?"))
    return [
        *options,
        (FAITHFULNESS, "Attention compared", "with permutation, gradients, and training without a column"),
        (FAIRNESS, "Groups of a column", "rates, errors and calibration per group"),
    ]


THRESHOLD_OPTIONS = [
    ("f1", "F1", "precision and recall"),
    ("balanced_accuracy", "Balanced accuracy", "mean recall of both classes"),
    ("accuracy", "Accuracy", "share of correct labels"),
    (COST, "Costs", "of a false negative and a false positive"),
    ("none", "0.5", "restore the more probable class"),
]


def attention_options(state: RunState) -> list[tuple[str, str, str]]:
    """The layers and heads of the attention maps; the value is MODEL:LAYER:HEAD, all counted from 0,
    with head -1 for the mean over heads."""
    found: list[tuple[str, str, str]] = []
    for place, ready in enumerate(state.attention.values()):
        model = f"{title_of(state, ready.model)} · " if len(state.attention) > 1 else ""
        for layer, each in enumerate(ready.maps):
            n_heads, key = len(each.heads), f"{place}:{layer}"
            title = model + (each.title if each.kind == "attention" else each.name)
            mean = f"mean of {n_heads} heads" if n_heads > 1 else f"{len(each.queries)} × {len(each.keys)}"
            found.append((f"{key}:-1", title, mean))
            found += [(f"{key}:{head}", f"{title} · head {head + 1}", "") for head in range(n_heads) if n_heads > 1]
    return found


def chosen_map(state: RunState, choice: str) -> tuple[str, Content]:
    """Title and heat map of a value of `attention_options`."""
    place, layer, head = (int(part) for part in choice.split(":"))
    ready = list(state.attention.values())[place]
    return attention_content(ready.maps[layer], head, title_of(state, ready.model))


def attention_content(found: ev.AttentionMapView, head: int, model: str) -> tuple[str, Content]:
    """Title and heat map of a head, or of the mean over heads for -1: attention of a model relative to chance."""
    weights = mean_over_heads(found) if head < 0 else found.heads[head]
    wide = max(len(query) for query in found.queries)
    widths = [max(5, min(12, len(key))) for key in found.keys]
    cells = [key[:width].rjust(width) for key, width in zip(found.keys, widths, strict=True)]
    lines = [
        Content(f"Share of the {found.kind} of {model} divided by what equal {found.kind} would give: 1 is chance."),
        Content("Rows attend to columns." if len(found.queries) > 1 else ""),
        Content(""),
        Content.styled("  ".join([" " * wide, *cells]), MUTED),
    ]
    for query, row, spread in zip(found.queries, weights, found.spread, strict=True):
        parts: list[tuple[str, str]] = [(query.ljust(wide), "")]
        for share, chance, width in zip(row, found.chance, widths, strict=True):
            ratio = share / chance if chance > 0 else 0.0
            style = SHADES[0 if ratio < 0.7 else 1 if ratio < 1.4 else 2 if ratio < 2.5 else 3]
            parts.append((f"  {ratio:{width}.1f}", style))
        lines.append(Content.assemble(*parts))
        if head < 0 and any(spread) and len(found.queries) == 1:
            margins = [f"±{s / c:.1f}".rjust(w) for s, c, w in zip(spread, found.chance, widths, strict=True)]
            lines.append(Content.styled("  ".join(["over folds".ljust(wide), *margins]), MUTED))
    return f"{found.kind.capitalize()} · {found.title}" + (f" · head {head + 1}" if head >= 0 else ""), Content(
        "\n"
    ).join(lines)


def tables_content(tables: Sequence[DiagnosisTable]) -> Content:
    """Sentences and tables below each other, each with its title if there are several."""
    lines: list[Content] = []
    for found in tables:
        lines += [Content("")] if lines else []
        lines += [Content.styled(found.title, "bold $primary")] if len(tables) > 1 else []
        lines += [Content(sentence) for sentence in found.sentences]
        if found.rows:
            widths = [max(len(row[i]) for row in (found.header, *found.rows)) for i in range(len(found.header))]
            lines += [Content(""), Content.styled(_line(found.header, widths, found.right), MUTED)]
            lines += [Content(_line(row, widths, found.right)) for row in found.rows]
    return Content("\n").join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    parts = [
        cell.rjust(width) if index in right else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()
