"""Every number of the policy has results that support it, or is listed as a number without any."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from benchmarks.machine import RESULTS, Results
from tabapp.policy import POLICY, UNSUPPORTED

FIELDS = {field.name: field for field in dataclasses.fields(POLICY)}
MEASURED = {name: field.metadata["results"] for name, field in FIELDS.items() if "results" in field.metadata}


def second_trials_of_tiny_models_help(results: dict[str, Any]) -> bool:
    """With the second trial of k nearest neighbors, which takes almost no time, the error is lower."""
    error, without = (
        results[f"protein_casp|tabapp{variant}|0|600"]["score"]
        for variant in ("", " without second trials of k_neighbors")
    )
    return error < 0.995 * without


SUPPORTS: dict[str, Callable[[Any], bool]] = {"tiny_share": second_trials_of_tiny_models_help}
"""Whether the results of a measured number support it."""


def test_every_number_is_measured_or_listed_as_unsupported() -> None:
    assert sorted([*MEASURED, *UNSUPPORTED]) == sorted(FIELDS)
    assert SUPPORTS.keys() == MEASURED.keys()


@pytest.mark.parametrize("name", MEASURED)
def test_the_committed_results_support_a_number(name: str) -> None:
    results = msgspec.json.decode((RESULTS / MEASURED[name]).read_bytes(), type=Results)
    assert SUPPORTS[name](results.results), f"{name} = {getattr(POLICY, name)}"
