"""Integers beyond what a number holds exactly: a warning where the user makes them numbers."""

from __future__ import annotations

import pytest

from tabapp.data.infer import infer_schema
from tests.data.checks.tables import CLASSES, NOISE, frame


@pytest.mark.parametrize(("start", "step", "is_lost"), [(10**18, 1, True), (10**18, 10_000, False), (10**14, 1, False)])
def test_lost_digits_are_reported(start: int, step: int, is_lost: bool) -> None:
    numbers = [str(start + step * (7 * i % len(NOISE))) for i in range(len(NOISE))]
    schema = infer_schema(frame(x=NOISE, long=numbers, y=CLASSES), target="y", kinds={"long": "numeric"})
    found = [warning for warning in schema.warnings if warning.check == "precision"]
    assert [warning.column for warning in found] == ["long"] * is_lost
    if is_lost:
        assert f"{len(NOISE)} distinct texts such as '{numbers[0]}' become" in found[0].message
        assert "--kind long=categorical" in found[0].action
