"""Inference of the kind of each column and its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from tabapp.data.forms.clock import CLOCK
from tabapp.data.forms.numbers import NumberFormat, parse_numbers
from tabapp.data.infer import infer_schema
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError, UsageError

N = 60
GENERATOR = np.random.default_rng(0)
TARGET = [["no", "yes", "yes"][i % 3] for i in range(N)]


def frame(**columns: Sequence[object]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            name: pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)
            for name, values in columns.items()
        }
    )


def cycle(*values: object, n: int = N) -> list[object]:
    return [values[i % len(values)] for i in range(n)]


def judged(values: Sequence[object], name: str = "column", **options: object) -> Column:
    table = frame(
        **{name: values, "other": cycle(1.5, 2, 3, 4, 5.5, n=len(values)), "target": cycle("a", "b", n=len(values))}
    )
    return infer_schema(table, target="target", **options).column(name)  # type: ignore[arg-type]


NUMBERS = [round(float(x), 3) for x in GENERATOR.normal(size=N) * 100]
KINDS: dict[str, tuple[Sequence[object], str]] = {
    "numbers": (NUMBERS, "numeric"),
    "numbers with spaces around": ([f" {x} " for x in NUMBERS], "numeric"),
    "unique floats are not identifiers": ([i + 0.5 for i in range(N)], "numeric"),
    "few integers stay numbers": (cycle(1, 2, 3), "numeric"),
    "scientific": ([f"{x:.2e}" for x in NUMBERS], "numeric"),
    "plus signs and typographic minus": ([f"{x:+}".replace("-", "\u2212") for x in NUMBERS], "numeric"),
    "thousands": ([f"{i * 997:,}" for i in range(N)], "numeric"),
    "thousands with decimals": ([f"{i * 997.25:,.2f}" for i in range(N)], "numeric"),
    "decimal commas": ([f"{x}".replace(".", ",") for x in NUMBERS], "numeric"),
    "continental": ([f"{i * 997.25:,.2f}".translate(str.maketrans(",.", ".,")) for i in range(N)], "numeric"),
    "thousands by spaces": ([f"{i * 997:,}".replace(",", "\u202f") for i in range(N)], "numeric"),
    "dollars": ([f"${i * 997.25:,.2f}" for i in range(N)], "numeric"),
    "euros after the number": ([f"{i * 3} €" for i in range(N)], "numeric"),
    "negative in brackets": ([f"({i * 7})" if i % 2 else f"{i * 7}" for i in range(N)], "numeric"),
    "percent": ([f"{i * 1.7:.1f}%" for i in range(N)], "numeric"),
    "units": ([f"{i * 2} kg" for i in range(N)], "numeric"),
    "infinities": (["inf", "-Infinity", *NUMBERS[2:]], "numeric"),
    "two currencies are not numeric": ([f"{'$€'[i % 2]}{i}" for i in range(N // 2)] * 2, "categorical"),
    "leading zeros are codes": (cycle("007", "012", "100"), "categorical"),
    "short codes with letters": (cycle("A1", "B2", "C3", "D4"), "categorical"),
    "ranges": (cycle("10-19", "20-29", "30-39"), "categorical"),
    "grades of wheel drive": (cycle("2WD", "4WD"), "categorical"),
    "yes and no": (cycle("yes", "no", "no"), "boolean"),
    "yes in several cases": (cycle("Yes", "no", "NO", "yes"), "boolean"),
    "0 and 1": (cycle(0, 1, 1), "boolean"),
    "true and false": (cycle("True", "False"), "boolean"),
    "t and f with gaps": (cycle("t", "f", ""), "boolean"),
    "male and female": (cycle("male", "female"), "categorical"),
    "1 and 2": (cycle(1, 2), "numeric"),
    "words": (cycle("red", "green", "blue"), "categorical"),
    "many short words": ([f"w{i % 50}" for i in range(N)], "categorical"),
    "row numbers": (list(range(1, N + 1)), "identifier"),
    "row numbers from a thousand, shuffled": (GENERATOR.permutation(np.arange(1000, 1000 + N)).tolist(), "identifier"),
    "unique words without spaces": ([f"{i:04x}-KEY" for i in range(N)], "identifier"),
    "long numbers": ([9_007_199_254_740_993 + i * 17 for i in range(N)], "identifier"),
    "unique integers with another name": ([i * i * 3 for i in range(N)], "numeric"),
    "sentences": ([f"the quick brown fox number {i} jumps" for i in range(N)], "text"),
    "names of people": ([f"Person Number{i}" for i in range(N)], "text"),
    "one value": (cycle("x"), "constant"),
    "one number": (cycle(3.5), "constant"),
    "nothing": (cycle(""), "constant"),
    "nothing in many spellings": (cycle("NA", "?", "null", "-", ""), "constant"),
    "one value or missing": (cycle("x", ""), "categorical"),
    "ISO dates": ([f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)], "datetime"),
    "ISO moments": ([f"2024-01-{1 + i % 28:02}T{i % 24:02}:{i:02}:00Z" for i in range(N)], "datetime"),
    "ISO with offsets": ([f"2024-01-{1 + i % 28:02}T12:{i:02}:00+02:00" for i in range(N)], "datetime"),
    "SQL moments": ([f"2024-01-{1 + i % 28:02} 12:{i:02}:30.250" for i in range(N)], "datetime"),
    "American dates": ([f"{1 + i % 12}/{1 + i % 28}/2024" for i in range(N)], "datetime"),
    "British dates": ([f"{1 + i % 28:02}/{1 + i % 12:02}/2024" for i in range(N)], "datetime"),
    "German dates": ([f"{1 + i % 28:02}.{1 + i % 12:02}.2024" for i in range(N)], "datetime"),
    "two-digit years": ([f"{1 + i % 28:02}.{1 + i % 12:02}.{10 + i % 9}" for i in range(N)], "datetime"),
    "dates with names": ([f"{1 + i % 28} {['Jan', 'Feb', 'Mar'][i % 3]} 2024" for i in range(N)], "datetime"),
    "dates in words": ([f"{['January', 'May'][i % 2]} {1 + i % 28}, 2024" for i in range(N)], "datetime"),
    "compact dates": ([f"2024{1 + i % 12:02}{1 + i % 28:02}" for i in range(N)], "datetime"),
    "compact moments": ([f"2024{1 + i % 12:02}{1 + i % 28:02}0{i % 9}3015" for i in range(N)], "datetime"),
    "months and years": ([f"{1 + i % 12:02}.{2001 + i % 7}" for i in range(N)], "datetime"),
    "numbers like months and years": ([f"{10 + i % 12}.{2001 + i % 7}" for i in range(N)], "numeric"),
    "dates and a few typos": (["soon", *[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N - 1)]], "datetime"),
    "epochs in seconds": ([1_700_000_000 + i * 3600 for i in range(N)], "numeric"),
    "times of day": ([f"{i % 24:02}:{i:02}" for i in range(N)], "numeric"),
    "durations by the clock": ([f"{i}:30:15" for i in range(N)], "numeric"),
    "durations with days": ([f"{i % 5} days 0{i % 9}:30:00" for i in range(N)], "numeric"),
    "durations in words": ([f"{i % 7}h {i}m" for i in range(N)], "numeric"),
    "ISO durations": ([f"PT{i % 7}H{i}M" for i in range(N)], "numeric"),
    "scores of a match": ([f"{i % 7}:{i % 5}" for i in range(N)], "categorical"),
    "impossible dates": (cycle("2024-13-45", "2024-99-99", "2024-77-01"), "categorical"),
    "half dates": (cycle("2024-01-02", "unknown", "later"), "categorical"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "kind"), KINDS.values(), ids=KINDS.keys())
def test_kinds(values: Sequence[object], kind: str) -> None:
    column = judged(values)
    assert column.kind == kind, column.reason
    assert column.reason.endswith(".")
    assert (column.role == "ignore") == (kind in ("identifier", "constant"))


@pytest.mark.parametrize(
    ("name", "identifier"),
    [("id", True), ("customerID", True), ("PassengerId", True), ("row_number", True), ("Unnamed: 0", True), ("humid", False),
     ("paid", False), ("amount", False)],
)  # fmt: skip
def test_scattered_distinct_integers_are_identifiers_by_name(name: str, identifier: bool) -> None:
    assert (judged([i * i + 7 for i in range(N)], name).kind == "identifier") == identifier


def test_a_day_with_a_number_is_an_identifier_by_its_name() -> None:
    numbered = [f"202403{1 + i % 28:02}{i:04}" for i in range(N)]
    assert judged(numbered, "order_id").kind == "identifier"
    assert judged(numbered, "sold").kind == "datetime"
    assert judged([f"2024{1 + i % 12:02}{1 + i % 28:02}" for i in range(N)], "date_key").kind == "datetime"


def value(column: Column, text: str) -> object:
    schema = Schema(columns=(column,), target="", target_reason="", task="regression", task_reason="", rows=1)
    return typed_frame(pl.DataFrame({column.name: [text]}), schema).item()


@pytest.mark.parametrize(
    ("example", "text", "number"),
    [
        ("thousands with decimals", "1,234.5", 1234.5),
        ("continental", "1.234,5", 1234.5),
        ("decimal commas", "-3,25", -3.25),
        ("thousands by spaces", "12 345", 12345.0),
        ("dollars", "$1,234.50", 1234.5),
        ("dollars", "-$3", -3.0),
        ("euros after the number", "3 €", 3.0),
        ("negative in brackets", "(14)", -14.0),
        ("percent", "12.5 %", 12.5),
        ("units", "7kg", 7.0),
        ("numbers", "1e400", None),
        ("numbers", "-inf", None),
        ("numbers", "NaN", None),
        ("numbers", "abc", None),
        ("numbers", " 5 ", 5.0),
        ("numbers", ".5", 0.5),
        ("numbers", "1_000", None),
    ],
)
def test_numbers_keep_their_value(example: str, text: str, number: float | None) -> None:
    assert value(judged(KINDS[example][0]), text) == number


def test_dates_keep_their_time_and_order() -> None:
    assert str(value(judged(KINDS["ISO moments"][0]), "2024-02-03T04:05:06.5Z")) == "2024-02-03 04:05:06.500000"
    assert str(value(judged(KINDS["ISO moments"][0]), "2024-02-03 04:05")) == "2024-02-03 04:05:00"
    assert "also fit" not in judged(KINDS["ISO moments"][0]).reason
    british = judged(["13/02/2024", *cycle("01/02/2024", n=N - 1)])
    assert british.datetime_format == "day first"
    american = judged(["02/13/2024", *cycle("01/02/2024", n=N - 1)])
    assert american.datetime_format == "month first"
    assert str(value(judged(KINDS["SQL moments"][0]), "2024-01-05 12:34:30.250")) == "2024-01-05 12:34:30.250000"
    assert str(value(judged(KINDS["ISO with offsets"][0]), "2024-01-05T12:00:00+02:00")) == "2024-01-05 10:00:00"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:02:03", 3723), ("07:30", 27_000), ("2 days 01:00:00", 176_400), ("1 day, 0:00:01", 86_401), ("3h 20m", 12_000),
        ("45 min", 2700), ("1d", 86_400), ("90s", 90), ("PT1H30M", 5400), ("P1DT1S", 86_401), ("100:00:00.5", 360_000.5),
        ("-1:30:00", -5400), ("12:75", None), ("soon", None), ("P", None),
    ],
)  # fmt: skip
def test_durations_are_seconds(text: str, seconds: float | None) -> None:
    assert parse_numbers(pl.Series([text]), NumberFormat(unit=CLOCK)).to_list() == [seconds]


@pytest.mark.parametrize(("step", "unit"), [(1, "seconds"), (1_000, "milliseconds"), (1_000_000, "microseconds")])
def test_epochs_are_datetimes_if_the_name_implies_it(step: int, unit: str) -> None:
    values = [(1_700_000_000 + i * 3600) * step for i in range(N)]
    column = judged(values, "created_at")
    assert column.kind == "datetime"
    assert unit in column.reason
    assert column.low_text == "2023-11-14T22:13:20"
    table = frame(created_at=values, y=TARGET)
    typed = typed_frame(table, infer_schema(table, target="y"))
    assert str(typed["created_at"][1]) == "2023-11-14 23:13:20"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("soil_type", "categorical"), ("MSSubClass", "categorical"), ("zone", "categorical"), ("Mother's occupation", "categorical"),
     ("type_count", "numeric"), ("rooms", "numeric"), ("classes_taken", "numeric")],
)  # fmt: skip
def test_whole_numbers_are_codes_by_their_name(name: str, kind: str) -> None:
    assert judged(cycle(20, 30, 45, 190), name).kind == kind
    assert judged(cycle(20.5, 30, 45, 190), name).kind == "numeric"


def test_infinite_numbers_are_reported() -> None:
    assert "2 are infinite" in judged(["inf", "1e999", *NUMBERS[2:]]).reason
    (warning,) = infer_schema(
        frame(x=["inf", "1e999", *NUMBERS[2:]], c=cycle("a", "b", "c", "b", "a"), y=TARGET)
    ).warnings
    assert (warning.check, warning.column) == ("set_aside", "x")
    assert "'inf' (1), '1e999' (1)" in warning.message


def test_ambiguous_dates_are_reported() -> None:
    assert "All of them also fit day first" in judged(cycle("01/02/2024", "03/04/2024", "05/06/2023")).reason
    assert judged(cycle("01.02.2024", "03.04.2024", "05.06.2023")).datetime_format == "day first"


def test_missing_spellings_are_detected_and_recorded() -> None:
    column = judged(["?", "N/A", "", " - ", *NUMBERS[4:]])
    assert (column.kind, column.missing) == ("numeric", 4)
    assert column.missing_spellings == ("-", "?", "N/A")


def test_minus_next_to_plus_is_a_value() -> None:
    column = judged(cycle("+", "-", "?"))
    assert set(column.levels) == {"+", "-"}
    assert value(column, "-") == "-"
    assert value(column, "?") is None


def test_null_option_also_applies_to_prediction() -> None:
    column = judged(["-999", "unknown", *NUMBERS[2:]], null=("-999", "unknown"))
    assert (column.kind, column.missing) == ("numeric", 2)
    assert value(column, "-999") is None


def test_few_texts_among_many_numbers_are_missing() -> None:
    column = judged(["see note", *NUMBERS[1:]])
    assert column.kind == "numeric"
    assert 0.98 < column.support < 1
    assert "see note" in column.reason


def test_statistics_of_a_column() -> None:
    column = judged(cycle("a", "b", "b", "c", "c", "c"))
    assert (column.levels, column.level_counts) == (("c", "b", "a"), (30, 20, 10))
    number = judged([*range(1, N), 0.5])
    assert (number.low, number.high, sum(number.histogram)) == (0.5, N - 1, N)
    dates = judged(KINDS["ISO dates"][0])
    assert dates.low_text is not None
    assert dates.low_text.startswith("2024-01-01")
    assert sum(dates.histogram) == N


def test_overrides_are_applied_and_recorded() -> None:
    table = frame(
        code=cycle(1, 2, 3), id=range(N), z=NUMBERS, drop=NUMBERS, who=cycle("p", "q", "r"), w=cycle(1, 2), y=TARGET
    )
    schema = infer_schema(
        table, target="y", kinds={"code": "categorical", "id": "numeric"}, ignore=["drop"], group="who", weight="w"
    )
    assert (schema.column("code").kind, schema.column("code").overridden) == ("categorical", True)
    assert (schema.column("id").kind, schema.column("id").role) == ("numeric", "feature")
    assert schema.column("drop").role == "ignore"
    assert schema.with_role("group") == schema.column("who")
    assert schema.with_role("weight") == schema.column("w")
    assert [column.name for column in schema.features] == ["code", "id", "z"]
    assert typed_frame(table, schema).columns == ["code", "id", "z", "who", "w", "y"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"agee": "numeric"}}, "did you mean 'age'"),
        ({"kinds": {"age": "numbr"}}, "did you mean 'numeric'"),
        ({"kinds": {"city": "numeric"}}, "none of its values is a number"),
        ({"kinds": {"city": "datetime"}}, "no known date format"),
        ({"ignore": ["cty"]}, "did you mean 'city'"),
        ({"group": "nope"}, "--group"),
        ({"time": "nope"}, "--time"),
        ({"weight": "nope"}, "--weight"),
        ({"ignore": ["y"]}, "cannot be ignored"),
        ({"positive": "Yes"}, "did you mean 'yes'"),
    ],
)
def test_options_with_unknown_names_are_rejected(options: dict[str, object], message: str) -> None:
    table = frame(age=NUMBERS, city=cycle("a", "b", "c"), y=TARGET)
    with pytest.raises(UsageError) as caught:
        infer_schema(table, target="y", **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_unsuitable_roles_are_rejected() -> None:
    table = frame(age=NUMBERS, city=cycle("a", "b", "c"), y=TARGET)
    with pytest.raises(DataError, match="weight"):
        infer_schema(table, target="y", weight="city")
    with pytest.raises(DataError, match="negative"):
        infer_schema(table, target="y", weight="age")
    with pytest.raises(DataError, match="time"):
        infer_schema(table, target="y", time="city")


def test_tables_without_features_are_rejected() -> None:
    with pytest.raises(DataError, match="single column"):
        infer_schema(frame(y=TARGET))
    with pytest.raises(DataError, match="no feature"):
        infer_schema(frame(id=range(N), one=cycle("x"), y=TARGET), target="y")


def checks(schema: Schema) -> set[tuple[str, str | None]]:
    return {(warning.check, warning.column) for warning in schema.warnings}


def test_problems_are_reported() -> None:
    classes = ["rare", "rare", *cycle("a", "b", n=N - 2)]
    table = frame(
        id=range(N), fixed=cycle("x"), x=NUMBERS, twin=NUMBERS, gaps=[*NUMBERS[:20], *cycle("", n=N - 20)],
        copied=classes, determines=[f"{c}{i % 2}" for i, c in enumerate(classes)], y=classes,
    )  # fmt: skip
    schema = infer_schema(table, target="y")
    found = checks(schema)
    assert {
        ("identifier", "id"), ("constant", "fixed"), ("duplicate_column", "twin"), ("missing", "gaps"), ("leak", "copied"),
        ("rare_class", "y"),
    } <= found  # fmt: skip
    assert [column.name for column in schema.features] == ["x", "gaps", "determines"]


def test_feature_that_determines_the_target_is_a_leak() -> None:
    n = 400
    answer = [int(x) for x in np.random.default_rng(0).integers(0, 2, n)]
    table = frame(
        status=[["open", "done"][a] for a in answer], x=np.random.default_rng(1).normal(size=n).tolist(), y=answer
    )
    schema = infer_schema(table, target="y")
    assert ("leak", "status") in checks(schema)
    assert schema.column("status").role == "feature"
    numbers = np.random.default_rng(2).normal(size=n)
    scaled = infer_schema(
        frame(x=(numbers * 3 + 1).tolist(), z=[5 + i // 2 for i in range(n)], y=numbers.tolist()), target="y"
    )
    assert checks(scaled) == {("leak", "x")}


def test_imbalance_and_repeated_rows_are_reported() -> None:
    table = frame(x=cycle(1.5, 2.5, 3.5, n=400), y=["yes" if i % 40 == 0 else "no" for i in range(400)])
    assert {("imbalance", "y"), ("duplicate_rows", None)} <= checks(infer_schema(table, target="y"))


def test_clean_tables_have_no_warning() -> None:
    assert infer_schema(frame(x=NUMBERS, c=cycle("a", "b", "c", "b", "a"), y=TARGET)).warnings == ()


@pytest.mark.parametrize(
    ("levels", "repeats", "expected"),
    [
        ([f"{i}/{i // 2}" for i in range(100, 130)], 4, True),
        ([f"Core i{i % 9} {i}00U" for i in range(30)], 4, True),
        ([f"{i}/{i // 2}" for i in range(100, 130)], 60, False),
        ([f"{i}/{i // 2}" for i in range(100, 110)], 4, False),
        (
            [f"{a}{b}" for a in ("Ox", "Cam", "Brad") for b in ("ford", "bridge", "ley", "well", "ton", "ham", "by")],
            4,
            False,
        ),
    ],
)
def test_models_learn_from_the_texts_of_rare_categories_with_digits(
    levels: list[str], repeats: int, expected: bool
) -> None:
    n = len(levels) * repeats
    table = frame(level=levels * repeats, x=np.random.default_rng(0).normal(size=n).tolist(), y=["a", "b"] * (n // 2))
    column = infer_schema(table, target="y").column("level")
    assert (column.kind, column.learns_texts) == ("categorical", expected)
    assert ("Its texts are features, too." in column.reason) == expected
    assert not infer_schema(table, target="y", kinds={"level": "categorical"}).column("level").learns_texts


def test_the_texts_of_at_most_twenty_categories_are_features() -> None:
    codes = {f"code{k}": [f"{k}/{i % (20 + k)}" for i in range(300)] for k in range(26)}
    schema = infer_schema(frame(**codes), target="code25")
    assert [column.name for column in schema.columns if column.learns_texts] == [f"code{k}" for k in range(5, 25)]


@pytest.mark.parametrize(
    ("spell", "kind"),
    [
        (lambda i: f"{600 + i}x{400 + 2 * i}", "text"),
        (lambda i: f"({40 + i / 100:.2f},{-74 - i / 50:.2f})", "text"),
        (lambda i: f"2023/{1000 + i}", "identifier"),
        (lambda i: f"AB{i}x{i}", "identifier"),
    ],
)
def test_quantities_beside_each_other_identify_no_row(spell: Callable[[int], str], kind: str) -> None:
    table = frame(cell=[spell(i) for i in range(60)], x=[i % 7 for i in range(60)], y=["a", "b"] * 30)
    assert infer_schema(table, target="y").column("cell").kind == kind
