"""The model whose attention is beside permutation importance on the Explain screen, and the models to choose from."""

from __future__ import annotations

import msgspec

from tabapp.findings import ModelAttention
from tabapp.run.analyses.attention_importances import (
    AttentionImportancesReady,
    agreement_text,
    attentions,
    combination_text,
    missing,
)
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState, title_of

MOST_PRODUCTS = 3
"""Products that the notes name."""


def chosen_attention(state: RunState, model: str | None) -> ModelAttention | None:
    """The attention of the chosen model, or of the first; None if the run has none, as in earlier versions."""
    found = {each.model: each for each in attentions(state)}
    return found.get(model or "") or next(iter(found.values()), None)


def with_attention(state: RunState, model: str | None) -> RunState:
    """A state whose importances have the attention of the chosen model beside permutation; unchanged without attention of it."""
    found, importances = chosen_attention(state, model), state.importances
    if found is None or importances is None:
        return state
    identity = next(each.identity for each in state.results(AttentionImportancesReady) if each.found is found)
    shares = {row.feature: row for row in found.rows}
    rows = tuple(
        msgspec.structs.replace(
            row,
            attention=None if (own := shares.get(row.feature)) is None else own.share,
            attention_low=None if own is None else own.low,
            attention_high=None if own is None else own.high,
            attention_raw=None if own is None else own.raw,
        )
        for row in importances.rows
    )
    shown = msgspec.structs.replace(
        importances,
        rows=rows,
        attention_model=found.model,
        attention_identity=identity,
        agreement=found.agreement,
    )
    return msgspec.structs.replace(state, importances=shown)


def kind_of(state: RunState, model: str | None) -> str:
    """What the attention of a model is called."""
    return next((each.kind for each in attentions(state) if each.model == model), "attention")


def attention_choices(state: RunState) -> list[tuple[str, str, str]]:
    """Model, title and note of each model with attention: members of the ensemble first, those without a result last."""
    weights: dict[str, float] = {}
    for member in state.ensemble.members if state.ensemble is not None else ():
        weights[member.model] = weights.get(member.model, 0.0) + member.weight
    options: list[tuple[str, str, str]] = []
    for each in attentions(state):
        kind = f"{each.kind} · " if each.kind != "attention" else ""
        weight = f"{weights[each.model]:.0%} of the ensemble · " if weights.get(each.model) else ""
        note = f"{kind}{weight}rank correlation {agreement_text(each)}"
        options.append((each.model, title_of(state, each.model), note))
    options += [
        (model, title_of(state, model), f"enter computes it: {reason}") for model, reason in missing(state).items()
    ]
    return options


def attention_note(found: ModelAttention | None, title: str) -> str:
    """What the attention of a model is, as a sentence that follows its name."""
    if found is None or found.kind == "attention":
        averaged = f"averaged over heads, layers and {_rows(found)}"
        return f" is the share of its attention that {title} gives a column, {averaged}. It shows where the model attends, not what"
    return (
        f" is how much {title} selects a column, averaged over {_rows(found)}. It shows what the model reads, not what"
    )


def _rows(found: ModelAttention | None) -> str:
    return "rows" if found is None else f"{found.n_rows:,} held-out rows"


def more_notes(found: ModelAttention | None, importances: ev.ImportancesReady) -> list[tuple[str, str]]:
    """A name and a sentence on the parts of the attention of a model."""
    if found is None:
        return []
    notes: list[tuple[str, str]] = []
    unseen = len(importances.rows) - sum(row.attention is not None for row in importances.rows)
    if unseen:
        columns = "1 column is" if unseen == 1 else f"{unseen:,} columns are"
        notes.append(("—", f" {columns} outside of its attention."))
    if found.streams:
        first, *others = found.streams
        notes.append((first.capitalize(), f" are shown; reports have the {', '.join(others)} beside them."))
    if found.combinations:
        products = "; ".join(
            f"{combination_text(each.columns)} ({each.frequency:.0%})" for each in found.combinations[:MOST_PRODUCTS]
        )
        notes.append(("Products", f" that its prompts choose most often: {products}."))
    return notes
