"""The tuned numbers of the scheduler, the ensemble and its calibration, and what supports them.

A number that is `measured` names the results that support it. These numbers were chosen by hand on a few tables; in
`scheduling.json` and `selection.json`, neither half nor twice a number lowers the mean error on 14 tables by two standard errors.
`benchmarks/tests/test_policy.py` reads the results, and lists the numbers that have none. `benchmarks.lab.variants` and
`benchmarks.lab.selection` compare policies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def measured(value: Any, results: str) -> Any:
    """The default of a field, with the name of the file in `benchmarks/results` that supports it."""
    return field(default=value, metadata={"results": results})


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Numbers that decide what a run fits and how it combines what it has fitted. Shares are of 1."""

    # The time of fits.
    cap_share: float = measured(0.15, "scheduling.json")
    holdout_cap_share: float = 0.3
    """Largest share of the budget for one fit, with several folds and with one holdout: no model may starve the others."""
    cap_of_all: float = 0.9
    """With few models, each fit gets an equal part of this share of the budget."""
    prior_weight: float = measured(1.0, "scheduling.json")
    """Weight of the prior time of a model against one measured model when the factor between the two is estimated."""
    most_ratio: float = measured(3.0, "scheduling.json")
    """A ratio of measured and prior time counts as at most this multiple of the median ratio: one wrong prior says little."""
    safety: float = measured(1.05, "scheduling.json")
    """Factor on expected times, since fits that do not end in time are lost."""
    overrun: float = 2.0
    """A model without prospects may take this multiple of its expected time for its first fold, and so may a new trial of an
    uncertain model."""
    longest: float = 2.0
    """The other folds of a candidate of large gain may take this multiple of the limit of one fit."""
    short_share: float = measured(0.5, "scheduling.json")
    """Share of its expected time for which a model that plans its steps still starts, and for which a candidate with several folds
    is still completed."""

    # First folds.
    quick_share: float = measured(0.025, "scheduling.json")
    cheap_share: float = measured(0.01, "scheduling.json")
    tiny_share: float = measured(0.0025, "budgets.json")
    """Shares of the time of all workers up to which a first fold is quick, is cheap, and takes almost no time."""
    cheap_seconds: float = 5.0
    """Until a candidate is complete, cheap models that take longer wait, so that long runs have an ensemble soon, too."""
    n_rivals: int = measured(3, "scheduling.json")
    """Models with a first fold of which the best is completed before others start."""
    named_share: float = 0.5
    """Share of the time of all workers for the first folds of models that the user names, each of which may take an equal part."""
    first_share: float = measured(0.75, "scheduling.json")
    """Share of the time of all workers for the defaults of models; an expensive model does not start beyond it."""
    dropped_share: float = measured(0.08, "scheduling.json")
    """Share of the time of all workers for first folds of dropped candidates; they may take as much as new trials, too."""
    least_success: float = 0.15
    """If a smaller share of a model's trials is in the ensemble, models that have not run come before its next one. One is added to
    both counts."""
    n_dropped: int = 3
    """After so many dropped ones, uncertain models without merit start only in time that nothing else can use."""
    small_share: float = 0.1
    """A model that may start with this share of its expected time loses little if it is stopped at the limit of fits."""
    least_share: float = 0.05
    """The same share for any model, on a single holdout or without a complete candidate, in time that nothing else can use."""

    # The other folds of a candidate.
    gain_of_all_time: float = measured(0.01, "scheduling.json")
    """Least gain for which the other folds are fitted, times the share of all time that they take."""
    affordable_share: float = measured(0.6, "scheduling.json")
    """Most of the time left of all workers for a candidate that is begun, or continued before others."""
    leader_share: float = measured(0.9, "scheduling.json")
    """The same for the first candidate that is completed and those of large gain; in between, the share grows with the gain."""
    large_gain: float = measured(0.05, "scheduling.json")
    """A gain from which on candidates count as leaders."""

    # New trials.
    racing_spreads: float = 0.25
    """Standard deviations between folds by which the first fold of a trial may be worse than that of its model's best trial."""

    # The end.
    settled_share: float = measured(0.1, "patience.json")
    settled_steps: int = 3
    """The score is settled if the time that is left is expected to add at most this share of the width of its interval, by what the
    second half of the time so far has added with at least so many ensembles."""

    # The ensemble.
    ensemble_candidates: int = measured(30, "selection.json")
    selection_rounds: int = measured(25, "selection.json")
    """Candidates that an ensemble is selected from, with the best of every model, and rounds that each add one to the blend."""
    interim_candidates: int = measured(15, "scheduling.json")
    interim_rounds: int = measured(12, "scheduling.json")
    interim_rows: int = 1_500
    """Candidates, rounds and rows of a bag of a selection during fitting, which takes a tenth of the time of the last one."""
    least_weight: float = measured(0.04, "selection.json")
    """Smaller weights are dropped: they cost time in every prediction."""
    sharper: tuple[float, ...] = measured((0.8, 0.65, 0.5), "sharper_selection.json")
    """Temperatures of the candidates' probabilities while weights are selected for the log loss. Forests, and models that were
    stopped by a time limit, are underconfident: calibration of the blend corrects that, but before it they get too little weight.
    Each value is tried if the one before it lowers the log loss of the calibrated blend by more than a standard error."""

    # Calibration.
    calibrated_rows: int = 100
    """Rows below which probabilities are not calibrated."""
    trusted_rows: int = measured(500, "selection.json")
    """Of n rows, the logarithm of the temperature is n / (n + this number) times the best one: in a small table whose rows are all
    predicted well, the best one is extreme."""
    scaling_penalty: float = measured(50.0, "calibrating.json")
    """Of half the squared distance of each power from that of the temperature and of each logarithm of a factor from 0, beside the
    log losses of the rows: a normal prior with the standard deviation 0.14."""
    compared_rows: float = measured(2.0, "averaging.json")
    """Times the square root of the number of rows: rows that two folds hold out, which show what the mean of fold models gains."""
    most_averaging: float = 0.5
    """Largest expected gain of the mean of fold models over one of them, as a share of the error."""
    least_temperature_factor: float = 0.5
    """Least ratio of the temperature of the mean of fold models to that of one of them."""


POLICY = Policy()
