"""The command `profile`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabapp.cli.completion import tables
from tabapp.cli.options import all_of, check_file, describing_option
from tabapp.errors import DataError, UsageError
from tabapp.headless.narration import echo, echo_json, json_text
from tabapp.run.options.config import DESCRIBING, RunConfig
from tabapp.temporary import TemporaryFolder
from tabapp.warning_text import grouped, sentences_of_group

if TYPE_CHECKING:
    from tabapp.data.reading.read import Reading, ReadOptions
    from tabapp.data.schema import Column, Schema


MOST_COLUMNS = 40
"""Columns that `profile` lists without --all: what fits on a screen, or is worth a second look."""


@click.command()
@click.argument("data", shell_complete=tables)
@describing_option("target", metavar="COL")
@all_of(*(describing_option(name) for name in DESCRIBING if name != "target"))
@click.option("--all", "every", is_flag=True, help="List every column of a wide table, and every warning.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def profile(data: str, every: bool, as_json: bool, **options: Any) -> int:
    """Show the detected kind of each column of DATA, the proposed target and task, and warnings.

    DATA is a file, or - for stdin. For a large file, a first look at a sample is printed on stderr while the file is read.
    """
    from tabapp.data.profile import make_profile, schema_with_warnings
    from tabapp.data.reading.read import ReadOptions, read_table
    from tabapp.metrics import default_metric

    config = RunConfig(data=data, **options)
    read_options = ReadOptions.of(config)
    with _on_disk(data) as path:
        _first_look(path, data, read_options, config)
        reading = read_table(path, read_options)
    for file in (config.test, config.unlabelled):
        if file is not None:
            check_file(file)
    n_more = 0 if config.unlabelled is None else read_table(Path(config.unlabelled), read_options).frame.height
    other = None if config.test is None else read_table(Path(config.test), read_options).frame
    schema = schema_with_warnings(reading, other, **config.of_columns(reading.names))
    if as_json:
        facts = make_profile(data, reading, schema, default_metric(schema.task), n_more)
        echo_json(json_text(facts))
    else:
        _print_profile(data, reading, schema, n_more, every)
    return 0


@contextmanager
def _on_disk(data: str) -> Generator[Path]:
    """The file to read; what comes through stdin is kept in one for as long as it takes."""
    if data != "-":
        check_file(data)
        yield Path(data)
        return
    if sys.stdin.isatty():
        raise UsageError("- reads the table from stdin, but stdin is a terminal. Pipe a file into it.")
    with TemporaryFolder("stdin") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
        try:
            yield path
        except DataError as error:
            raise DataError(str(error).replace(str(path), "stdin")) from None


def _first_look(path: Path, data: str, read_options: ReadOptions, config: RunConfig) -> None:
    """Print the first look at a large file on stderr."""
    from tabapp.data.infer import first_look

    found = first_look(path, read_options, config.of_columns)
    if found is None:
        return
    sample, schema = found
    frame = sample.reading.frame
    about = f" of about {sample.about:,}" if sample.about is not None else ""
    echo(f"{data}: a first look at {frame.height:,}{about} rows × {frame.width:,} columns", err=True)
    for line in _summary(schema):
        echo(line, err=True)
    columns = ", ".join(f"{column.name} {column.kind}" for column in schema.columns_of_file[:MOST_COLUMNS])
    more = (
        f" … and {len(schema.columns_of_file) - MOST_COLUMNS:,} more"
        if len(schema.columns_of_file) > MOST_COLUMNS
        else ""
    )
    for line in (f"columns {columns}{more}", "Looking at all rows …", ""):
        echo(line, err=True)


def _summary(schema: Schema) -> list[str]:
    from collections import Counter

    from tabapp.metrics import default_metric

    kinds = Counter(column.kind for column in schema.columns_of_file)
    return [
        "kinds   " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()),
        f"target  {schema.target}: {schema.target_reason}",
        f"task    {schema.task}: {schema.task_reason}",
        f"metric  {default_metric(schema.task)}",
    ]


def _print_profile(data: str, reading: Reading, schema: Schema, n_more: int, every: bool) -> None:
    from tabapp.headless.tables import print_table

    rows = max(1, reading.frame.height)
    text = f", {reading.encoding}, separated by {reading.delimiter!r}" if reading.delimiter else ""
    echo(f"{data}: {reading.frame.height:,} rows × {len(schema.columns_of_file):,} columns ({reading.format}{text})")
    more = f", {n_more:,} in --unlabelled" if n_more else ""
    without = [f"rows    {schema.rows:,} with a target, {schema.rows_without_target:,} without{more}"]
    for line in (*_summary(schema), *(without if schema.rows_without_target or n_more else []), ""):
        echo(line)
    shown = list(schema.columns_of_file)
    if not every and len(shown) > MOST_COLUMNS:
        warned = {warning.column for warning in schema.warnings}
        shown.sort(
            key=lambda c: (c.role != "target", c.name not in warned, c.kind in ("numeric", "categorical", "boolean"))
        )
        shown = shown[:MOST_COLUMNS]
    print_table(
        ["column", "kind", "role", "missing", "unique", "values", "why"],
        [
            [
                column.name[:32],
                column.kind,
                column.role,
                f"{column.missing / rows:.0%}" if column.missing else "",
                f"{column.unique:,}",
                _values(column),
                _why(column, schema),
            ]
            for column in shown
        ],
        right=(3, 4),
    )
    if len(shown) < len(schema.columns_of_file):
        echo(f"… and {len(schema.columns_of_file) - len(shown):,} more; --all lists every column")
    groups = [[warning] for warning in schema.warnings] if every else grouped(schema.warnings)
    for group in groups:
        for text in sentences_of_group(group):
            echo(f"⚠ {group[0].check}  {text}")


def _why(column: Column, schema: Schema) -> str:
    """The reason of a column, and the marks of its cells."""
    companion = schema.companions.get(column.name)
    return column.reason if companion is None else f"{column.reason} {companion.reason}"


def _values(column: Column) -> str:
    """A column's range, or its most frequent levels, in a few characters."""
    if column.levels:
        text = ", ".join(column.levels[:3]) + (" …" if len(column.levels) > 3 else "")
    elif column.low is not None and column.high is not None:
        # The unit of durations is the form in which they are written; their values are seconds.
        unit = "s" if column.unit is not None and ":" in column.unit else column.unit
        text = f"{column.low:g} … {column.high:g}" + (f" {unit}" if unit else "")
    else:
        text = " … ".join(end[:10] for end in column.first_and_last or ())
    return text if len(text) <= 36 else text[:35] + "…"
