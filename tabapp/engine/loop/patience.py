"""When the time that is left is not expected to improve the ensemble."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from tabapp import metrics
from tabapp.policy import POLICY, Policy
from tabapp.run.record import events as ev


@dataclass(frozen=True)
class _Step:
    seconds: float
    loss: float
    width: float


class Patience:
    """Follows the score of the ensemble, and extrapolates what the time that is left would add.

    Each doubling of the time is expected to gain at most as much as the last one: from second t to second T, log2(T / t) times
    what was gained since t / 2. Gains of ensembles become smaller with time, so that this is a cautious estimate.

    Args:
        metric: of the score.
    """

    def __init__(self, metric: str, policy: Policy = POLICY) -> None:
        self._metric, self._policy = metrics.get(metric), policy
        self._steps: list[_Step] = []

    def record(self, seconds: float, changed: ev.EnsembleChanged) -> None:
        """Keep the score of an ensemble of the run's second `seconds`; an undefined one is left out."""
        if changed.score is None or changed.low is None or changed.high is None:
            return
        self._steps.append(_Step(seconds, self._metric.as_loss(changed.score), changed.high - changed.low))

    def settled(self, seconds: float, end: float, planned: ev.FitsPlanned) -> ev.ScoreSettled | None:
        """The expected gain until second `end`, if it is below the noise of the score at second `seconds`.

        The noise is a share of the width of the score's interval (`Policy.settled_share`). None also while models wait whose
        defaults are expected to end in time, since what they add is not known, and while the second half of the time so far has had
        few ensembles (`Policy.settled_steps`), or the first half none.
        """
        if end == math.inf or seconds >= end or planned.in_time:
            return None
        n_before = bisect.bisect_right(self._steps, seconds / 2, key=lambda step: step.seconds)
        if not n_before or len(self._steps) - n_before < self._policy.settled_steps:
            return None
        before, last = self._steps[n_before - 1], self._steps[-1]
        gain = max(0.0, before.loss - last.loss) * math.log2(end / seconds)
        if gain > self._policy.settled_share * last.width:
            return None
        return ev.ScoreSettled(gain=gain, half_width=last.width / 2)
