"""Lines that are no rows, headers that are none, and tables that are not separated by one character."""

from __future__ import annotations

from collections.abc import Callable

from tests.frontdoor.levels import chosen
from tests.frontdoor.numbers import plain
from tests.frontdoor.tables import TRAINING, delimited, situation
from tests.frontdoor.truth import Cell, Draw, Drawn, Field, Phase

Rows = list[list[str | None]]


def tested(draw: Draw) -> list[Field]:
    """A number and a category beside the ordinary columns."""
    number = draw.column("mass", draw.number, plain, lambda v: Cell(plain(v), v), 0.0)
    return [number, chosen(draw, "soil", ["clay", "sand", "peat"])]


def laid_out(draw: Draw, write: Callable[[list[str], Rows], str]) -> Drawn:
    """Ordinary columns in an unusual layout, in both files or in the file to predict only."""

    def both(side: Phase, header: list[str], rows: Rows) -> str:
        if side == "prediction" or draw.phase == "training":
            return write(header, rows)
        return delimited([header, *rows])

    return Drawn(tested(draw), write=both)


FOOTERS = (
    "(400 rows)", "(240 row(s) affected)", "240 rows in set (0.01 sec)", "(400 Zeilen)", "(400 filas)", "Total", "Total: 240",
    "EOF",    "Time: 12.345 ms", "Fetched 240 row(s) in 0.31s", "\\.", "\x1a", "-- end of file --", "# 240 records",
    "Source: statistics office", "Note: preliminary figures", "240 rows selected.", "End of report",
)  # fmt: skip


@situation(formats=("csv",))
def footers(draw: Draw) -> Drawn:
    footer = draw.pick(*FOOTERS)
    blank = "\n" if draw.rng.random() < 0.4 else ""
    return laid_out(draw, lambda header, rows: delimited([header, *rows]) + blank + footer + "\n")


@situation(formats=("csv",))
def row_of_totals(draw: Draw) -> Drawn:
    word = draw.pick("Total", "Grand total", "Sum", "Summe", "Gesamt")

    def write(header: list[str], rows: Rows) -> str:
        total: list[str | None] = [None] * len(header)
        total[0] = word
        total[1] = f"{sum(float(row[1] or 0) for row in rows):.0f}"
        return delimited([header, *rows, total])

    return laid_out(draw, write)


@situation(formats=("csv",))
def psql(draw: Draw) -> Drawn:
    def write(header: list[str], rows: Rows) -> str:
        widths = [max(len(cell or "") for cell in column) for column in zip(header, *rows, strict=True)]

        def line(row: list[str] | list[str | None]) -> str:
            return " " + " | ".join((cell or "").ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

        ruler = "-+-".join("-" * width for width in widths)
        return "\n".join([line(header), f"-{ruler}-", *map(line, rows), f"({len(rows)} rows)", ""])

    return laid_out(draw, write)


@situation(formats=("csv",))
def mysql(draw: Draw) -> Drawn:
    def write(header: list[str], rows: Rows) -> str:
        widths = [max(len(cell or "") for cell in column) for column in zip(header, *rows, strict=True)]

        def line(row: list[str] | list[str | None]) -> str:
            return "| " + " | ".join((cell or "").ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

        ruler = "+-" + "-+-".join("-" * width for width in widths) + "-+"
        text = [ruler, line(header), ruler, *map(line, rows), ruler]
        return "\n".join([*text, f"{len(rows)} rows in set (0.00 sec)", ""])

    return laid_out(draw, write)


@situation(formats=("csv",))
def markdown(draw: Draw) -> Drawn:
    dash = draw.pick("---", ":---", ":---:", "---:")

    def write(header: list[str], rows: Rows) -> str:
        lines = [header, [dash] * len(header), *rows]
        return "".join("| " + " | ".join(cell or "" for cell in line) + " |\n" for line in lines)

    return laid_out(draw, write)


@situation(formats=("csv",))
def second_header(draw: Draw) -> Drawn:
    mark = draw.pick("", "\ufeff")

    def write(header: list[str], rows: Rows) -> str:
        middle = len(rows) // 2
        return delimited([header, *rows[:middle]]) + mark + delimited([header, *rows[middle:]])

    return laid_out(draw, write)


@situation(formats=("csv",))
def line_of_units(draw: Draw) -> Drawn:
    unit = draw.pick("kg", "[kg]", "(kg)")

    def write(header: list[str], rows: Rows) -> str:
        units = {"width": "cm", "mass": unit, "visits": "1/d"}
        return delimited([header, [units.get(name, "") for name in header], *rows])

    return laid_out(draw, write)


@situation(formats=("csv",))
def line_of_types(draw: Draw) -> Drawn:
    types = {
        "width": "float",
        "visits": "int",
        "color": "string",
        "opened": "date",
        "outcome": "float",
        "mass": "float",
    }
    return laid_out(
        draw, lambda header, rows: delimited([header, [types.get(name, "string") for name in header], *rows])
    )


@situation(formats=("csv",))
def row_names(draw: Draw) -> Drawn:
    """R writes the names of rows without a name of their column."""

    def write(header: list[str], rows: Rows) -> str:
        return delimited([header]) + delimited([[str(i), *row] for i, row in enumerate(rows, start=1)])

    return laid_out(draw, write)


@situation(formats=("csv",))
def aligned_with_spaces(draw: Draw) -> Drawn:
    def write(header: list[str], rows: Rows) -> str:
        widths = [max(len(cell or "") for cell in column) for column in zip(header, *rows, strict=True)]
        lines = [header, *rows]
        return "".join(
            "  ".join((cell or "").rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
            for line in lines
        )

    return laid_out(draw, write)


@situation(formats=("csv",))
def single_quotes(draw: Draw) -> Drawn:
    def quoted(cell: str | None) -> str:
        return cell if cell and cell[0] in "-0123456789" else f"'{cell}'"

    drawn = laid_out(draw, lambda header, rows: "".join(",".join(map(quoted, line)) + "\n" for line in [header, *rows]))
    levels = chosen(draw, "soil", ["heavy, clay", "sand", "peat"])
    return Drawn([drawn.fields[0], levels], write=drawn.write)


@situation(formats=("csv",), phases=TRAINING)
def comments_above(draw: Draw) -> Drawn:
    lines = draw.pick("# made by a program\n# on Monday\n", "Report of 2024\n\n", "sep=,\n")
    return laid_out(draw, lambda header, rows: lines + delimited([header, *rows]))


@situation(formats=("csv",), phases=TRAINING)
def blank_lines(draw: Draw) -> Drawn:
    def write(header: list[str], rows: Rows) -> str:
        return "\n\n" + delimited([header, *rows]).replace("\n", "\n\n") + "\n\n\n"

    return laid_out(draw, write)


@situation(formats=("csv",), phases=TRAINING)
def empty_columns(draw: Draw) -> Drawn:
    """A spreadsheet program writes separators behind the last column."""
    return laid_out(
        draw, lambda header, rows: "".join(line + ",,\n" for line in delimited([header, *rows]).splitlines())
    )
