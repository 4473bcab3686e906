"""Shell completion: the script of each shell, and what can stand where, from the files and runs that are there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from gzip import GzipFile
from importlib import import_module
from pathlib import Path
from sys import version_info
from typing import IO, Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from tabapp.column_names import join_record, split_record
from tabapp.printable import is_printable

PROGRAM = "tabapp"
HEADER_BYTES = 1 << 16
DELIMITERS = ",;\t|"
TABLE = re.compile(r"\.(csv|tsv|txt)(\.(gz|zst|zip))?$|\.(parquet|arrow)$", re.IGNORECASE)

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell, for its start-up file."""
    from click.shell_completion import get_completion_class

    from tabapp.cli.main import COMPLETION, group

    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(group, {}, PROGRAM, COMPLETION).source())
    return 0


class EscapingBashComplete(BashComplete):
    """Bash types what it is given as it stands, unlike the other shells: a column's name may hold spaces and brackets.

    Two backslashes, of which the script's `read` takes one.
    """

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.type != "plain":
            return super().format_completion(item)
        return "plain," + re.sub(r"([^\w@%+=:,./~-])", r"\\\\\1", item.value)


add_completion_class(EscapingBashComplete, "bash")


def _fitting(names: Iterable[str], incomplete: str, before: str = "") -> list[CompletionItem[Any]]:
    """The names that begin with what is typed, without those that a shell would write raw to the terminal."""
    return [CompletionItem(before + name) for name in names if name.startswith(incomplete) and is_printable(name)]


def _quietly(complete: Completer) -> Completer:
    """Say nothing where something cannot be read: a message would land in the middle of what is being typed."""

    def completer(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        try:
            return complete(ctx, parameter, incomplete)
        except Exception:
            return []

    return completer


def several(complete: Completer) -> Completer:
    """Complete the last name of a comma-separated list with what is not yet in it."""

    def completer(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        commas = [
            place for place, sign in enumerate(incomplete) if sign == "," and not incomplete[:place].count('"') % 2
        ]
        start = commas[-1] + 1 if commas else 0
        before, last = incomplete[:start], incomplete[start:].removeprefix('"')
        taken = split_record(before)
        found = complete(ctx, parameter, last)
        return [CompletionItem(before + join_record([item.value])) for item in found if item.value not in taken]

    return completer


@_quietly
def run_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """`last`, and the runs, newest first, by their ids or the ends of them; folders where none fits."""
    from tabapp.run.record.folder import default_runs_dir, list_runs

    runs = list_runs(Path(ctx.params.get("runs_dir") or default_runs_dir()))
    ids = [run.run for run in runs if run.run.startswith(incomplete)]
    # The screen shows the end of an id when it closes.
    ends = [run.run.split("-", 2)[-1] for run in runs]
    found = _fitting(["last"] if runs else [], incomplete) + _fitting(ids or ends, incomplete)
    return found or [CompletionItem(incomplete, type="dir")]


@_quietly
def models(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Names of the installed models."""
    from tabapp.cli.names import model_names

    return _fitting(model_names(), incomplete)


@_quietly
def metrics(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Names of the metrics; those of the task where one was given."""
    from tabapp.cli.names import metric_names

    return _fitting(metric_names(ctx.params.get("task")), incomplete)


@_quietly
def columns(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Columns of the table on the command line."""
    # Click gives no argument its place while an option still lacks its value.
    data = ctx.params.get("data") or next(iter(ctx.args), None)
    if not data or not Path(data).is_file():
        return []
    return _fitting(header(Path(data), ctx.params.get("delimiter"), ctx.params.get("encoding")), incomplete)


@_quietly
def bundles(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Bundles in the folder that is being typed; any file or folder where there is none."""
    return _files(incomplete, re.compile(r"\.tabapp$"))


@_quietly
def tables(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Tables in the folder that is being typed; any file or folder where there is none."""
    return _files(incomplete, TABLE)


def _files(incomplete: str, wanted: re.Pattern[str]) -> list[CompletionItem[Any]]:
    before = incomplete[: incomplete.rfind("/") + 1]
    folder = Path(before or ".").expanduser()
    names = sorted(file.name for file in folder.iterdir() if wanted.search(file.name)) if folder.is_dir() else []
    return _fitting(names, incomplete[len(before) :], before) or [CompletionItem(incomplete, type="file")]


def header(file: Path, delimiter: str | None = None, encoding: str | None = None) -> list[str]:
    """Column names of a text table, from its first lines; empty for a format that has no header.

    Raises:
        OSError: the file cannot be read.
    """
    with _opened(file) as stream:
        start = stream.read(HEADER_BYTES)
    if start.startswith((b"PAR1", b"ARROW1")):
        return []
    text = _decoded(start, encoding)
    readings = [_first_record(text, mark) for mark in ([delimiter] if delimiter else DELIMITERS)]
    names = (" ".join(name.split()) for name in max(readings, key=len))
    return [name for name in names if name]


def _first_record(text: str, delimiter: str) -> list[str]:
    """The first record that is not blank; a quoted name may contain a line break."""
    records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return next((record for record in records if any(map(str.strip, record))), [])


def _opened(file: Path) -> IO[bytes] | GzipFile:
    match file.suffix.lower():
        case ".gz":
            return GzipFile(file)
        case ".zst":
            return import_module("compression.zstd" if version_info >= (3, 14) else "backports.zstd").open(file)
        case ".zip":
            import zipfile

            with zipfile.ZipFile(file) as archive:
                (member,) = (item for item in archive.infolist() if not item.is_dir())
                return archive.open(member)
        case _:
            return file.open("rb")


def _decoded(start: bytes, encoding: str | None) -> str:
    if encoding is None:
        encoding = "utf-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    # A character that the end cuts in two, or an undecodable one, is never offered.
    text = start.decode(encoding, errors="replace")
    return text if "\ufffd" not in text.partition("\n")[0] else start.decode("cp1252", errors="replace")
