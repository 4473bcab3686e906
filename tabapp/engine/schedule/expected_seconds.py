"""The expected seconds of a fit: measured on this table where there are fits, or a corrected prior."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, median, median_low

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.competition import Competition
from tabapp.policy import Policy


class ExpectedSeconds:
    """Seconds of a worker for the next fits, as long as no fit ends: nothing is computed twice.

    Args:
        overheads: what the last fits took beside training and predicting, by class of devices.
        slowdowns: those of the last fits by class of devices, the latest last. A fit that waited for a processor, for example while
            libraries were loaded, does not make the next ones longer.
        corrects: correct priors by the times of other models. Without a time limit, decisions depend on no other model's time.
    """

    def __init__(
        self,
        competition: Competition,
        policy: Policy,
        overheads: Mapping[str, Sequence[float]],
        slowdowns: Mapping[str, Sequence[float]],
        *,
        corrects: bool,
    ) -> None:
        self._competition, self._policy, self._corrects = competition, policy, corrects
        self._overheads = {device: median(seconds) for device, seconds in overheads.items()}
        self._waiting = {device: median_low(latest) for device, latest in slowdowns.items()}
        self._known: dict[str, float] = {}
        self._ratios: dict[str, dict[str, list[float]]] = {}
        """`_log_ratios` by class of devices."""

    def of_model(self, name: str) -> float:
        """Of the next fit of a model: the mean of its last ten fits, or its prior, corrected by the ratios of measured and prior
        times of other models, those with the same libraries first."""
        if name not in self._known:
            latest, record = self._competition.latest_seconds(name), self._competition.models[name]
            factor = self._correction(record.libraries, record.device) if self._corrects and not latest else 1.0
            quiet = fmean(latest) if latest else record.prior_seconds * factor
            self._known[name] = self._overhead(name) + self._waiting.get(record.device, 1.0) * quiet
        return self._known[name]

    def of_candidate(self, candidate: Candidate) -> float:
        """Of another fold of a candidate, the mean of those that it lacks. Its hyperparameters may take much more time than those
        of its model's other fits. Some models take longer for the first folds: how much longer is known from a complete
        candidate, or expected."""
        if not candidate.results:
            return self.of_model(candidate.model)
        own, missing = _mean_seconds(candidate, candidate.results), candidate.missing_folds
        others = self._competition.of_model(candidate.model)
        reference = next((other for other in others if other.is_complete and other is not candidate), None)
        if reference is not None and missing:
            before = max(_mean_seconds(reference, candidate.results), 1e-3)
            own *= _mean_seconds(reference, missing) / before
        elif missing:
            own *= self.in_first_folds(candidate, missing) / len(missing)
            own /= self.in_first_folds(candidate, candidate.results) / len(candidate.results)
        waiting = self._waiting.get(self._competition.models[candidate.model].device, 1.0)
        return self._overhead(candidate.model) + waiting * own

    def in_first_folds(self, candidate: Candidate, folds: Collection[int]) -> float:
        """The expected seconds of some folds of a candidate as a multiple of those of its first."""
        n_later = sum(0 < candidate.n_pilots <= fold for fold in folds)
        return len(folds) - (1 - self._competition.models[candidate.model].later_share) * n_later

    def _overhead(self, name: str) -> float:
        return self._overheads.get(self._competition.models[name].device, 0.0)

    def _correction(self, libraries: str, device: str) -> float:
        """Expected ratio of measured and prior seconds of a model without a fit: a geometric mean over the models with the same
        libraries, shrunk to the mean of all models on such devices, which is shrunk to 1."""
        logs, prior = self._log_ratios(device), self._policy.prior_weight
        every = [value for values in logs.values() for value in values]
        overall = sum(every) / (len(every) + prior)
        related = logs.get(libraries, [])
        return math.exp((sum(related) + prior * overall) / (len(related) + prior))

    def _log_ratios(self, device: str) -> dict[str, list[float]]:
        """Logarithms of the ratios of measured and prior seconds on a class of devices, by libraries."""
        if device in self._ratios:
            return self._ratios[device]
        logs: dict[str, list[float]] = {}
        for record in self._competition.models.values():
            if record.device == device and (measured := self._competition.measured_seconds(record.name)):
                ratio = max(fmean(measured), 1e-3) / record.prior_seconds
                logs.setdefault(record.libraries, []).append(math.log(ratio))
        if logs:
            middle, most = (
                median(value for values in logs.values() for value in values),
                math.log(self._policy.most_ratio),
            )
            low, high = middle - most, middle + most
            logs = {libraries: [min(max(value, low), high) for value in values] for libraries, values in logs.items()}
        self._ratios[device] = logs
        return logs


def _mean_seconds(candidate: Candidate, folds: Iterable[int]) -> float:
    results = [candidate.results[fold] for fold in folds]
    return fmean(result.quiet_seconds for result in results)
