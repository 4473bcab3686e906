"""Importances of a network by attention and by methods that measure the score, and whether they agree."""

from __future__ import annotations

import msgspec

from tabapp.run.analyses.parts import Partial, partial_sentences
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Request
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState, subject_of, title_of


class FaithfulnessRow(msgspec.Struct, frozen=True, kw_only=True):
    """The importance of a column by each method; None where it was not computed."""

    feature: str
    values: tuple[float | None, ...]
    advice: str = ""


class FaithfulnessReady(AnalysisEvent, tag="faithfulness.ready", frozen=True, kw_only=True):
    """Importances of the top columns by several methods, and the rank correlation of each pair.

    Attributes:
        model: the network with attention, which all methods explain.
        methods: attention, permutation, integrated gradients, drop and refit.
        correlations: (methods, methods) Spearman's rank correlation; None if undefined.
        partial: what the time limit left out of drop and refit; None if it is complete.
    """

    metric_title: str
    methods: tuple[str, ...]
    rows: tuple[FaithfulnessRow, ...]
    correlations: tuple[tuple[float | None, ...], ...]
    partial: Partial | None = None


def _tables(found: FaithfulnessReady, state: RunState) -> list[DiagnosisTable]:
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
    rows = tuple((row.feature, *(format_score(value) for value in row.values)) for row in found.rows)
    header = ("column", *found.methods)
    right = tuple(range(1, len(header)))
    return [DiagnosisTable("Agreement of methods", tuple(sentences), header, rows, right)]


def _is_offered(state: RunState) -> bool:
    """Without importances, it is unknown whether a model has attention."""
    return state.importances is None or state.importances.attention_model is not None


ANALYSIS = Analysis(
    event=FaithfulnessReady,
    rank=70,
    tables=_tables,
    line=lambda found, state: f"Importances of {title_of(state, found.model)} by {len(found.methods)} methods",
    of_columns=True,
    request=Request(
        option="faithfulness",
        help="Compare attention with permutation, integrated gradients, and training again without each of the top columns.",
        computation="tabapp.engine.analyses.faithfulness:measure_faithfulness",
        title="Attention compared",
        note="with permutation, gradients, and training without a column",
        trains=True,
        is_offered=_is_offered,
        needs="a network with attention",
    ),
)
