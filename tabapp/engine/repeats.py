"""Which trial a run repeats with other random numbers: the mean of models that differ only in these varies less than each.

A repeat has the hyperparameters of an earlier trial. Its early-stopping rows, initial weights and samples of rows and columns are
its own, so that rows that stopped one model train another. On seven small tables, the ensemble of five models has 0.995 ± 0.003
times the test error with two repeats of each, 0.999 ± 0.006 times with two other configurations of each, and 0.991 ± 0.007 times
with both (`benchmarks.repeats`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tabapp.engine.candidates import Candidate


def key_of(params: Mapping[str, Any]) -> bytes:
    """What hyperparameters are compared by."""
    return msgspec.json.encode(params, order="sorted")


def trial_to_repeat(candidates: Collection[Candidate], weights: Mapping[tuple[str, int], float]) -> Candidate | None:
    """The trial of a model that its next trial repeats; None if that gets new hyperparameters.

    Every second new trial is a repeat: of the hyperparameters with the largest weight in the ensemble for each of their trials. A
    model whose repeat equals the trial that it repeats has no random numbers, and is not repeated.

    Args:
        candidates: the trials of the model, oldest first.
        weights: of the members of the ensemble by model and trial.
    """
    alike: dict[bytes, list[Candidate]] = {}
    for candidate in candidates:
        alike.setdefault(key_of(candidate.params), []).append(candidate)
    n_repeats = len(candidates) - len(alike)
    if n_repeats >= len(alike) - 1 or any(equals(other, group[0]) for group in alike.values() for other in group[1:]):
        return None

    def weight_of(group: list[Candidate]) -> float:
        return sum(weights.get(candidate.key, 0.0) for candidate in group) / len(group)

    best = max(alike.values(), key=weight_of)
    complete = [candidate for candidate in best if candidate.is_complete]
    return complete[0] if complete and weight_of(best) > 0 else None


def equals(repeat: Candidate, original: Candidate) -> bool:
    """Whether two trials have equal scores on the folds that both have, and have such folds."""
    common = repeat.results.keys() & original.results.keys()
    return bool(common) and all(repeat.results[fold].score == original.results[fold].score for fold in common)
