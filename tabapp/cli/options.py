"""The options of a run, and what the commands share in reading what was typed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from tabapp.cli.completing import columns, metrics, models, several, tables
from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.run.config import parse_budget, parse_bytes


def split_names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def split_kinds(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for item in (part for text in value for part in text.split(",")):
        column, equals, kind = item.partition("=")
        if not equals:
            raise UsageError(f"--kind {item!r} is not COLUMN=KIND, such as --kind zip=categorical.")
        kinds[column.strip()] = kind.strip()
    return kinds


def read_budget(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else parse_budget(value)


def read_bytes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(value)


def read_workers(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "auto":
        return None
    if not value.isdigit() or int(value) < 1:
        raise UsageError(f"--workers {value!r} is not a number of processes; use 1 or more, or auto.")
    return int(value)


def read_device(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
        raise UsageError(f"There is no device {value!r}; use auto, cpu, cuda or cuda:N.")
    return value


class Choice(click.Choice[str]):
    """A choice whose refusal is one sentence that names the nearest value."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.choices:
            return value
        name = param.opts[0] if param else "the option"
        hint = did_you_mean(str(value), self.choices) or f"; use one of {', '.join(self.choices)}."
        raise UsageError(f"{name} {value!r} is not known{hint}")


class Whole(click.ParamType[int]):
    """A whole number between bounds, refused in one sentence."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if (
            re.fullmatch(r"[+-]?\d+", text)
            and int(text) >= self._least
            and (self._most is None or int(text) <= self._most)
        ):
            return int(text)
        name = param.opts[0] if param else "the option"
        bounds = f"{self._least} or more" if self._most is None else f"{self._least} to {self._most}"
        raise UsageError(f"{name} {text!r} cannot be used; give a whole number, {bounds}.")


class SectionedCommand(click.Command):
    """A command whose options are listed in named sections in the help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", OUTPUT), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class SectionOption(click.Option):
    """An option that knows which section of the help it belongs to."""

    def __init__(self, *arguments: Any, section: str = "Other", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.section = section


def _option(section: str, *names: str, **options: Any) -> Any:
    return click.option(*names, cls=SectionOption, section=section, **options)


GOAL, SEARCH, SCORING, COLUMNS, READING, MACHINE, OUTPUT = (
    "What to predict",
    "Search",
    "Validation",
    "Columns",
    "Reading the file",
    "Machine",
    "Output",
)

DEFAULT_PORT = 8000

WEB_OPTIONS = (
    _option(OUTPUT, "--web", is_flag=True, help="The screen in a browser, for this machine alone; prints its address."),
    _option(
        OUTPUT,
        "--port",
        type=Whole(0, 65535),
        default=DEFAULT_PORT,
        metavar="N",
        help=f"Port of --web (default {DEFAULT_PORT}; 0 takes any that is free).",
    ),
)

RUN_OPTIONS = (
    _option(GOAL, "--auto", is_flag=True, help="No screen: run, print the leaderboard, write the bundle."),
    _option(GOAL, "--target", metavar="COL", shell_complete=columns, help="Column to predict."),
    _option(
        GOAL,
        "--task",
        type=Choice(["auto", "binary", "multiclass", "regression"]),
        default="auto",
        help="Kind of task.",
    ),
    _option(
        GOAL,
        "--metric",
        metavar="NAME",
        shell_complete=metrics,
        help="roc_auc, log_loss, f1, rmse, mae, …, or the cost of errors: cost:fn=5,fp=1",
    ),
    _option(GOAL, "--positive", metavar="CLASS", help="The positive class of a binary target."),
    _option(
        SEARCH, "--budget", callback=read_budget, metavar="TIME", help="Hard limit such as 90s, 10m, 2h (default 10m)."
    ),
    _option(SEARCH, "--trials", type=Whole(1), metavar="N", help="Most trials a model; without --budget, no clock."),
    _option(
        SEARCH,
        "--quality",
        type=Choice(["fast", "balanced", "best"]),
        default="balanced",
        help="Defaults only, tuned, or tuned without shortcuts.",
    ),
    _option(
        SEARCH,
        "--models",
        callback=split_names,
        metavar="A,B",
        shell_complete=several(models),
        help="Only these models (see `tabapp models`).",
    ),
    _option(
        SEARCH,
        "--exclude",
        callback=split_names,
        metavar="A,B",
        shell_complete=several(models),
        help="All but these models.",
    ),
    _option(
        SEARCH,
        "--seed",
        type=Whole(0, 2**31 - 1),
        default=0,
        metavar="N",
        help="Seed of every random choice (default 0).",
    ),
    _option(
        SCORING, "--validation", type=Choice(["auto", "holdout", "cv"]), default="auto", help="How scores are made."
    ),
    _option(SCORING, "--folds", type=Whole(2, 50), metavar="K", help="Folds of cross-validation (default 5)."),
    _option(
        SCORING,
        "--group",
        metavar="COL",
        shell_complete=columns,
        help="Rows of a group never stand on both sides of a split.",
    ),
    _option(SCORING, "--time", metavar="COL", shell_complete=columns, help="Score on the latest rows by this column."),
    _option(SCORING, "--weight", metavar="COL", shell_complete=columns, help="Weight of each row."),
    _option(
        SCORING,
        "--test",
        type=click.Path(),
        metavar="FILE",
        shell_complete=tables,
        help="Labelled rows to score the bundle on at the end.",
    ),
    _option(
        COLUMNS,
        "--ignore",
        callback=split_names,
        metavar="COL,…",
        shell_complete=several(columns),
        help="Columns to leave out.",
    ),
    _option(
        COLUMNS,
        "--kind",
        "kinds",
        callback=split_kinds,
        multiple=True,
        metavar="COL=KIND,…",
        help="Say what a column is.",
    ),
    _option(READING, "--delimiter", metavar="TEXT", help="Column separator."),
    _option(READING, "--encoding", metavar="NAME", help="Text encoding."),
    _option(READING, "--decimal", metavar="TEXT", help="Decimal mark."),
    _option(READING, "--null", callback=split_names, metavar="TEXT,…", help="More spellings of a missing value."),
    _option(
        MACHINE, "--device", callback=read_device, default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:N."
    ),
    _option(MACHINE, "--workers", callback=read_workers, default="auto", metavar="N", help="Fits at a time, or auto."),
    _option(
        MACHINE,
        "--memory-limit",
        callback=read_bytes,
        metavar="SIZE",
        help="Memory of all fits together, such as 8GiB.",
    ),
    _option(OUTPUT, "--out", type=click.Path(), metavar="FILE", help="Where to put the bundle besides the run folder."),
    _option(OUTPUT, "--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where runs are kept."),
    _option(OUTPUT, "--name", metavar="TEXT", help="A name for the run."),
    *WEB_OPTIONS,
    _option(OUTPUT, "--plain", is_flag=True, help="Plain lines, no live view."),
    _option(OUTPUT, "--json", "as_json", is_flag=True, help="One event a line on stdout (with --auto)."),
    _option(OUTPUT, "-q", "--quiet", is_flag=True, help="No narration on stderr."),
    _option(OUTPUT, "-v", "--verbose", is_flag=True, help="Narrate every fit."),
)


def run_options(function: Any) -> Any:
    for option in reversed(RUN_OPTIONS):
        function = option(function)
    return function


def web_options(function: Any) -> Any:
    for option in reversed(WEB_OPTIONS):
        function = option(function)
    return function


def check_file(path: str) -> None:
    """Refuse at once what needs no engine to see.

    Raises:
        DataError: the file is missing, a directory or unreadable.
    """
    file = Path(path)
    if file.is_dir():
        raise DataError(f"{path} is a directory, not a table; name a file inside it.")
    if not file.exists():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise DataError(f"There is no file {path}{did_you_mean(file.name, beside) or '; check the path.'}")
    if file.is_file() and file.stat().st_size == 0:
        raise DataError(f"{path} is empty; name a file that holds a table.")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} may not be read by this user; change its permissions.")
