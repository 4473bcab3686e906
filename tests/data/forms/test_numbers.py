"""Numbers with marks, units, powers of ten and other notations, against the values that they were written from."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from tabapp.data.forms.numbers import NumberFormat, is_number_format, number_format, parse_numbers, read_cell
from tabapp.data.infer import infer_schema
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import typed_frame

N = 400
Spell = Callable[[float], str]
ARABIC = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")
HINDI = str.maketrans("0123456789", "०१२३४५६७८९")
WIDE = str.maketrans("0123456789.%", "０１２３４５６７８９．％")

MIXED: dict[str, tuple[Spell, float, str | None]] = {
    "below": (lambda x: f"<{x}", 1, "<"),
    "below with a space": (lambda x: f"< {x}", 1, "<"),
    "above": (lambda x: f">{x}", 1, ">"),
    "at most": (lambda x: f"<={x}", 1, "≤"),
    "at least": (lambda x: f"≥{x}", 1, "≥"),
    "about": (lambda x: f"~{x}", 1, "~"),
    "about as a sign": (lambda x: f"≈ {x}", 1, "~"),
    "about as a word": (lambda x: f"ca. {x}", 1, "~"),
    "star": (lambda x: f"{x}*", 1, "*"),
    "two stars": (lambda x: f"{x} **", 1, "**"),
    "dagger": (lambda x: f"{x}†", 1, "†"),
    "footnote": (lambda x: f"{x}[a]", 1, "[a]"),
    "estimated": (lambda x: f"{x}e", 1, "e"),
    "provisional": (lambda x: f"{x} p", 1, "p"),
    "provisional in parentheses": (lambda x: f"{x} (p)", 1, "p"),
    "revised": (lambda x: f"{x}r", 1, "r"),
    "break": (lambda x: f"{x} b", 1, "b"),
    "minus after": (lambda x: f"{x}-", -1, None),
    "credit": (lambda x: f"{x} CR", -1, None),
    "negative in parentheses": (lambda x: f"({x})", -1, None),
    "thousand": (lambda x: f"{x}K", 1e3, None),
    "thousand in lower case": (lambda x: f"{x}k", 1e3, None),
    "million as a word": (lambda x: f"{x} million", 1e6, None),
    "Mio": (lambda x: f"{x} Mio.", 1e6, None),
    "billion": (lambda x: f"{x}bn", 1e9, None),
    "euros of millions": (lambda x: f"€{x}M", 1e6, None),
    "euros of thousands after": (lambda x: f"{x} TEUR", 1e3, None),
    "unit": (lambda x: f"{x} kg", 1, None),
    "currency before": (lambda x: f"${x}", 1, None),
    "currency after": (lambda x: f"{x} €", 1, None),
    "power with a caret": (lambda x: f"{x}*10^3", 1e3, None),
    "power with a superscript": (lambda x: f"{x}×10³", 1e3, None),
    "negative power": (lambda x: f"{x} · 10⁻²", 1e-2, None),
    "exponent with a decimal comma": (lambda x: f"{x}e3".replace(".", ","), 1e3, None),
    "decimal comma": (lambda x: f"{x}".replace(".", ","), 1, None),
    "price without cents": (lambda x: f"{x:.0f}.-", 0, None),
    "at least as words": (lambda x: f"{x} or more", 1, "≥"),
    "currency of any country": (lambda x: f"₦{x}", 1, None),
    "power of a printed page": (lambda x: f"{x} × 10−3", 1e-3, None),
    "tolerance": (lambda x: f"{x} ± 0.5", 1, None),
    "Arabic digits": (lambda x: f"{x}".translate(ARABIC), 1, None),
    "Devanagari digits": (lambda x: f"{x}".translate(HINDI), 1, None),
    "full width": (lambda x: f"{x}".translate(WIDE), 1, None),
    "apostrophe of a spreadsheet": (lambda x: f"'{x}", 1, None),
}  # fmt: skip
"""How some of the cells are spelled, the factor of their values, and their mark."""


def schema_of(cells: list[str], name: str = "x") -> tuple[pl.DataFrame, Schema]:
    chance = random.Random(1)
    frame = pl.DataFrame(
        {
            name: cells,
            "z": [f"{chance.random():.6f}" for _ in cells],
            "y": [f"{chance.gauss(0, 1):.6f}" for _ in cells],
        }
    )
    return frame, infer_schema(frame, target="y")


def column_of_cells(cells: list[str], name: str = "x") -> Column:
    return schema_of(cells, name)[1].column(name)


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("case", MIXED)
def test_some_cells_in_another_notation_have_their_values(case: str, share: float):
    spell, factor, mark = MIXED[case]
    chance = random.Random(f"{case} {share}")
    values = [round(chance.uniform(20, 99), 1) for _ in range(N)]
    spelled = [chance.random() < share for _ in range(N)]
    cells = [spell(x) if other else f"{x}" for x, other in zip(values, spelled, strict=True)]
    frame, schema = schema_of(cells)
    assert schema.column("x").kind == "numeric"
    typed = typed_frame(frame, schema)
    truth = [(x * factor or float(round(x))) if other else x for x, other in zip(values, spelled, strict=True)]
    assert typed["x"].to_list() == pytest.approx(truth)
    if mark is None:
        assert schema.companions == {}
    else:
        assert typed["x mark"].to_list() == [mark if other else None for other in spelled]


def same(x: float) -> str:
    return f"{x}"


def lap(x: float) -> str:
    return f"{int(x // 60)}:{x % 60:06.3f}" if x >= 60 else f"{x}"


ONE_SCALE: dict[str, list[tuple[Spell, Callable[[float], float]]]] = {
    "K, M and none": [
        (lambda x: f"€{x}M", lambda x: x * 1e6),
        (lambda x: f"€{x}K", lambda x: x * 1e3),
        (lambda x: f"€{x}", lambda x: x),
    ],
    "kg and g": [(lambda x: f"{x} kg", lambda x: x), (lambda x: f"{x * 1000:.0f} g", lambda x: x)],
    "GB and MB": [(lambda x: f"{x}GB", lambda x: x), (lambda x: f"{x * 1000:.0f}MB", lambda x: x)],
    "km and m": [(lambda x: f"{x} km", lambda x: x), (lambda x: f"{x * 1000:.0f} m", lambda x: x)],
    "years and months": [(lambda x: f"{x * 12:.1f} months", lambda x: x), (lambda x: f"{x} years", lambda x: x)],
    "durations": [(lambda x: f"{x * 60:.0f} min", lambda x: x * 3600), (lambda x: f"{x} h", lambda x: x * 3600)],
    "laps": [(lap, lambda x: x)],
    "laps with a decimal comma": [(lambda x: lap(x).replace(".", ","), lambda x: x)],
    "fractions": [(same, lambda x: x), (lambda x: f"{int(x)} 1/2", lambda x: int(x) + 0.5)],
    "vulgar fractions": [(same, lambda x: x), (lambda x: f"{int(x)}¾", lambda x: int(x) + 0.75)],
    "percent beside shares": [(lambda x: f"{x} %", lambda x: x), (lambda x: f"{x / 100:.4f}", lambda x: x)],
    "credit and debit": [(lambda x: f"{x} CR", lambda x: x), (lambda x: f"{x} DR", lambda x: -x)],
    "lakh and crore": [(lambda x: f"{x} Lac", lambda x: x * 1e5), (lambda x: f"{x} Cr", lambda x: x * 1e7)],
    "ten thousands": [(lambda x: f"{x}万", lambda x: x * 1e4), (lambda x: f"{x}亿", lambda x: x * 1e8)],
    "Arabic percent": [(lambda x: f"{x}٪".translate(ARABIC), lambda x: x)],
    "two spellings of a currency": [(lambda x: f"${x}", lambda x: x), (lambda x: f"{x} USD", lambda x: x)],
    "apostrophes": [(lambda x: f"{x * 1000:,.1f}".replace(",", "’"), lambda x: x * 1000)],
    "thin spaces": [(lambda x: f"{x * 1000:,.1f}".replace(",", "\u2009"), lambda x: x * 1000)],
    "groups of two": [(lambda x: f"12,{int(x)},{int(x * 10) % 1000:03}", lambda x: 12e5 + int(x) * 1e3 + int(x * 10) % 1000)],
}  # fmt: skip
"""The ways in which the numbers of a column are spelled at random, each with its value."""


@pytest.mark.parametrize("case", ONE_SCALE)
def test_a_column_has_one_scale(case: str):
    chance = random.Random(case)
    numbers = [round(chance.uniform(20, 99), 1) for _ in range(N)]
    ways = [chance.choice(ONE_SCALE[case]) for _ in range(N)]
    frame, schema = schema_of([spell(x) for x, (spell, _) in zip(numbers, ways, strict=True)])
    assert schema.column("x").kind == "numeric"
    found = typed_frame(frame, schema)["x"].to_numpy()
    truth = np.array([value(x) for x, (_, value) in zip(numbers, ways, strict=True)])
    factor = found[0] / truth[0]
    assert found == pytest.approx(truth * factor, rel=1e-3)
    is_in_unit = schema.column("x").unit in ("g", "MB", "m", "months", "min", "h")
    assert factor == pytest.approx(1) or is_in_unit


NO_NUMBERS: dict[str, Callable[[random.Random], str]] = {
    "ranges": lambda r: f"{(a := r.randrange(1, 90))}-{a + 10}",
    "phone numbers": lambda r: f"+49 {r.randrange(100, 999)} {r.randrange(1000, 9999)}",
    "versions": lambda r: f"{r.randrange(9)}.{r.randrange(9)}.{r.randrange(9)}",
    "postal codes": lambda r: f"{r.randrange(100_000):05d}",
    "long postal codes": lambda r: f"{r.randrange(10_000, 99_999)}-{r.randrange(1000, 9999)}",
    "generations": lambda r: r.choice(["3M", "5G", "A4", "2G"]),
    "ordinals": lambda r: f"{(i := r.randrange(1, 90))}{['st', 'nd', 'rd', 'th'][min(i % 10 or 9, 4) - 1]}",
    "inches": lambda r: f'{r.randrange(5, 60)}"',
    "house numbers": lambda r: f"{r.randrange(1, 200)}{r.choice(['', '', '', 'a', 'b', 'c'])}",
    "grades": lambda r: r.choice(["1", "2", "3", "1+", "2-", "3-", "2+", "4"]),
    "days and months": lambda r: f"{r.randrange(1, 12)}/{r.randrange(1, 28)}",
    "blood pressures": lambda r: f"{r.randrange(90, 160)}/{r.randrange(50, 99)}",
    "diagnoses": lambda r: r.choice([f"{r.randrange(100, 999)}.{r.randrange(99)}"] * 9 + [f"V{r.randrange(10, 99)}"]),
    "invoices": lambda r: f"{'C' if r.random() < 0.02 else ''}{r.randrange(530_000, 580_000)}",
    "age groups": lambda r: r.choice(["<18", "18-25", "26-35", ">65"]),
    "few limits": lambda r: r.choice(["<5", "5", "10", "15", ">20"]),
    "addresses": lambda r: f"{r.randrange(1, 99)} {r.choice(['Main St', 'Elm St', 'Oak Ave'])}",
    "network addresses": lambda r: ".".join(str(r.randrange(255)) for _ in range(4)),
    "coordinates": lambda r: f"{r.uniform(1, 60):.3f}, {r.uniform(1, 60):.3f}",
    "hexadecimal": lambda r: f"{r.randrange(1 << 20):05x}",
    "codes with letters": lambda r: f"{r.randrange(10, 99)}{r.choice('ABE')}{r.randrange(1, 9)}",
    "two currencies": lambda r: f"{r.choice('$€')}{r.uniform(1, 90):.2f}",
    "dates": lambda r: f"{r.randrange(1, 28):02d}.{r.randrange(1, 12):02d}.2024",
    "sizes": lambda r: f"{r.randrange(10, 99)}x{r.randrange(10, 99)}",
}  # fmt: skip


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_what_only_looks_like_numbers_is_not_numeric(case: str):
    chance = random.Random(case)
    assert column_of_cells([NO_NUMBERS[case](chance) for _ in range(N)]).kind != "numeric"


@pytest.mark.parametrize("odd", ["12 kg", "none given", "5 years", "see note", "10-20", "<3", "n.b. 7"])
def test_one_odd_cell_does_not_change_the_kind(odd: str):
    chance = random.Random(2)
    numbers = [f"{chance.uniform(4, 12):.2f}" for _ in range(N)]
    plain = column_of_cells(numbers)
    column = column_of_cells([*numbers[:-1], odd])
    assert (column.kind, column.role) == (plain.kind, plain.role) == ("numeric", "feature")
    few = [f"{chance.randrange(1, 6)}" for _ in range(N)]
    assert column_of_cells([*few[:-1], odd]).kind == column_of_cells(few).kind == "numeric"
    codes = column_of_cells([*few[:-1], odd], "soil_type")
    assert codes.kind == column_of_cells(few, "soil_type").kind == "categorical"
    rows = [f"{i}" for i in range(N)]
    assert column_of_cells([*rows[:-1], odd]).kind == column_of_cells(rows).kind == "identifier"


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (lambda r: f"{r.randrange(500, 2000)} - {r.randrange(2001, 3000)}", "numeric"),
        (lambda r: f"{r.uniform(20, 90):.2f}Sq. Meter", "numeric"),
        (lambda r: f"{r.randrange(10, 99)}-{r.randrange(1, 9)}", "categorical"),
        (lambda r: f"1-{r.randrange(1_000, 9_000)}", "categorical"),
        (lambda r: f"{r.randrange(500, 3000)}{r.choice('XQ')}", "categorical"),
        (lambda r: f"C{r.randrange(500, 3000)}", "categorical"),
    ],
)
def test_some_quantities_in_another_notation_are_set_aside_and_codes_are_not(
    odd: Callable[[random.Random], str], kind: str
):
    chance = random.Random(4)
    cells = [odd(chance) if chance.random() < 0.03 else f"{chance.randrange(300, 6000)}" for _ in range(4 * N)]
    frame, schema = schema_of(cells)
    assert schema.column("x").kind == kind
    if kind == "numeric":
        expected = [float(cell) if cell.isdecimal() else None for cell in cells]
        assert typed_frame(frame, schema)["x"].to_list() == expected
        assert any(warning.check == "set_aside" for warning in schema.warnings)


def test_zeros_need_no_unit():
    chance = random.Random(6)
    cells = [f"{chance.uniform(1, 9):.3f}mg" if chance.random() < 0.6 else "0" for _ in range(N)]
    column = column_of_cells(cells)
    assert (column.kind, column.unit, column.low) == ("numeric", "mg", 0.0)


@pytest.mark.parametrize("digits", [ARABIC, HINDI, WIDE])
def test_codes_and_row_numbers_have_their_kind_in_every_script(digits: dict[int, str]):
    chance = random.Random(5)
    assert column_of_cells([f"{i}".translate(digits) for i in range(N)]).kind == "identifier"
    assert column_of_cells([f"{chance.randrange(20_000):05}".translate(digits) for _ in range(N)]).kind == "categorical"
    soil = column_of_cells([f"{chance.randrange(9)}".translate(digits) for _ in range(N)], "soil_type")
    assert soil.kind == "categorical"


def test_a_few_words_beside_numbers_are_marks():
    chance = random.Random(3)
    cells = ["ND" if chance.random() < 0.4 else f"{chance.uniform(1, 9):.2f}" for _ in range(N)]
    frame, schema = schema_of(cells)
    typed = typed_frame(frame, schema)
    assert [mark == "ND" for mark in typed["x mark"]] == [value is None for value in typed["x"]]
    assert typed["x mark"].null_count() == N - cells.count("ND")


def test_other_units_beside_numbers_with_a_unit_are_no_codes():
    chance = random.Random(4)
    cells = [f"{chance.uniform(9, 28):.1f} {'km/kg' if i % 50 == 7 else 'kmpl'}" for i in range(N)]
    frame, schema = schema_of(cells)
    assert (schema.column("x").kind, schema.column("x").unit) == ("numeric", "kmpl")
    assert typed_frame(frame, schema)["x"].null_count() == 8
    codes = [f"V{i}" if i % 50 == 7 else f"{chance.randrange(100, 999)}" for i in range(N)]
    assert column_of_cells(codes).kind == "categorical"


def test_a_cell_of_another_column_does_not_change_the_kind():
    chance = random.Random(5)
    cells = ["Varies with device" if chance.random() < 0.2 else f"{chance.uniform(1, 99):.1f}M" for _ in range(N)]
    cells[17] = "4.0.3 and up"
    frame, schema = schema_of(cells)
    assert schema.column("x").kind == "numeric"
    typed = typed_frame(frame, schema)
    assert typed["x"][17] is None
    assert typed["x mark"].drop_nulls().unique().to_list() == ["Varies with device"]


@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize(
    ("grouped", "plain"),
    [
        (lambda x: f"{x:,.0f}", lambda x: f"{x:.0f}"),
        (lambda x: f"${x:,.2f}", lambda x: f"${x:.0f}"),
        (lambda x: f"{x:,.0f} km", lambda x: f"{x:.0f} km"),
        (lambda x: f"{x:,.0f}".replace(",", " "), lambda x: f"{x:.0f}"),
        (lambda x: f"{x:,.0f}".replace(",", ".") + ",00", lambda x: f"{x:.0f},00"),
    ],
)
def test_some_numbers_lack_the_thousands_separator_of_the_others(grouped: Spell, plain: Spell, n: int):
    chance = random.Random(8)
    numbers = [float(chance.randrange(1000, 3_000_000)) for _ in range(n)]
    spellings = [[(plain if i % every == 0 else grouped)(x) for i, x in enumerate(numbers)] for every in (9, n + 1)]
    for cells in spellings:
        frame, schema = schema_of(cells)
        assert schema.column("x").kind == "numeric"
        assert typed_frame(frame, schema)["x"].to_list() == numbers
        # New rows may be spelled in the other way.
        new = frame.with_columns(x=pl.Series([plain(x) for x in numbers]))
        assert typed_frame(new, schema)["x"].to_list() == numbers


def test_columns_of_earlier_versions_are_read_as_before():
    texts = pl.Series(["1.5", "<2", "3*", "4 kg", "5K", "٦", "7-"])
    assert parse_numbers(texts, NumberFormat()).to_list() == [1.5, *[None] * 6]
    assert parse_numbers(texts, NumberFormat(notation="open")).to_list() == [1.5, 2.0, 3.0, None, None, 6.0, -7.0]


def test_new_rows_may_have_units_of_the_same_dimension_only():
    form = NumberFormat(unit="kg", notation="open")
    texts = pl.Series(["1.5 kg", "500 g", "1.5", "3 lb", "2 m", "1 KG", "2 kgs"])
    assert parse_numbers(texts, form).to_list() == pytest.approx([1.5, 0.5, 1.5, 3 * 0.45359237, None, 1.0, 2.0])


@pytest.mark.parametrize(
    "text",
    ["1e999", "9" * 400, "<" * 100, "1" + "*" * 100, "1/0", "(", "()", "±", "1 2 3 4", "1.2.3.4", "--5", "€", "∞"],
)
def test_hostile_cells_are_no_numbers(text: str):
    for notation in ("open", "flags", "magnitude", "DR", "share"):
        assert read_cell(text, NumberFormat(notation=notation))[0] is None


@pytest.mark.parametrize(
    ("texts", "unit", "numbers"),
    [
        (["4.5/5", "3/5", "2.5 /5"], "/5", [4.5, 3.0, 2.5]),
        (["7/10", "10/10", "0/10"], "/10", [7.0, 10.0, 0.0]),
        (["90/100", "7.5/100"], "/100", [90.0, 7.5]),
        (["3/5", "3/10"], None, [None, None]),
        (["5/2023", "6/2023"], None, [None, None]),
        (["3/12", "5/12"], None, [None, None]),
    ],
)
def test_ratings_are_numbers_with_one_denominator(
    texts: list[str], unit: str | None, numbers: list[float | None]
) -> None:
    form, found, _ = number_format(pl.Series(texts), pl.Series([1] * len(texts)))
    assert (form.unit, found.to_list()) == (unit, numbers)
    assert is_number_format(form)


def test_a_rating_beside_words_is_read_as_in_its_column() -> None:
    rating, fraction = NumberFormat(unit="/5", notation="open"), NumberFormat(notation="open")
    texts = pl.Series(["4.5/5", "3/5", "5/5", "4", "NEW", "3/10"])
    assert parse_numbers(texts, rating).to_list() == [4.5, 3.0, 5.0, 4.0, None, None]
    assert parse_numbers(pl.Series(["4.1 out of 5", "3.0 out of 5 stars", "2 out of 7"]), rating).to_list() == [
        4.1,
        3.0,
        None,
    ]
    assert parse_numbers(pl.Series(["3/5", "1 3/5", "5/5"]), fraction).to_list() == [0.6, 1.6, None]
