"""The registry: every check is documented, and adding one takes one function."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabapp.data.checks import registry
from tabapp.data.checks.registry import Evidence, all_checks, check
from tabapp.data.infer import infer_schema
from tabapp.data.schema import DataWarning
from tests.data.checks.tables import CLASSES, NOISE, frame

CODES = {
    "leak", "identifier", "constant", "duplicate_column", "duplicate_rows", "group", "time", "imbalance", "sentinel", "missing",
    "rare_class", "drift", "encoding", "repaired_rows", "nested", "name_form", "no_target", "null_class", "unused_option",
    "moments", "mostly_dates", "notation", "set_aside", "mostly_numbers", "precision", "similar_levels", "sheets",
}  # fmt: skip


def test_every_code_of_the_interface_is_documented() -> None:
    documented = {each.code: each for each in all_checks()}
    assert set(documented) == CODES
    for each in documented.values():
        assert each.description.endswith(".")
        assert each.remedy.endswith(".")
    from_reading = {code for code, each in documented.items() if not each.functions and not each.comparisons}
    assert from_reading == {"encoding", "repaired_rows", "nested", "name_form", "unused_option", "sheets"}


def test_one_function_adds_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_checks", dict(registry._checks))

    @check("wide_range", description="A number spans many orders of magnitude.", remedy="Take its logarithm.", rank=5)
    def wide_range(evidence: Evidence) -> Iterator[DataWarning]:
        for column in evidence.judged_features:
            if column.low and column.high and column.low > 0 and column.high / column.low > 1e6:
                yield DataWarning(check="wide_range", column=column.name, message="It spans decades.", action="kept")

    all_checks.cache_clear()
    try:
        table = frame(x=NOISE, size=[10 ** (i % 9) + i for i in range(len(NOISE))], y=CLASSES)
        assert infer_schema(table, target="y").warnings[0].column == "size"
    finally:
        all_checks.cache_clear()


def test_two_checks_cannot_have_one_code() -> None:
    with pytest.raises(ValueError, match="leak"):
        check("leak", description="Another leak.", remedy="None.", rank=1)
