"""The time of a run: a hard deadline with a reserve at its end, which the user can pause and move."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path

from tabapp.engine.fit.candidates import Candidate
from tabapp.models import registry

SHORTEST_RESERVE, RESERVE_SHARE, LONGEST_RESERVE = 2.5, 0.06, 60.0
SMALL_EXPORT_SHARE = 1 / 3
"""Share of the reserve in which an ordinary bundle is written; a larger one gets more time."""
MOST_RESERVE_SHARE = 0.25
"""Most of the budget that is reserved, however large the bundle or busy the machine is."""
SAVING_SECONDS, SAVING_SHARE = 1.5, 0.25
"""Time in which a fit predicts and saves after its soft deadline, on an idle machine, and the most of the time left for that."""
FIRST_SCORE_SHARE = 0.6
"""Share of the time left after fitting that a run without any score still spends on fits."""
CHECKS = 2
"""Times that each model predicts a few rows while a bundle is written, for which some models read all of their rows."""
EXPORT_BYTES_PER_SECOND = 35e6
"""Of models that are compressed, written and verified by one core of an AMD EPYC server."""
SECONDS_OF_PREDICTION = 8e-6
"""Time of the final selection, calibration and intervals on the same server, for each out-of-fold prediction: a number, or the
probability of a class. adult (98,000) takes 1.8 s, and covertype (350,000) 2.7 s; the reserve of every run covers the first second
or two."""


class Clock:
    """The hard deadline of a run, with a reserve for the ensemble, importances and export. Paused time does not count.

    Args:
        budget: seconds of the whole run; None for no time limit.
        used: seconds that earlier sessions used.
        slowdown: elapsed seconds for each second of processor time, on a machine that other programs use.
    """

    def __init__(self, budget: float | None, used: float, slowdown: float = 1.0) -> None:
        self.budget = budget
        self.slowdown = slowdown
        now = time.monotonic()
        self.end = None if budget is None else now + max(0.0, budget - used)
        reserve = 0.0 if budget is None else min(max(SHORTEST_RESERVE, RESERVE_SHARE * budget), LONGEST_RESERVE)
        slow = min(SHORTEST_RESERVE * slowdown, MOST_RESERVE_SHARE * (budget or 0.0))
        self._reserve = min(max(reserve, slow), 0.5 * (budget or 0.0))
        self.fitting_end = None if self.end is None else self.end - self._reserve
        self.export = 0.0
        """Expected seconds for writing the bundle."""
        self._ensemble = 0.0
        """Expected seconds for the final ensemble of a large table."""
        self._paused_at: float | None = None
        self._seeds = 0.0
        """Seconds of fitting that are kept for further seeds."""

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    def pause(self) -> None:
        """Stop counting time."""
        self._paused_at = self._paused_at or time.monotonic()

    def resume(self) -> None:
        """Count time again; the deadlines move by the length of the pause."""
        if self._paused_at is None:
            return
        paused = time.monotonic() - self._paused_at
        self._paused_at = None
        if self.end is not None and self.fitting_end is not None:
            self.end += paused
            self.fitting_end += paused

    def extend(self, seconds: float) -> float:
        """Move the deadlines by a number of seconds, which may be negative, but never before now.

        Returns:
            The seconds they moved; 0 without a time limit.
        """
        if self.end is None or self.fitting_end is None or self.budget is None:
            return 0.0
        moved = max(seconds, -max(0.0, self.fitting_left()))
        self.end, self.fitting_end, self.budget = self.end + moved, self.fitting_end + moved, self.budget + moved
        return moved

    def end_fitting(self) -> None:
        """Leave what follows the time that is reserved for it, and not all that is left. Without a time limit, this is the longest
        reserve. A pause ends, since what follows is not paused."""
        self.resume()
        if self.end is None:
            self.fitting_end = time.monotonic()
            self.end = self.fitting_end + LONGEST_RESERVE
        else:
            self.extend(-math.inf)

    def reserve_export(self, seconds: float) -> None:
        """Leave enough time after fitting for a bundle that is expected to take so long on an idle machine."""
        self.export = seconds * self.slowdown
        if self.end is None or self.budget is None:
            return
        needed = (1 - SMALL_EXPORT_SHARE) * self._reserve + self.export + self._ensemble
        self.fitting_end = self.end - max(self._reserve, min(needed, MOST_RESERVE_SHARE * self.budget))

    def reserve_ensemble(self, n_predictions: int) -> None:
        """Leave enough time after fitting for an ensemble of so many out-of-fold predictions."""
        self._ensemble = SECONDS_OF_PREDICTION * n_predictions * self.slowdown
        self.reserve_export(0.0)

    def fitting_left(self) -> float:
        """Seconds until fitting must end, or the fitting of first seeds; infinite without a time limit."""
        return float("inf") if self.fitting_end is None else self.fitting_end - self._now() - self._seeds

    def reserve_seeds(self, share: float) -> None:
        """Keep a share of the time for fits for further seeds of the final models."""
        left = self.fitting_left()
        self._seeds = share * max(0.0, left) if left < float("inf") else 0.0

    def release_seeds(self) -> bool:
        """Give fits the time that was kept; returns whether there was any."""
        kept, self._seeds = self._seeds, 0.0
        return kept > 0

    def grace_seconds(self) -> tuple[float, float]:
        """Seconds that fits in progress may take after the end of fitting, in a run with a score and in one without.

        Without a score, there is nothing to explain or export, and the first fit may take the time reserved for that.
        """
        left = max(0.0, self.left())
        return min(SAVING_SECONDS * self.slowdown, SAVING_SHARE * left), FIRST_SCORE_SHARE * left

    def left_before_export(self) -> float:
        """Seconds until the bundle must be written; infinite without a time limit."""
        return max(0.0, self.left() - self.export)

    def left(self) -> float:
        """Seconds until the run must end; infinite without a time limit."""
        return float("inf") if self.end is None else self.end - self._now()

    def elapsed(self) -> float:
        """Seconds of the budget that are used; 0 without a time limit."""
        return 0.0 if self.budget is None else self.budget - self.left()

    def _now(self) -> float:
        return time.monotonic() if self._paused_at is None else self._paused_at

    def wall_deadline(self) -> float | None:
        """The deadline in seconds since the epoch, for display; None without a time limit."""
        return None if self.end is None else time.time() + self.left()


def export_seconds(folder: Path, members: Iterable[tuple[Candidate, float]]) -> float:
    """Expected seconds for writing a bundle.

    Args:
        folder: of all fits of the run.
        members: candidates with their weights.
    """
    seconds = 0.0
    for candidate, _ in members:
        results = candidate.results.values()
        if registry.trains_nothing(candidate.model):
            seconds += CHECKS * candidate.seeds * max(result.seconds for result in results)
            continue
        if registry.get_to_load(candidate.model).predicts_from_rows:
            seconds += CHECKS * candidate.seeds * sum(result.predict_seconds for result in results)
        models = (file for fit in candidate.fit_names for file in (folder / fit / "model").rglob("*"))
        seconds += sum(file.stat().st_size for file in models if file.is_file()) / EXPORT_BYTES_PER_SECOND
    return seconds
