"""What commands write: the output file of a table, and metrics as cells."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tabapp.errors import UsageError
from tabapp.headless.narration import echo_data

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.format import MetricValue

OUTPUT_FORMATS = (".csv", ".parquet")


def check_output(target: Path | None, noun: str, *, safe_csv: bool = False, more: tuple[str, ...] = ()) -> None:
    """Reject an output that cannot be written, before any work is done.

    Args:
        target: the file; None for CSV on stdout.
        noun: what is written, for the error.
        more: further formats, as suffixes.

    Raises:
        UsageError: the format is unknown or no CSV although `safe_csv` is set, or the folder does not exist.
    """
    if target is None:
        return
    formats = (*OUTPUT_FORMATS, *more)
    if target.suffix.lower() not in formats:
        raise UsageError(f"{noun} are written as {' or '.join(formats)}, but the output file is {target}. Rename it.")
    if safe_csv and target.suffix.lower() != ".csv":
        raise UsageError(f"--safe-csv applies to CSV only, but the output file is {target}. Omit --safe-csv.")
    if target.is_dir():
        raise UsageError(f"{target} is a directory. Choose a file inside it with -o.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent} for {target.name}. Create the folder first.")


def write_table(frame: pl.DataFrame, target: Path | None, *, safe_csv: bool = False) -> None:
    """Write a table to a file, or as CSV to stdout.

    Args:
        safe_csv: neutralize formulas, and quote every text, so that no other separator splits it into cells.

    Raises:
        UsageError: the file cannot be written.
    """
    from tabapp import files

    content = BytesIO()
    if target is not None and target.suffix.lower() == ".parquet":
        frame.write_parquet(content)
    elif safe_csv:
        from tabapp.data.spreadsheet import without_formulas

        without_formulas(frame).write_csv(content, quote_style="non_numeric")
    else:
        frame.write_csv(content)
    if target is None:
        echo_data(content.getvalue())
        return
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content.getvalue())
        else:
            files.write_bytes(target, content.getvalue())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path with -o.") from None


def metric_cells(values: tuple[MetricValue, ...]) -> list[list[str]]:
    """Rows of title, score, low and high; an em dash for a missing number."""
    from tabapp.metrics import known

    titles = [metric.title if (metric := known(value.name)) else value.name for value in values]
    return [
        [title, _number(value.score), _number(value.low), _number(value.high)]
        for title, value in zip(titles, values, strict=True)
    ]


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.6g}"
