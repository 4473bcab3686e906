"""Test files that differ from the training file."""

from __future__ import annotations

import numpy as np

from tabapp.data.infer import compare_with_test, infer_schema
from tests.data.checks.tables import CLASSES, NOISE, N, frame

RANDOM = np.random.default_rng(14)


def test_features_that_tell_two_files_apart() -> None:
    city = [f"city {i % 7}" for i in range(N)]
    training = frame(x=NOISE, z=RANDOM.normal(size=N), city=city, y=CLASSES)
    schema = infer_schema(training, target="y")
    like = frame(x=RANDOM.normal(size=N), z=RANDOM.normal(size=N), city=city, y=CLASSES)
    assert compare_with_test(training, like, schema) == []
    other = frame(x=NOISE + 3, z=RANDOM.normal(size=N), city=[f"town {i % 7}" for i in range(N)], y=CLASSES)
    warnings = {warning.column: warning for warning in compare_with_test(training, other, schema)}
    assert set(warnings) == {"x", "city"}
    assert "100% of its values in the test file are new" in warnings["city"].message
    assert compare_with_test(training, other.drop("x", "city"), schema) == []
