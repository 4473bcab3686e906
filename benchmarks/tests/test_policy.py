"""Every number of the policy has results that support it, or is listed as a number without any."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.lab import selection, variants
from benchmarks.lab.variants import NONE, mean_ratio
from benchmarks.machine import RESULTS, Results
from tabapp.policy import POLICY

UNSUPPORTED = (
    "holdout_cap_share", "cap_of_all", "overrun", "longest", "cheap_seconds", "named_share", "n_dropped", "small_share",
    "least_share", "least_success", "racing_spreads", "settled_steps", "interim_rows", "calibrated_rows", "most_averaging",
    "least_temperature_factor",
)  # fmt: skip
"""Numbers without committed results."""

FIELDS = {field.name: field for field in dataclasses.fields(POLICY)}
MEASURED = {name: field.metadata["results"] for name, field in FIELDS.items() if "results" in field.metadata}


def second_trials_of_tiny_models_help(results: dict[str, Any]) -> bool:
    """With the second trial of k nearest neighbors, which takes almost no time, the error is lower."""
    error, without = (
        results[f"protein_casp|tabapp{variant}|0|600"]["score"]
        for variant in ("", " without second trials of k_neighbors")
    )
    return error < 0.995 * without


def sharper_selection_helps(results: list[dict[str, Any]]) -> bool:
    """On the other half of the rows, the log loss is lower on average, and on no table clearly higher."""
    ratios = [np.mean(np.divide(*reversed(run["losses"]))) for run in results]
    return np.mean(ratios) < 0.995 and max(ratios) < 1.001


def the_penalty_gains_most(results: list[dict[str, Any]]) -> bool:
    """Of the penalties that were compared, it lowers the log loss of rows that did not fit the numbers most."""
    gains = {penalty: np.mean([run["gains"][penalty] for run in results]) for penalty in results[0]["gains"]}
    return float(max(gains, key=lambda penalty: gains[penalty])) == POLICY.scaling_penalty


def the_gain_of_a_mean_is_estimated_without_bias(results: list[dict[str, Any]]) -> bool:
    """The mean difference to the gain on test rows is within two of its standard errors, and a tenth of the gain."""
    runs = [run for run in results if run["folds"] > 1]
    differences = np.array([run["estimated"] - run["measured"] for run in runs])
    gain, mean = np.mean([run["measured"] for run in runs]), abs(differences.mean())
    return mean < 2 * differences.std(ddof=1) / np.sqrt(len(runs)) and mean < 0.1 * gain


def runs_that_end_early_lose_little(results: dict[str, dict[str, tuple[float, float]]]) -> bool:
    """They save a sixth of the time or more, with a mean error that is at most 0.2 % larger."""
    saved, errors = zip(*(run[str(POLICY.settled_share)] for run in results.values()), strict=True)
    return np.mean(saved) > 1 / 6 and np.exp(np.mean(np.log(errors))) < 1.002


def neither_half_nor_twice_is_better(name: str, results: dict[str, dict[str, dict[str, float]]]) -> bool:
    """The number has an effect, and with half or twice the number, no error is lower by more than two standard errors."""
    alternatives = [changes for changes in results if changes.startswith(f"{name}=")]
    errors = "error", "log loss"
    ratios = [mean_ratio(results[NONE], results[changes], of) for changes in alternatives for of in errors]
    has_effect = any(results[changes] != results[NONE] for changes in alternatives)
    return len(alternatives) == 2 and has_effect and not any(ratio < 1 - 2 * error for ratio, error in ratios)


SUPPORTS: dict[str, Callable[[Any], bool]] = {
    **{name: partial(neither_half_nor_twice_is_better, name) for name in (*variants.NUMBERS, *selection.NUMBERS)},
    "tiny_share": second_trials_of_tiny_models_help,
    "sharper": sharper_selection_helps,
    "scaling_penalty": the_penalty_gains_most,
    "settled_share": runs_that_end_early_lose_little,
    "compared_rows": the_gain_of_a_mean_is_estimated_without_bias,
}
"""Whether the results of a measured number support it."""


def test_every_number_is_measured_or_listed_as_unsupported() -> None:
    assert sorted([*MEASURED, *UNSUPPORTED]) == sorted(FIELDS)
    assert SUPPORTS.keys() == MEASURED.keys()


@pytest.mark.parametrize("name", MEASURED)
def test_the_committed_results_support_a_number(name: str) -> None:
    results = msgspec.json.decode((RESULTS / MEASURED[name]).read_bytes(), type=Results)
    assert SUPPORTS[name](results.results), f"{name} = {getattr(POLICY, name)}"
