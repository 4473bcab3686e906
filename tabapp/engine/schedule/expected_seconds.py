"""The expected seconds of a fit in a run with a time limit: measured on this table where there are fits, or a corrected prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from statistics import fmean, median

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.scheduler import ModelRecord

PRIOR_WEIGHT = 1.0
"""Weight of the prior time of a model against one measured model when the factor between the two is estimated."""
MOST_RATIO = 3.0
"""A ratio of measured and prior time counts as at most this multiple of the median ratio, and at least as the median over it: one
wrong prior says little about other models."""


class ExpectedSeconds:
    """Seconds of a worker for the next fits.

    Args:
        models: the competing models, with their priors.
        latest: seconds of the latest fits of a model.
        measured: seconds of all fits of a model.
        candidates: of a model, oldest first.
    """

    def __init__(
        self,
        models: Mapping[str, ModelRecord],
        latest: Callable[[str], list[float]],
        measured: Callable[[str], list[float]],
        candidates: Callable[[str], Iterable[Candidate]],
    ) -> None:
        self._models, self._latest, self._measured, self._candidates = models, latest, measured, candidates
        self._overheads: dict[str, list[float]] = {}
        self._overhead: dict[str, float] = {}
        self._known: dict[str, float] | None = None
        """Expected seconds of models during one decision, which asks for them hundreds of times; None between decisions."""
        self._ratios: dict[str, dict[str, list[float]]] = {}
        """`_log_ratios` by class of devices during one decision; empty between decisions."""

    def record_overhead(self, seconds: float, device: str = CPU) -> None:
        """Record what a fit took beside training and predicting: to start, to prepare features, and to save."""
        known = self._overheads.setdefault(device, [])
        known.append(seconds)
        self._overhead[device] = median(known[-20:])

    def _overhead_of(self, name: str) -> float:
        return self._overhead.get(self._models[name].device, 0.0)

    @contextmanager
    def decision(self) -> Generator[None]:
        """While no fit ends, nothing is computed twice."""
        self._known = {}
        try:
            yield
        finally:
            self._known = None
            self._ratios.clear()

    def of_model(self, name: str) -> float:
        """Of the next fit of a model: measured on this table, or its prior, corrected by the ratios of measured and prior times of
        other models, those with the same libraries first."""
        if self._known is None:
            return self._of_model(name)
        if name not in self._known:
            self._known[name] = self._of_model(name)
        return self._known[name]

    def of_candidate(self, candidate: Candidate) -> float:
        """Of another fold of a candidate, whose hyperparameters may take much more time than those of its model's other fits. Its
        folds are compared with the same folds of a complete candidate, because some models take longer for the first."""
        if not candidate.results:
            return self.of_model(candidate.model)
        own = _mean_seconds(candidate, candidate.results)
        complete = (
            other for other in self._candidates(candidate.model) if other.is_complete and other is not candidate
        )
        reference = next(complete, None)
        if reference is None or not candidate.missing_folds:
            return self._overhead_of(candidate.model) + own
        faster = _mean_seconds(reference, candidate.missing_folds) / max(
            _mean_seconds(reference, candidate.results), 1e-3
        )
        return self._overhead_of(candidate.model) + faster * own

    def _of_model(self, name: str) -> float:
        latest, record = self._latest(name), self._models[name]
        seconds = fmean(latest) if latest else record.prior_seconds * self._slowdown(record.libraries, record.device)
        return self._overhead_of(name) + seconds

    def _slowdown(self, libraries: str, device: str) -> float:
        """Expected ratio of measured and prior seconds of a model without a fit: a geometric mean over the models with the
        same libraries, shrunk to the mean of all models on such devices, which is shrunk to 1."""
        logs = self._log_ratios(device)
        every = [value for values in logs.values() for value in values]
        overall = sum(every) / (len(every) + PRIOR_WEIGHT)
        related = logs.get(libraries, [])
        return math.exp((sum(related) + PRIOR_WEIGHT * overall) / (len(related) + PRIOR_WEIGHT))

    def _log_ratios(self, device: str) -> dict[str, list[float]]:
        """Logarithms of the ratios of measured and prior seconds on a class of devices, by libraries."""
        if device in self._ratios:
            return self._ratios[device]
        logs: dict[str, list[float]] = {}
        for record in self._models.values():
            if record.device == device and (measured := self._measured(record.name)):
                ratio = max(fmean(measured), 1e-3) / record.prior_seconds
                logs.setdefault(record.libraries, []).append(math.log(ratio))
        if logs:
            middle = median(value for values in logs.values() for value in values)
            low, high = middle - math.log(MOST_RATIO), middle + math.log(MOST_RATIO)
            logs = {libraries: [min(max(value, low), high) for value in values] for libraries, values in logs.items()}
        if self._known is not None:
            self._ratios[device] = logs
        return logs


def _mean_seconds(candidate: Candidate, folds: Iterable[int]) -> float:
    results = [candidate.results[fold] for fold in folds]
    return fmean(result.seconds + result.predict_seconds for result in results)
