"""What commands write: the output file of a table, and metrics as cells."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tabapp.errors import UsageError
from tabapp.headless.narration import echo_data
from tabapp.run.options.places import reject_inputs
from tabapp.temporary import TemporaryFolder

_CHUNK = 2**20

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.files.records import MetricValue

OUTPUT_FORMATS = (".csv", ".parquet", ".arrow", ".jsonl")


def check_output(
    target: Path | None,
    noun: str,
    inputs: Iterable[str | Path | None],
    *,
    safe_csv: bool = False,
    more: tuple[str, ...] = (),
) -> None:
    """Reject an output that cannot be written or would replace an input, before any work is done.

    Args:
        target: the file; None for CSV on stdout.
        noun: what is written, for the error.
        inputs: what the command reads.
        more: further formats, as suffixes.

    Raises:
        UsageError: the format is unknown or no CSV although `safe_csv` is set, the folder does not exist, or the file is an input.
    """
    if target is None:
        return
    formats = (*OUTPUT_FORMATS, *more)
    if target.suffix.lower() not in formats:
        listed = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise UsageError(f"{noun} are written as {listed}, but the output file is {target}. Rename it.")
    if safe_csv and target.suffix.lower() != ".csv":
        raise UsageError(f"--safe-csv applies to CSV only, but the output file is {target}. Omit --safe-csv.")
    if target.is_dir():
        raise UsageError(f"{target} is a directory. Choose a file inside it with -o.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent} for {target.name}. Create the folder first.")
    reject_inputs(target, inputs)


def write_table(frame: pl.DataFrame, target: Path | None, *, safe_csv: bool = False) -> None:
    """Write a table to a file, or as CSV to stdout.

    Args:
        safe_csv: neutralize formulas, and quote every text, so that no other separator splits it into cells.

    Raises:
        UsageError: the file cannot be written.
    """
    with TableWriter(target, safe_csv=safe_csv) as writer:
        writer.add(frame)
        writer.finish()


class TableWriter:
    """Writes the parts of a table to a file, or as CSV to stdout. Nothing is there before `finish`.

    Parts are kept in a temporary folder, so that memory does not grow with their number. Use it as a context manager, which removes
    the folder.

    Args:
        target: the file, whose suffix gives the format; None for CSV on stdout.
        safe_csv: as in `write_table`.
    """

    def __init__(self, target: Path | None, *, safe_csv: bool = False) -> None:
        self._target, self._safe_csv = target, safe_csv
        self._format = ".csv" if target is None else target.suffix.lower()
        self._folder = TemporaryFolder("table")
        self._text = Path(self._folder.name) / "text"
        self._parts: list[Path] = []
        self._is_empty = True

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def restart(self) -> None:
        """Forget all parts."""
        self._text.unlink(missing_ok=True)
        for part in self._parts:
            part.unlink()
        self._parts, self._is_empty = [], True

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows; all parts have the same columns."""
        if self._format in (".parquet", ".arrow"):
            self._parts.append(Path(self._folder.name) / f"{len(self._parts):06d}.arrow")
            frame.write_ipc(self._parts[-1])
            return
        with self._text.open("ab") as file:
            if self._format == ".jsonl":
                frame.write_ndjson(file)
            elif self._safe_csv:
                from tabapp.data.formulas import without_formulas

                without_formulas(frame).write_csv(file, include_header=self._is_empty, quote_style="non_numeric")
            else:
                frame.write_csv(file, include_header=self._is_empty)
        self._is_empty = False

    def finish(self) -> None:
        """Write the output.

        Raises:
            UsageError: the file cannot be written.
        """
        made = self._joined() if self._parts else self._text
        if self._target is None:
            with made.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    echo_data(chunk)
            return
        try:
            _move(made, self._target)
        except OSError as error:
            raise UsageError(
                f"{self._target} cannot be written ({error.strerror}). Choose another path with -o."
            ) from None

    def _joined(self) -> Path:
        """All parts as one file."""
        from tabapp.data.columnar.table_files import scan_parts

        made = Path(self._folder.name) / "table"
        parts = scan_parts(self._parts)
        if self._format == ".parquet":
            parts.sink_parquet(made)
        else:
            parts.sink_ipc(made)
        return made


def _move(made: Path, target: Path) -> None:
    """Copy a file to its place: at once for a regular file, and into a pipe or a device as it is.

    Raises:
        OSError: it cannot be written.
    """
    from tabapp import files

    with made.open("rb") as source:
        if target.exists() and not target.is_file():
            with target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            files.write_stream(target, source)


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
