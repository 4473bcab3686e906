"""The options of a run, and the parsers of option values that several commands share."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from tabapp.cli.completion import columns, metrics, models, several, tables
from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.run.options.bounds import FOLDS, PORT, SEED, TRIALS, WORKERS, Bounds
from tabapp.run.options.config import check_directions, check_hidden, parse_budget, parse_bytes
from tabapp.run.options.lists import split_list


def split_names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return split_list(value or "")


def split_kinds(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for item in (part for text in value for part in split_list(text)):
        column, equals, kind = item.rpartition("=")
        if not equals:
            raise UsageError(f"--kind {item!r} does not have the form COLUMN=KIND. Example: --kind zip=categorical.")
        kinds[column.strip()] = kind.strip()
    return kinds


def split_directions(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    directions: dict[str, str] = {}
    for item in (part for text in value for part in split_list(text)):
        column, equals, sign = item.rpartition("=")
        if not equals:
            raise UsageError(
                f"--monotonic {item!r} does not have the form COLUMN=+ or COLUMN=-. Example: --monotonic age=+."
            )
        directions[column.strip()] = sign.strip()
    check_directions(directions)
    return directions


def read_budget(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else parse_budget(value)


def read_share(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    try:
        share: str | float = float(value)
    except ValueError:
        share = value
    return check_hidden(share)


MAX_MEMORY_HELP = "Memory that reading a table may use, such as 8GiB [default: 80 % of what is free]."


def read_bytes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(value)


def device_option(function: Any) -> Any:
    """The option `--device` of the commands that use the models of a bundle."""
    return click.option(
        "--device",
        callback=read_device,
        default="cpu",
        show_default=True,
        metavar="DEVICE",
        help="Device of the deep models: cpu, cuda or cuda:N.",
    )(function)


def trust_option(function: Any) -> Any:
    """The option `--trust` of the commands that read a bundle."""
    return click.option(
        "--trust",
        type=click.Path(path_type=Path),
        metavar="PUBKEY",
        help="Reject BUNDLE unless this Ed25519 public key has signed it.",
    )(function)


def read_workers(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "auto":
        return None
    if not value.isdigit() or int(value) not in WORKERS:
        raise UsageError(f"--workers {value!r} is not valid. Use a whole number, {WORKERS}, or auto.")
    return int(value)


def read_device(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    has_auto = parameter.default == "auto"
    if not re.fullmatch(r"(auto|cpu|cuda(:\d+)?)" if has_auto else r"cpu|cuda(:\d+)?", value):
        raise UsageError(f"Unknown device {value!r}. Use {'auto, ' if has_auto else ''}cpu, cuda or cuda:N.")
    return value


class Choice(click.Choice[str]):
    """A choice that rejects other values in one sentence and suggests the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.choices:
            return value
        name = param.opts[0] if param else "the option"
        hint = did_you_mean(str(value), self.choices) or f"; use one of {', '.join(self.choices)}."
        raise UsageError(f"{name} {value!r} is not known{hint}")


class Whole(click.ParamType[int]):
    """A whole number within bounds."""

    name = "integer"

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
        name = param.opts[0] if param else "the option"
        self._bounds.check(name, text if number is None else number)
        assert number is not None
        return number


