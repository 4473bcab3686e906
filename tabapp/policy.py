"""The tuned numbers of the scheduler, the ensemble and its calibration, and what supports them.

A number that is `measured` names the results that support it; a test reads them. No committed results support the numbers that
`UNSUPPORTED` lists: they were chosen by hand on a few tables. `benchmarks.lab.variants` compares policies on recorded fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def measured(value: T, results: str) -> T:
    """The default of a field, with the name of the file in `benchmarks/results` that supports it."""
    return field(default=value, metadata={"results": results})


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Numbers that decide what a run fits and how it combines what it has fitted. Shares are of 1."""

    # The time of fits.
    cap_share: float = 0.15
    """Largest share of the budget for one fit, so that one slow model cannot starve the others."""
    holdout_cap_share: float = 0.3
    """The same with one holdout, where a trial is a single fit."""
    cap_of_all: float = 0.9
    """With few models, each fit gets an equal part of this share of the budget."""
    prior_weight: float = 1.0
    """Weight of the prior time of a model against one measured model when the factor between the two is estimated."""
    most_ratio: float = 3.0
    """A ratio of measured and prior time counts as at most this multiple of the median ratio, and at least as the median over it:
    one wrong prior says little about other models."""
    safety: float = 1.05
    """Factor on expected times, since fits that do not end in time are lost."""
    overrun: float = 2.0
    """Most that the first fold of a model without prospects or of an uncertain model's new trial takes, as a multiple of its
    expected time."""
    longest: float = 2.0
    """Most that the other folds of a candidate take that improves the ensemble by `large_gain`, as a multiple of the limit of
    fits."""
    short_share: float = 0.5
    """Share of its expected time for which a model that plans its steps still starts, and for which a candidate with several folds
    is still completed."""

    # First folds.
    cheap_share: float = 0.01
    """A first fold that takes at most this share of the time of all workers is cheap."""
    quick_share: float = 0.025
    """A first fold that takes at most this share of the time of all workers is quick."""
    tiny_share: float = measured(0.0025, "budgets.json")
    """A first fold that takes at most this share of the time of all workers takes almost no time, so that a second trial costs
    little although the first adds nothing."""
    cheap_seconds: float = 5.0
    """Until a candidate is complete, cheap models that take longer wait, so that long runs have an ensemble soon, too. Models that
    start first on all tables do not wait."""
    n_rivals: int = 3
    """Models with a first fold of which the best is completed before others start."""
    first_share: float = 0.75
    """Share of the time of all workers for the defaults of models; an expensive model does not start beyond it."""
    dropped_share: float = 0.08
    """First folds of dropped candidates may take this share of the time of all workers, or as much as new trials, which improve an
    ensemble little."""
    drop_rate: float = 0.5
    """Share of the first folds in progress that is expected to be dropped."""
    n_dropped: int = 3
    """If so many uncertain models were dropped and none improves the ensemble, those without merit start only in time that nothing
    else can use."""
    small_share: float = 0.1
    """A model that may start with this share of its expected time loses little if it gets no more: on a single holdout, it costs at
    most the limit of fits. Other models that would be stopped there do not come before cheaper ones."""
    least_share: float = 0.05
    """Share of its expected time with which any model may start on a single holdout, or in a run in which no candidate can be
    completed, in time that nothing else can use."""

    # The other folds of a candidate.
    gain_of_all_time: float = 0.01
    """The other folds are fitted if the first lowers the error of the ensemble by at least this share times the share of all time
    that they take."""
    trial_noise: float = 0.1
    """A new trial resembles a member of the ensemble, so that what it adds is less than the noise of a fold: it may be worse by
    this value over the square root of the rows of the fold."""
    doubt_share: float = 0.03
    """So may other candidates whose other folds take at most this share of all time."""
    affordable_share: float = 0.6
    """A candidate is begun, and continued before others after its first fold, only if its folds take at most this share of the time
    that all workers have left."""
    leader_share: float = 0.9
    """Replaces `affordable_share` for the first candidate that is completed, and for those of large gain; between no gain and a
    large one, the share grows with the gain."""
    large_gain: float = 0.05
    """A first fold that lowers the error of the ensemble by this share has a large gain."""
    price_of_all_time_left: float = 0.05
    """Improvement of the ensemble, as a share of its error, that would be worth all of the time left: a candidate with a smaller
    improvement comes before a better one if it takes so much less time."""

    # New trials.
    racing_spreads: float = 0.25
    """Without a time limit, a trial is dropped if its first fold is worse than that of its model's best trial by this share of the
    standard deviation between folds."""
    far_behind: float = 0.005
    """A model whose best trial raises the error of the ensemble by this share gets no new trials."""


POLICY = Policy()

UNSUPPORTED = (
    "cap_share", "holdout_cap_share", "cap_of_all", "prior_weight", "most_ratio", "safety", "overrun", "longest", "short_share",
    "cheap_share", "quick_share", "cheap_seconds", "n_rivals", "first_share", "dropped_share", "drop_rate", "n_dropped",
    "small_share", "least_share", "gain_of_all_time", "trial_noise", "doubt_share", "affordable_share", "leader_share",
    "large_gain", "price_of_all_time_left", "racing_spreads", "far_behind",
)  # fmt: skip
"""Numbers without committed results."""
