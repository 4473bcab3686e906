"""CSV that a spreadsheet program shows as text and numbers, and never runs as formulas.

Programs such as Excel and LibreOffice Calc evaluate a cell that begins with one of a few characters, even in a CSV file.
OWASP: "CSV Injection", https://owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import polars as pl

# Their full-width forms count as well in some locales.
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
_NUMBER = r"^[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?\s*%?$"
MARK = "'"


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """A table whose texts begin with an apostrophe where a spreadsheet program would take them for formulas.

    Headers are treated the same. Numbers stay as they are, including negative ones in columns of text.
    """
    changed = [
        pl.when(column.str.contains(_FORMULA) & ~column.str.contains(_NUMBER))
        .then(pl.concat_str(pl.lit(MARK), column))
        .otherwise(column)
        .alias(column.name)
        for column in (column.cast(pl.String) for column in frame.iter_columns() if _has_text(column))
    ]
    frame = frame.with_columns(changed)
    names: list[str] = []
    for name in frame.columns:
        is_formula = pl.Series([name]).str.contains(_FORMULA).item()
        safe = MARK + name if is_formula else name
        while safe in names or (safe != name and safe in frame.columns):
            safe = MARK + safe
        names.append(safe)
    frame.columns = names
    return frame


def _has_text(column: pl.Series) -> bool:
    return column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum)
