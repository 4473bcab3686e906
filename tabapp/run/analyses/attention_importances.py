"""Attention importances of the columns: how much attention each model that has any gives them, beside permutation importance."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.findings import ColumnAttention, ImportanceRow, ModelAttention
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Request, Value
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState, subject_of, title_of

MOST_COLUMNS = 20
"""Columns of a table; those of the largest permutation importance, or of the most attention without it."""
MOST_COMBINATIONS = 8


class AttentionImportancesReady(AnalysisEvent, tag="attention.importances.ready", frozen=True, kw_only=True):
    """Attention importances of the columns by a model.

    Attributes:
        found: None where they could not be computed.
        reason: why, as a sentence; empty if they were.
    """

    found: ModelAttention | None = None
    reason: str = ""

    @property
    def part(self) -> str:
        return self.model


def attentions(state: RunState) -> list[ModelAttention]:
    """The attention importances of a run, members of the ensemble first."""
    return [each.found for each in state.results(AttentionImportancesReady) if each.found is not None]


def missing(state: RunState) -> dict[str, str]:
    """Why models with attention have no attention importances, by model."""
    return {each.model: each.reason for each in state.results(AttentionImportancesReady) if each.found is None}


def agreement_text(found: ModelAttention) -> str:
    """The rank correlation with permutation importance: "+0.83", or "—" if it is undefined."""
    return "—" if found.agreement is None else f"{found.agreement:+.2f}"


def share_text(row: ColumnAttention | None) -> str:
    """A share with the half-width of its interval; "—" for a column that the attention does not see."""
    if row is None:
        return "—"
    margin = row.high - row.share
    return f"{row.share:.1%}" + (f" ± {margin:.1%}" if margin > 0 else "")


def ordered_columns(found: Sequence[ModelAttention], importances: Sequence[ImportanceRow]) -> list[str]:
    """The columns by permutation importance, then those without it by attention."""
    names = [row.feature for row in sorted(importances, key=lambda row: (row.unstable, -row.permutation))]
    most: dict[str, float] = {}
    for each in found:
        for row in each.rows:
            most[row.feature] = max(most.get(row.feature, 0.0), row.share)
    known = set(names)
    return [*names, *sorted((name for name in most if name not in known), key=lambda name: (-most[name], name))]


def comparison_table(state: RunState, most: int = MOST_COLUMNS) -> DiagnosisTable | None:
    """The shares of all models side by side with permutation importance, and their rank correlations; None without attention."""
    found = attentions(state)
    if not found:
        return None
    importances = () if state.importances is None else state.importances.rows
    permutation = {row.feature: row for row in importances}
    by_model = [{row.feature: row for row in each.rows} for each in found]
    rows: list[tuple[str, ...]] = []
    for name in ordered_columns(found, importances)[:most]:
        shares = [rows_of.get(name) for rows_of in by_model]
        own = permutation.get(name)
        value = "—" if own is None or own.unstable else format_score(own.permutation)
        rows.append((name, value, *("—" if share is None else f"{share.share:.1%}" for share in shares)))
    rows.append(("rank correlation", "", *map(agreement_text, found)))
    header = ("column", "permutation", *(title_of(state, each.model) for each in found))
    return DiagnosisTable("Attention of each model", (), header, tuple(rows), tuple(range(1, len(header))))


def combination_text(columns: Sequence[str]) -> str:
    """Columns that are multiplied."""
    return " × ".join(columns)


def attention_sentence(found: ModelAttention, subject: str) -> str:
    """What the shares are of."""
    folds = "1 fold" if found.n_folds == 1 else f"{found.n_folds} folds"
    means = "Mean over heads, layers, rows and folds" if found.kind == "attention" else "Mean over rows and folds"
    return (
        f"Share of the {found.kind} of {subject} that each column gets, for each feature of it, on {found.n_rows:,} held-out "
        f"rows of {folds}. {means}; intervals are 95 % over folds."
    )


def attention_parts(found: ModelAttention, subject: str) -> list[DiagnosisTable]:
    """The shares of a model, of its streams, and what it combines."""
    rows = sorted(found.rows, key=lambda row: -row.share)
    sentences = [attention_sentence(found, subject)]
    if found.agreement is not None:
        sentences.append(f"The rank correlation with permutation importance is {found.agreement:+.2f}.")
    if len(rows) > MOST_COLUMNS:
        sentences.append(f"{len(rows) - MOST_COLUMNS:,} columns with less {found.kind} are not shown.")
    # The first stream is the one that the shares are of.
    others = found.streams[1:]
    if others:
        sentences.append(f"The shares are those of the {found.streams[0]}; the {', '.join(others)} are beside them.")
    header = ("column", found.kind, *others)
    cells = tuple(
        (row.feature, share_text(row), *(f"{value:.1%}" for value in row.streams[1:])) for row in rows[:MOST_COLUMNS]
    )
    title = f"{found.kind.capitalize()} of {subject}"
    tables = [DiagnosisTable(title, tuple(sentences), header, cells, tuple(range(1, len(header))))]
    if found.combinations:
        text = (
            f"Each prompt of {subject} multiplies the columns that it selects, the same for all rows. These are the columns that "
            "prompts select most often."
        )
        lines = tuple(
            (
                combination_text(each.columns),
                f"{each.frequency:.0%}",
                f"{each.n_found}",
                f"{each.n_folds} of {found.n_folds}",
            )
            for each in found.combinations[:MOST_COMBINATIONS]
        )
        header = ("columns", "selected", "prompts", "folds")
        tables.append(DiagnosisTable(f"Products of {subject}", (text,), header, lines, (1, 2, 3)))
    return tables


def _tables(event: AttentionImportancesReady, state: RunState) -> list[DiagnosisTable]:
    subject = subject_of(state, event)
    if event.found is None:
        return [DiagnosisTable(f"Attention of {subject}", (event.reason,))]
    return attention_parts(event.found, subject)


def _line(event: AttentionImportancesReady, state: RunState) -> str:
    if event.found is None:
        return f"No attention of {title_of(state, event.model)}: {event.reason}"
    agreement = "" if event.found.agreement is None else f", rank correlation {event.found.agreement:+.2f}"
    return f"{event.found.kind.capitalize()} of {title_of(state, event.model)}{agreement}"


def _models(state: RunState) -> list[Value]:
    """The models with attention of a run."""
    return [
        Value(each.model, title_of(state, each.model), "compute again" if each.found else "not computed yet")
        for each in state.results(AttentionImportancesReady)
    ]


def _is_offered(state: RunState) -> bool:
    """The engine notes each model with attention at the end of a run; runs of earlier versions have none."""
    return bool(state.results(AttentionImportancesReady))


ANALYSIS = Analysis(
    event=AttentionImportancesReady,
    rank=65,
    tables=_tables,
    line=_line,
    of_columns=True,
    has_own_section=True,
    request=Request(
        option="attention",
        help="Compute the attention importances of the columns by one model, such as npt.",
        computation="tabapp.engine.analyses.attention_importances:measure_attention",
        title="Attention of a model",
        note="how much attention each column gets",
        metavar="MODEL",
        question="Attention of",
        values=_models,
        is_offered=_is_offered,
    ),
)
