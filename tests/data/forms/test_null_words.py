"""Texts such as NA: missing cells or values, and what the user declares."""

from __future__ import annotations

import random
from collections.abc import Mapping

import polars as pl
import pytest

from tabapp.data.forms.null_words import Declarations, Declared
from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.typed import typed_column, typed_frame
from tests.data.checks.tables import found

CODES = {"AF": 100, "AS": 80, "EU": 150, "OC": 60, "SA": 90}


def table(counts: Mapping[str, int], name: str = "y") -> pl.DataFrame:
    """Rows with each text of a column as often as it says, beside a feature, and a target unless the column is it."""
    rng = random.Random(3)
    cells = [text for text, count in counts.items() for _ in range(count)]
    rng.shuffle(cells)
    columns = {"x": [f"{rng.gauss(0, 1):.4f}" for _ in cells], name: [cell or None for cell in cells]}
    if name != "y":
        columns["y"] = [rng.choice(["yes", "no"]) for _ in cells]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def target(counts: Mapping[str, int], **options: object) -> Schema:
    return infer_schema(table(counts), target="y", **options)  # type: ignore[arg-type]


CLASSES = [
    ("NA", CODES),
    ("NA", {**CODES, "EU": 800}),
    ("null", {"low": 90, "middle": 110, "high": 100}),
    ("nan", {"rice": 100, "nan": 0, "bun": 120, "naan": 110}),
    ("?", {"red": 90, "green": 100, "blue": 110}),
    ("N/A", {"red": 90, "green": 100, "blue": 110, "pink": 95}),
    ("-", {"Up": 90, "Down": 100, "Left": 110}),
    ("none", {"flu": 10, "covid": 20}),
    ("None", {"red": 400, "green": 300}),
    ("-", {"+": 300}),
    ("none", {"spam": 40}),
]


@pytest.mark.parametrize(("text", "others"), CLASSES)
@pytest.mark.parametrize("factor", [1, 12], ids=["short", "long"])
def test_a_text_as_frequent_or_as_regular_as_the_classes_is_one(text: str, others: dict[str, int], factor: int) -> None:
    counts = {label: count * factor for label, count in {**others, text: 100}.items() if count}
    schema = target(counts)
    assert text in schema.classes
    assert schema.rows_without_target == 0
    assert f"{text!r} is a value, because " in schema.column("y").reason
    frame = typed_frame(pl.DataFrame({"x": ["1"], "y": [f" {text} "]}), schema)
    assert frame["y"].to_list() == [text], "predictions treat the text alike"


UNKNOWN = [
    ("-", {"0": 300, "1": 300}),
    ("NA", {"0": 100, "1": 100}),
    ("?", {"yes": 300, "no": 310}),
    ("none", {"yes": 500, "no": 510}),
    ("NA", {"good": 200, "bad": 150}),
    ("NA", {"AF": 900, "EU": 800, "AS": 850, "OC": 990}),
    ("?", {"red": 900, "green": 1000, "blue": 1100}),
    ("nan", {"cat": 900, "dog": 800}),
    ("missing", {"Alpha": 3000, "Beta": 2500}),
]


@pytest.mark.parametrize(("text", "others"), UNKNOWN)
def test_a_rare_or_foreign_text_is_a_missing_target_and_said_with_the_way_back(
    text: str, others: dict[str, int]
) -> None:
    schema = target({**others, text: 100})
    assert set(schema.classes) == set(others)
    assert schema.rows_without_target == 100
    (warning,) = [each for each in schema.warnings if each.check == "no_target"]
    assert f"100 read as missing (100 {text!r})" in warning.message
    assert "--keep-null" in warning.action
    kept = target({**others, text: 100}, keep_null=[text])
    assert text in kept.classes
    assert kept.rows_without_target == 0


def test_two_spellings_beside_each_other_are_missing_cells() -> None:
    assert target({**CODES, "NA": 100, "?": 90}).rows_without_target == 190


LEVELS = [
    ("NA", {"DE": 50, "FR": 40, "US": 90, "ZA": 3, "BW": 4, "AO": 2}, 5),
    ("None", {"Attchd": 300, "Detchd": 200, "BuiltIn": 50, "2Types": 5, "Basment": 20, "CarPort": 9}, 81),
    ("none", {"guarantor": 52, "co applicant": 41}, 907),
]


