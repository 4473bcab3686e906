"""Attention importances of the columns, of every model of a run that has attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.importances import MOST_ROWS
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.schedule.competition import Competition
from tabapp.errors import TabappError, UsageError, did_you_mean
from tabapp.explain.agreement import rank_correlation
from tabapp.explain.attention import AttentionShare, attention_streams, column_combinations, mean_attention
from tabapp.explain.evaluation import rounded
from tabapp.explain.fold_model import FoldModel
from tabapp.findings import ColumnAttention, CombinedColumns, ImportanceRow, ModelAttention
from tabapp.models import registry
from tabapp.run.analyses.attention_importances import AttentionImportancesReady

MOST_PAIRS = 2e9
"""Rows times pairs of features whose attention is computed: a second or so for a network on one core."""
LEAST_ROWS = 100
MOST_COMBINATIONS = 20
SLOWER_THAN_PREDICTING = 3.0
"""Time of the attention of a row, as a multiple of that of its prediction; other programs may slow both down."""
NO_TIME = "the time of the run ended before"
NO_ATTENTION = "its trial has no attention between features"


def attentive(competition: Competition, members: Sequence[tuple[Candidate, float]] = ()) -> list[Candidate]:
    """The best trial of each model with attention: members of the ensemble first, those of the largest weight first, then the
    others, the best first."""
    weights: dict[str, float] = {}
    for member, weight in members:
        weights[member.model] = weights.get(member.model, 0.0) + weight
    best = (competition.best_of(name) for name in competition.models if registry.get(name).has_attention)
    found = [candidate for candidate in best if candidate is not None]
    return sorted(
        found,
        key=lambda each: (
            -weights.get(each.model, 0.0),
            -len(each.results),
            competition.loss_of(each),
            each.model,
        ),
    )


@dataclass
class AttentionOfRun:
    """Computes the attention of models, each once.

    Attributes:
        candidates: the models, in the order in which they are computed.
    """

    models: FoldModels
    candidates: Sequence[Candidate]
    _found: dict[tuple[str, int], tuple[ModelAttention | None, str]] = field(
        default_factory=dict[tuple[str, int], tuple[ModelAttention | None, str]]
    )
    _reported: dict[tuple[str, int], ModelAttention | None] = field(
        default_factory=dict[tuple[str, int], ModelAttention | None]
    )

    def first(self) -> tuple[Candidate, Mapping[str, AttentionShare]] | None:
        """The first model whose attention can be computed, with the share of each column; None if there is none."""
        for candidate in self.candidates:
            found, _ = self._of(candidate)
            if found is not None:
                return candidate, {
                    row.feature: AttentionShare(row.share, row.low, row.high, row.raw) for row in found.rows
                }
        return None

    def events(
        self, importances: Sequence[ImportanceRow], seconds_left: Callable[[], float] = lambda: math.inf
    ) -> Iterator[AttentionImportancesReady]:
        """The attention of each model, beside permutation importances, with a reason where it has none. Models for which the time
        is too short have no event; a further call has more."""
        for candidate in self.candidates:
            if candidate.key in self._reported:
                continue
            most_rows = self._most_rows(candidate, seconds_left())
            if candidate.key in self._found or most_rows >= LEAST_ROWS:
                event = event_of(candidate, *self._of(candidate, most_rows), importances)
                self._reported[candidate.key] = event.found
                yield event

    @property
    def found(self) -> list[ModelAttention]:
        """The attention of all models that have an event, in their order."""
        return [found for found in self._reported.values() if found is not None]

    def without_time(self) -> Iterator[AttentionImportancesReady]:
        """The models that had no event, because the time of the run ended before."""
        for candidate in self.candidates:
            if candidate.key not in self._reported:
                yield event_of(candidate, None, NO_TIME, ())

    def _most_rows(self, candidate: Candidate, seconds: float) -> int:
        """Rows whose attention a model is expected to compute in time: it takes longer than predictions."""
        fits = candidate.results.values()
        each = sum(fit.predict_seconds for fit in fits) / max(1, sum(fit.n_rows for fit in fits))
        return int(np.clip(seconds / (SLOWER_THAN_PREDICTING * max(each, 1e-9)), 0, MOST_ROWS)) if seconds > 0 else 0

    def _of(self, candidate: Candidate, most_rows: int = MOST_ROWS) -> tuple[ModelAttention | None, str]:
        if candidate.key not in self._found:
            try:
                found = attention_of(self.models, candidate, most_rows)
                self._found[candidate.key] = found, "" if found is not None else NO_ATTENTION
            except Exception as error:
                # A model of others that fails here must not cost the run its importances.
                reason = str(error) if isinstance(error, TabappError) else f"{type(error).__name__}: {error}"
                self._found[candidate.key] = None, " ".join(reason.split())[:200].rstrip(".")
        return self._found[candidate.key]


def attention_of(models: FoldModels, candidate: Candidate, most_rows: int = MOST_ROWS) -> ModelAttention | None:
    """The attention of a candidate to the columns on held-out rows, at most so many, without its agreement; None if it has no
    attention."""
    plugin, seed = registry.get(candidate.model), models.plan.seed
    columns = [column.name for column in models.data.schema.inputs]
    folds = models.with_held_out(candidate)
    most = min(rows_for(folds), most_rows)
    streams = attention_streams(folds, columns, seed=seed, max_rows=most)
    shares = next(iter(streams.values()), None) or mean_attention(folds, columns, seed=seed, max_rows=most)
    if shares is None:
        return None
    n_rows = min(most, sum(len(fold.table) for fold in folds))
    return ModelAttention(
        model=candidate.model,
        trial=candidate.trial,
        kind=plugin.attention_kind,
        n_rows=n_rows,
        n_folds=len(folds),
        rows=tuple(
            ColumnAttention(
                feature=name,
                share=rounded(each.share),
                low=rounded(each.low),
                high=rounded(each.high),
                raw=rounded(each.raw),
                streams=tuple(rounded(stream[name].share) for stream in streams.values() if name in stream),
            )
            for name, each in shares.items()
        ),
        streams=tuple(streams),
        combinations=tuple(
            CombinedColumns(
                columns=each.columns, frequency=rounded(each.frequency), n_found=each.n_found, n_folds=each.n_folds
            )
            for each in column_combinations(folds, seed=seed, max_rows=min(most, 500))[:MOST_COMBINATIONS]
        ),
    )


def rows_for(folds: Sequence[FoldModel]) -> int:
    """Held-out rows of all folds together: fewer for wide tables, whose attention is between more features."""
    n_features = max(fold.table.numeric.shape[1] + fold.table.categorical.shape[1] for fold in folds)
    return int(np.clip(MOST_PAIRS / max(1, n_features) ** 2, LEAST_ROWS, MOST_ROWS))


def event_of(
    candidate: Candidate, found: ModelAttention | None, reason: str, importances: Sequence[ImportanceRow]
) -> AttentionImportancesReady:
    """The event of a model, with the agreement of its attention and permutation importances."""
    if found is not None:
        permutation = {row.feature: row.permutation for row in importances if not row.unstable}
        pairs = [(row.share, permutation[row.feature]) for row in found.rows if row.feature in permutation]
        found = replace(found, agreement=rank_correlation(pairs))
    return AttentionImportancesReady(
        model=candidate.model, trial=candidate.trial, identity=candidate.identity, found=found, reason=reason
    )


def measure_attention(run: FinishedRun, model: str) -> AttentionImportancesReady:
    """The attention importances of the best trial of a model.

    Raises:
        UsageError: the run has no score of such a model, or the model has no attention.
    """
    names = [row.model for row in run.state.leaderboard if row.score is not None and row.model != "ensemble"]
    known = [name for name in names if registry.get(name).has_attention]
    if model not in known:
        there = f"; those with attention are {', '.join(known)}." if known else ". Train one, such as ft_transformer."
        hint = did_you_mean(model, known) or there
        raise UsageError(f"The run {run.folder.run} has no score of a model {model!r} with attention{hint}")
    candidate = run.best_of(model)
    found = attention_of(run.models, candidate)
    if found is None:
        raise UsageError(f"{registry.get(model).title} has no attention: {NO_ATTENTION}.")
    rows = run.state.importances.rows if run.state.importances is not None else ()
    return event_of(candidate, found, "", rows)
