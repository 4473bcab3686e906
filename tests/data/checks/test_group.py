"""Entities with several rows."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.kinds.names import names_entity
from tests.data.checks.tables import CLASSES, NOISE, N, found, frame


def test_entities_with_several_rows() -> None:
    patients = [1000 + i // 4 for i in range(N)]
    assert set(found("group", patient_id=patients, x=NOISE, y=CLASSES)) == {"patient_id"}
    assert found("group", dose=patients, x=NOISE, y=CLASSES) == {}
    given = infer_schema(frame(patient_id=patients, x=NOISE, y=CLASSES), target="y", group="patient_id")
    assert not any(warning.check == "group" for warning in given.warnings)


def test_shares_and_counts_of_entities_are_not_entities() -> None:
    shares = np.round(np.random.default_rng(0).integers(100, 400, N) / 4, 2)
    whole = np.random.default_rng(1).integers(0, 101, N)
    assert found("group", household=shares, x=NOISE, y=CLASSES) == {}
    assert found("group", household=[f"{value}%" for value in whole], x=NOISE, y=CLASSES) == {}
    for name in (
        "percent_household",
        "PctFamily",
        "user_share",
        "rooms_per_household",
        "number_of_drivers",
        "family_size",
    ):
        assert found("group", **{name: whole}, x=NOISE, y=CLASSES) == {}
    assert set(found("group", household=whole, x=NOISE, y=CLASSES)) == {"household"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("patient", True), ("patient_id", True), ("PatientNumber", True), ("customer code", True), ("store_id", True),
        ("id_shop", True),
        ("driver_name", True), ("user_age", False), ("family_size", False), ("number_of_customer", False), ("humid", False),
        ("pct_person", False), ("mean_per_subject", False), ("12", False),
    ],
)  # fmt: skip
def test_names_of_entities(name: str, expected: bool) -> None:
    assert names_entity(name) == expected