class SectionedCommand(click.Command):
    """A command whose help lists its options in named sections."""

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
    """An option with its section of the help."""

    def __init__(self, *arguments: Any, section: str = "Other", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.section = section


def _option(section: str, *names: str, **options: Any) -> Any:
    return click.option(*names, cls=SectionOption, section=section, **options)


GOAL, SEARCH, SCORING, COLUMNS, READING, MACHINE, OUTPUT = (
    "Task",
    "Model search",
    "Validation",
    "Columns",
    "File format",
    "Resources",
    "Output",
)

DEFAULT_PORT = 8000

WEB_OPTIONS = (
    _option(
        OUTPUT, "--web", is_flag=True, help="Open the terminal UI in a browser on this machine and print its address."
    ),
    _option(
        OUTPUT,
        "--port",
        type=Whole(PORT),
        default=DEFAULT_PORT,
        metavar="N",
        help=f"Port of --web; 0 chooses a free port [default: {DEFAULT_PORT}].",
    ),
)

RUN_OPTIONS = (
    _option(GOAL, "--auto", is_flag=True, help="Run without a screen: print the leaderboard and write the bundle."),
    _option(
        GOAL,
        "--target",
        metavar="COL,…",
        shell_complete=several(columns),
        help="Column to predict, or several; a name with a comma is in double quotes [default: detected].",
    ),
    _option(
        GOAL,
        "--task",
        type=Choice(["auto", "binary", "multiclass", "regression"]),
        default="auto",
        help="Type of task [default: auto].",
    ),
    _option(
        GOAL,
        "--metric",
        metavar="NAME",
        shell_complete=metrics,
        help="roc_auc, log_loss, f1, rmse, mae, …, or the cost of errors: cost:fn=5,fp=1",
    ),
    _option(GOAL, "--positive", metavar="CLASS", help="Positive class of a binary target."),
    _option(
        SEARCH,
        "--budget",
        callback=read_budget,
        metavar="TIME",
        help="Time limit of the whole run, such as 90s, 10m or 2h [default: 10m].",
    ),
    _option(
        SEARCH,
        "--trials",
        type=Whole(TRIALS),
        metavar="N",
        help="Maximum trials per model; without --budget, there is no time limit.",
    ),
    _option(
        SEARCH,
        "--quality",
        type=Choice(["fast", "balanced", "best"]),
        default="balanced",
        help="Search effort: default parameters only, tuned, or tuned without shortcuts [default: balanced].",
    ),
    _option(
        SEARCH,
        "--models",
        callback=split_names,
        metavar="A,B",
        shell_complete=several(models),
        help="Use only these models; `tabapp models` lists them.",
    ),
    _option(
        SEARCH,
        "--exclude",
        callback=split_names,
        metavar="A,B",
        shell_complete=several(models),
        help="Exclude these models.",
    ),
    _option(
        SEARCH,
        "--seed",
        type=Whole(SEED),
        default=0,
        metavar="N",
        help="Random seed [default: 0].",
    ),
    _option(
        SCORING,
        "--validation",
        type=Choice(["auto", "holdout", "cv"]),
        default="auto",
        help="Validation scheme [default: auto].",
    ),
    _option(
        SCORING,
        "--folds",
        type=Whole(FOLDS),
        metavar="K",
        help="Number of cross-validation folds [default: 8 below 3,000 rows, or 15,000 with a budget of 10m; else 5].",
    ),
    _option(
        SCORING,
        "--group",
        metavar="COL",
        shell_complete=columns,
        help="Column of groups; a split never separates the rows of a group.",
    ),
    _option(
        SCORING,
        "--time",
        metavar="COL",
        shell_complete=columns,
        help="Column with times; models are scored on the latest rows.",
    ),
    _option(SCORING, "--weight", metavar="COL", shell_complete=columns, help="Column of row weights."),
    _option(
        SCORING,
        "--test",
        type=click.Path(),
        metavar="FILE",
        shell_complete=tables,
        help="Labeled file to score the final bundle on.",
    ),
    _option(
        SEARCH,
        "--unlabelled",
        "--unlabeled",
        type=click.Path(),
        metavar="FILE",
        shell_complete=tables,
        help="File of more rows without a target, for the models that learn from them.",
    ),
    _option(
        SEARCH,
        "--hide-cells",
        callback=read_share,
        default="0",
        metavar="SHARE",
        help="Share of cells hidden from networks in training, for data with missing cells [default: 0].",
    ),
    _option(
        SEARCH,
        "--monotonic",
        callback=split_directions,
        multiple=True,
        metavar="COL=+|-,…",
        help="Columns with which predictions may only rise (+) or fall (-), for the models that support it.",
    ),
    _option(
        COLUMNS,
        "--ignore",
        callback=split_names,
        metavar="COL,…",
        shell_complete=several(columns),
        help="Columns to exclude from the features.",
    ),
    _option(
        COLUMNS,
        "--kind",
        "kinds",
        callback=split_kinds,
        multiple=True,
        metavar="COL=KIND,…",
        help="Override the detected kind of a column.",
    ),
    _option(READING, "--delimiter", metavar="TEXT", help="Column separator [default: detected]."),
    _option(READING, "--encoding", metavar="NAME", help="Text encoding [default: detected]."),
    _option(READING, "--decimal", metavar="TEXT", help="Decimal separator [default: detected]."),
    _option(READING, "--null", callback=split_names, metavar="TEXT,…", help="Additional spellings of a missing value."),
    _option(READING, "--max-memory", callback=read_bytes, metavar="SIZE", help=MAX_MEMORY_HELP),
    _option(
        MACHINE,
        "--device",
        callback=read_device,
        default="auto",
        metavar="NAME",
        help="Device to train on: auto, cpu, cuda (all GPUs) or cuda:N [default: auto].",
    ),
    _option(
        MACHINE,
        "--workers",
        callback=read_workers,
        default="auto",
        metavar="N",
        help="Number of parallel fits on the cores, or auto [default: auto].",
    ),
    _option(
        MACHINE,
        "--memory-limit",
        callback=read_bytes,
        metavar="SIZE",
        help="Memory limit of the run with all of its processes, such as 8GiB.",
    ),
    _option(
        MACHINE,
        "--executor",
        type=Choice(["local", "ray"]),
        default="local",
        metavar="NAME",
        help="Where fits run: local for this machine, ray for a cluster [default: local].",
    ),
    _option(
        MACHINE,
        "--address",
        metavar="ADDRESS",
        help="Address of the Ray cluster [default: $RAY_ADDRESS, else a cluster on this machine].",
    ),
    _option(OUTPUT, "--out", type=click.Path(), metavar="FILE", help="Copy the bundle to this file."),
    _option(OUTPUT, "--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of runs."),
    _option(OUTPUT, "--name", metavar="TEXT", help="Name of the run."),
    *WEB_OPTIONS,
    _option(OUTPUT, "--plain", is_flag=True, help="Print plain lines instead of a live view."),
    _option(
        OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON event per line on stdout (implies --auto)."
    ),
    _option(OUTPUT, "-q", "--quiet", is_flag=True, help="Print only errors on stderr."),
    _option(OUTPUT, "-v", "--verbose", is_flag=True, help="Report every fit, and list models that were not started."),
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
    """Reject a missing, empty or unreadable file before an engine starts.

    Raises:
        DataError: names the file and the problem.
    """
    file = Path(path)
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        status = None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(
            f"{path[:100]}{'…' if len(path) > 100 else ''} cannot be opened ({reason}). Check the path."
        ) from None
    if file.is_dir():
        raise DataError(f"{path} is a directory, not a table. Choose a file inside it.")
    if status is None:
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise DataError(f"There is no file {path}{did_you_mean(file.name, beside) or '; check the path.'}")
    if file.is_file() and file.stat().st_size == 0:
        raise DataError(f"{path} is empty. Choose a file that contains a table.")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} may not be read by this user. Change its permissions.")