@pytest.mark.parametrize(("text", "others", "count"), LEVELS)
@pytest.mark.parametrize("factor", [1, 20], ids=["short", "long"])
def test_a_code_among_codes_and_a_word_among_words_are_levels(
    text: str, others: dict[str, int], count: int, factor: int
) -> None:
    counts = {level: n * factor for level, n in {**others, text: count}.items()}
    column = infer_schema(table(counts, "g"), target="y").column("g")
    assert column.kind == "categorical"
    assert column.kept_spellings == (text,)
    assert text in column.levels
    assert column.missing == 0
    assert f"{text!r} is a value, because it is" in column.reason
    assert typed_column(pl.Series([text, "?"]), column).to_list() == [text, None]
    gone = infer_schema(table(counts, "g"), target="y", null=[f"g={text}"]).column("g")
    assert gone.missing_spellings == (text,)
    assert gone.missing_counts == (count * factor,)


GAPS = [
    ("NA", {"DE": 50, "FR": 40, "US": 90, "ZA": 3, "BW": 4, "AO": 2}, 300),
    ("NA", {"Attchd": 300, "Detchd": 200, "BuiltIn": 50, "Basment": 20, "CarPort": 9}, 81),
    ("None", {"red": 50, "green": 60, "blue": 30}, 40),
    ("nan", {"red": 50, "green": 60, "blue": 30}, 40),
    ("-", {"1.5": 3, "2": 4, "3.25": 80, "7": 5, "9": 20}, 40),
    ("?", {"m": 50, "f": 60}, 50),
    ("Missing", {"Red": 50, "Green": 60}, 50),
]


@pytest.mark.parametrize(("text", "others", "count"), GAPS)
def test_other_texts_of_a_feature_are_missing_cells_that_its_reason_counts(
    text: str, others: dict[str, int], count: int
) -> None:
    column = infer_schema(table({**others, text: count}, "g"), target="y").column("g")
    assert column.missing == count
    assert column.missing_spellings == (text,)
    assert column.reason.endswith(f"Read as missing: {count} {text!r}.")


def test_a_class_that_is_spelled_like_a_missing_cell_is_a_warning_but_a_word_and_a_sign_are_none() -> None:
    labels = [label for label, count in {**CODES, "NA": 100}.items() for _ in range(count)]
    (warning,) = found("null_class", x=range(len(labels)), g=["a", "b"] * (len(labels) // 2), y=labels).values()
    assert warning.message == (
        "'NA' is a class of 100 rows, because it is written like the other classes and about as frequent."
    )
    assert warning.action == "kept; --null y=NA reads it as missing"
    for others in ({"+": 100, "-": 100}, {"none": 100, "flu": 100}):
        assert not [each for each in target(others).warnings if each.check in ("null_class", "no_target")]
    declared = target({**CODES, "NA": 100}, keep_null=["NA"])
    assert not [each for each in declared.warnings if each.check == "null_class"]


def test_declared_texts_are_for_all_columns_or_for_one_and_one_column_takes_precedence() -> None:
    found = Declarations(["-999", "g=NA", "a=b=x", "=NA()", "z=1"], ["NA", "a=-999"], ["g", "a", "a=b"])
    assert found.of("g") == Declared(frozenset({"-999", "=NA()", "z=1", "NA"}), frozenset())
    assert found.of("a") == Declared(frozenset({"=NA()", "z=1"}), frozenset({"NA", "-999"}))
    assert found.of("a=b") == Declared(frozenset({"-999", "=NA()", "z=1", "x"}), frozenset({"NA"}))


def test_a_declared_text_that_no_cell_has_is_a_warning() -> None:
    frame = table({"a": 100, "b": 90, "x": 3}, "g")
    schema = infer_schema(frame, target="y", null=["g=x", "colour=x", "-999"], keep_null=["NA"])
    unused = [each.message for each in schema.warnings if each.check == "unused_option"]
    assert unused == [
        f"No cell is read differently because of {option}."
        for option in ("--null colour=x", "--null -999", "--keep-null NA")
    ]
    assert schema.column("g").missing == 3
