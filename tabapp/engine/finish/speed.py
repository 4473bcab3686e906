"""How long models take to predict, and the best ensemble within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tabapp import metrics
from tabapp.engine.analyses.finished_run import FinishedRun, damage_as_error
from tabapp.engine.fit.candidates import Candidate, Scorer
from tabapp.engine.fit.features import recipe_id
from tabapp.engine.machine.devices import CPU
from tabapp.ensemble.blending import blend
from tabapp.ensemble.greedy import select
from tabapp.errors import UsageError, option
from tabapp.models import registry
from tabapp.policy import POLICY

REPEATS = 3
SEARCH_ROUNDS, SEARCH_ROWS = 10, 5_000
"""Rounds and rows of the selections that are only compared with each other."""


def processor_ms(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least processor time of a call in milliseconds, of all threads together. A first call, which may prepare, is not counted."""
    work()
    times: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(1000 * (time.process_time() - started))
    return min(times)


def timing_rows(run: FinishedRun, n_rows: int) -> pl.DataFrame:
    """Typed training rows to predict, repeated if there are too few."""
    return run.data.frame[np.arange(n_rows) % run.data.frame.height]


@dataclass
class Speeds:
    """Measured milliseconds of one model of each candidate, and of the features of each recipe.

    Attributes:
        rows: typed rows that are predicted.
    """

    run: FinishedRun
    rows: pl.DataFrame
    models: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    features: dict[str, float] = field(default_factory=dict[str, float])

    def measure(self, candidate: Candidate) -> None:
        """Measure the first model of a candidate, and its features."""
        fold, result = min(candidate.results.items())
        with damage_as_error(self.run.folder):
            preparer = self.run.models.features(candidate, fold).preparer
            # Bundles predict on the CPU.
            model = self.run.models.model(candidate, fold, CPU)
        recipe, table = recipe_id(result.recipe), preparer.transform(self.rows)
        if recipe not in self.features:
            self.features[recipe] = processor_ms(lambda: preparer.transform(self.rows))
        self.models[candidate.key] = processor_ms(lambda: model.predict(table))

    def total(self, candidates: Sequence[Candidate], n_models: int) -> float:
        """Milliseconds of an ensemble with so many models of each candidate, or one of those that train nothing. Models of a fold
        share its features."""
        copies = {c.key: 1 if registry.trains_nothing(c.model) else n_models for c in candidates}
        recipes = {(recipe_id(next(iter(c.results.values())).recipe), copies[c.key]) for c in candidates}
        models = sum(copies[c.key] * self.models[c.key] for c in candidates)
        return models + sum(n * self.features[recipe] for recipe, n in recipes)


def pool_of(run: FinishedRun) -> list[Candidate]:
    """Candidates for an ensemble within a limit: the best trial of each model, and the best of the other trials.

    Models that the user excluded are left out.
    """
    left_out = run.left_out
    complete = [c for c in run.candidates.values() if c.is_complete and c.model not in left_out]
    ordered = sorted(complete, key=lambda c: (run.scorer.loss(c), c.key))
    first_of_model = {candidate.model: candidate for candidate in reversed(ordered)}
    firsts = sorted(first_of_model.values(), key=lambda c: (run.scorer.loss(c), c.key))
    rest = [candidate for candidate in ordered if candidate not in firsts]
    return [*firsts, *rest][: max(len(firsts), POLICY.ensemble_candidates)]


def select_within(
    pool: Sequence[Candidate], speeds: Speeds, scorer: Scorer, metric: str, seed: int, *, limit: float, n_models: int
) -> list[Candidate]:
    """Choose the candidates of an ensemble by forward selection: each step adds the one that improves the blend most, as long as
    the total time stays within the limit.

    Args:
        pool: complete candidates of the same folds, measured in `speeds`.
        limit: milliseconds.
        n_models: models of each candidate.

    Raises:
        UsageError: no candidate alone stays within the limit; names the fastest.
    """
    predictions = {candidate.key: scorer.out_of_fold(candidate)[0] for candidate in pool}
    chosen: list[Candidate] = []
    lowest = np.inf
    while True:
        best: Candidate | None = None
        for candidate in pool:
            tried = [*chosen, candidate]
            if candidate in chosen or speeds.total(tried, n_models) > limit:
                continue
            parts = [predictions[each.key] for each in tried]
            weights = select(
                parts, scorer.target, metric, scorer.weight, SEARCH_ROUNDS, seed=seed, max_rows=SEARCH_ROWS
            )
            loss = metrics.loss(metric, scorer.target, blend(parts, weights), scorer.weight)
            if loss < lowest:
                best, lowest = candidate, loss
        if best is None:
            break
        chosen.append(best)
    if not chosen:
        fastest = min(pool, key=lambda candidate: speeds.total([candidate], n_models))
        needed = speeds.total([fastest], n_models)
        advice = "" if n_models == 1 else f", or add {option('refit')}, which replaces the models of the folds by one"
        raise UsageError(
            f"No model of the run predicts {speeds.rows.height:,} rows within {limit:g} ms here. The fastest, {fastest.model}, "
            f"needs {needed:.3g} ms. Raise {option('limit_ms')}{advice}."
        )
    return chosen
