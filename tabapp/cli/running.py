"""The commands that do runs: `tabapp DATA`, `attach`, `resume`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.run.config import RunConfig, parse_budget, parse_bytes
from tabapp.run.folder import RunBusy, RunFolder, create_run, default_runs_dir, find_run

STDIN_FILE = "stdin.csv"


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def _kinds(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for item in (part for text in value for part in text.split(",")):
        column, equals, kind = item.partition("=")
        if not equals:
            raise UsageError(f"--kind {item!r} is not COLUMN=KIND, such as --kind zip=categorical.")
        kinds[column.strip()] = kind.strip()
    return kinds


def _budget(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else parse_budget(value)


def _bytes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(value)


def _workers(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "auto":
        return None
    if not value.isdigit() or int(value) < 1:
        raise UsageError(f"--workers {value!r} is not a number of processes; use 1 or more, or auto.")
    return int(value)


def _device(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
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

RUN_OPTIONS = (
    _option(GOAL, "--auto", is_flag=True, help="No screen: run, print the leaderboard, write the bundle."),
    _option(GOAL, "--target", metavar="COL", help="Column to predict."),
    _option(
        GOAL,
        "--task",
        type=Choice(["auto", "binary", "multiclass", "regression"]),
        default="auto",
        help="Kind of task.",
    ),
    _option(GOAL, "--metric", metavar="NAME", help="roc_auc, log_loss, accuracy, rmse, mae, r2, …"),
    _option(GOAL, "--positive", metavar="CLASS", help="The positive class of a binary target."),
    _option(
        SEARCH, "--budget", callback=_budget, metavar="TIME", help="Hard limit such as 90s, 10m, 2h (default 10m)."
    ),
    _option(SEARCH, "--trials", type=Whole(1), metavar="N", help="Most trials a model; without --budget, no clock."),
    _option(
        SEARCH,
        "--quality",
        type=Choice(["fast", "balanced", "best"]),
        default="balanced",
        help="Defaults only, tuned, or tuned without shortcuts.",
    ),
    _option(SEARCH, "--models", callback=_names, metavar="A,B", help="Only these models (see `tabapp models`)."),
    _option(SEARCH, "--exclude", callback=_names, metavar="A,B", help="All but these models."),
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
    _option(SCORING, "--group", metavar="COL", help="Rows of a group never stand on both sides of a split."),
    _option(SCORING, "--time", metavar="COL", help="Score on the latest rows by this column."),
    _option(SCORING, "--weight", metavar="COL", help="Weight of each row."),
    _option(
        SCORING, "--test", type=click.Path(), metavar="FILE", help="Labelled rows to score the bundle on at the end."
    ),
    _option(COLUMNS, "--ignore", callback=_names, metavar="COL,…", help="Columns to leave out."),
    _option(
        COLUMNS, "--kind", "kinds", callback=_kinds, multiple=True, metavar="COL=KIND,…", help="Say what a column is."
    ),
    _option(READING, "--delimiter", metavar="TEXT", help="Column separator."),
    _option(READING, "--encoding", metavar="NAME", help="Text encoding."),
    _option(READING, "--decimal", metavar="TEXT", help="Decimal mark."),
    _option(READING, "--null", callback=_names, metavar="TEXT,…", help="More spellings of a missing value."),
    _option(MACHINE, "--device", callback=_device, default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:N."),
    _option(MACHINE, "--workers", callback=_workers, default="auto", metavar="N", help="Fits at a time, or auto."),
    _option(
        MACHINE, "--memory-limit", callback=_bytes, metavar="SIZE", help="Memory of all fits together, such as 8GiB."
    ),
    _option(MACHINE, "--executor", type=Choice(["local"]), default="local", help="Where fits run."),
    _option(OUTPUT, "--out", type=click.Path(), metavar="FILE", help="Where to put the bundle besides the run folder."),
    _option(OUTPUT, "--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where runs are kept."),
    _option(OUTPUT, "--name", metavar="TEXT", help="A name for the run."),
    _option(OUTPUT, "--plain", is_flag=True, help="Plain lines, no live view."),
    _option(OUTPUT, "--json", "as_json", is_flag=True, help="One event a line on stdout (with --auto)."),
    _option(OUTPUT, "-q", "--quiet", is_flag=True, help="No narration on stderr."),
    _option(OUTPUT, "-v", "--verbose", is_flag=True, help="Narrate every fit."),
)


def _run_options(function: Any) -> Any:
    for option in reversed(RUN_OPTIONS):
        function = option(function)
    return function


def _spool_stdin(folder: RunFolder, config: RunConfig) -> None:
    """Keep what comes through stdin in the run folder, where the engine, and a resumed one, finds it."""
    import msgspec

    file = folder.path / STDIN_FILE
    with file.open("wb") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    folder.save_config(msgspec.structs.replace(config, data=str(file)))


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


def _checked_out(out: Path) -> Path:
    """Refuse at once a place for the bundle that could not be written at the end.

    Raises:
        UsageError: it is a directory, or its folder is not there or may not be written.
    """
    if out.is_dir():
        raise UsageError(f"--out {out} is a directory; name a file inside it.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}; make it first.")
    if not os.access(out.absolute().parent, os.W_OK):
        raise UsageError(f"--out {out}: the folder {out.absolute().parent} may not be written; choose another place.")
    return out


def screen_is_possible() -> bool:
    """Whether a full-screen program makes sense here: a terminal for keys, one for the picture, and not a dumb one."""
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@click.command(cls=SectionedCommand, name="run")
@click.argument("data")
@_run_options
def run(
    data: str,
    auto: bool,
    runs_dir: Path | None,
    plain: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Open DATA in the terminal, or run it without a screen."""
    if data == "-" and sys.stdin.isatty():
        raise UsageError("- reads the table from stdin, but stdin is a terminal; pipe a file into it.")
    if data != "-":
        check_file(data)
    if options["test"]:
        check_file(options["test"])
        options["test"] = str(Path(options["test"]).resolve())
    if options["out"]:
        options["out"] = str(_checked_out(Path(options["out"])).resolve())
    screen = not auto and not as_json and not plain and screen_is_possible()
    if not auto and not screen and not as_json and not plain:
        from tabapp.headless.narration import say

        say("No terminal to draw on, so this runs headless as with --auto.")
    place = (runs_dir or default_runs_dir()).absolute()
    config = RunConfig(data=STDIN_FILE if data == "-" else str(Path(data).resolve()), start=not screen, **options)
    folder = create_run(config, place)
    if data == "-":
        _spool_stdin(folder, config)
    if screen:
        return _screen(folder, place, start_engine=True)
    return _headless(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose, start=True)


def _screen(folder: RunFolder, runs_dir: Path, *, start_engine: bool) -> int:
    from tabapp.headless.summary import print_summary
    from tabapp.tui.app import run_app

    exit_code = run_app(folder, runs_dir=runs_dir, start_engine=start_engine)
    if start_engine and exit_code == 0 and not folder.plan.exists():
        # Looked at and left: a run that never started would only clutter the list.
        shutil.rmtree(folder.path, ignore_errors=True)
        return 0
    print_summary(folder)
    return exit_code


def _headless(folder: RunFolder, *, plain: bool, as_json: bool, quiet: bool, verbose: bool, start: bool) -> int:
    from tabapp.headless.follow import follow

    return follow(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose, start=start)


def _view_options(function: Any) -> Any:
    for option in reversed(
        (
            click.option("--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where runs are kept."),
            click.option("--plain", is_flag=True, help="Plain lines, no screen."),
            click.option("--json", "as_json", is_flag=True, help="One event a line on stdout."),
            click.option("-q", "--quiet", is_flag=True, help="No narration on stderr."),
            click.option("-v", "--verbose", is_flag=True, help="Narrate every fit."),
        )
    ):
        function = option(function)
    return function


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--auto", is_flag=True, help="No screen.")
@_view_options
def attach(
    run_id: str, auto: bool, runs_dir: Path | None, plain: bool, as_json: bool, quiet: bool, verbose: bool
) -> int:
    """Watch a run that is at work, or look at one that is over. RUN is an id, a part of one, a name, or last."""
    place = runs_dir or default_runs_dir()
    folder = find_run(run_id, place)
    if not (auto or plain or as_json) and screen_is_possible():
        return _screen(folder, place, start_engine=False)
    return _headless(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose, start=False)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--auto", is_flag=True, help="No screen.")
@click.option("--budget", callback=_budget, metavar="TIME", help="More time, on top of what was used.")
@click.option("--trials", type=Whole(1), metavar="N", help="A new bound on trials a model.")
@_view_options
def resume(
    run_id: str,
    auto: bool,
    budget: float | None,
    trials: int | None,
    runs_dir: Path | None,
    plain: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Go on with a run that was stopped or killed: complete fits are kept, and nothing is done twice."""
    import msgspec

    place = runs_dir or default_runs_dir()
    folder = find_run(run_id, place)
    state = folder.state()
    if folder.is_running():
        raise RunBusy(f"The run {folder.run} is at work; `tabapp attach {folder.argument}` shows it.")
    config = folder.config()
    if state.finished is not None and state.finished.status == "ok" and budget is None and trials is None:
        raise UsageError(
            f"The run {folder.run} is complete; give it more with --budget or --trials, or start a new one."
        )
    if budget is not None:
        spent = state.finished.seconds if state.finished is not None else 0.0
        config = msgspec.structs.replace(config, budget=spent + budget)
    if trials is not None:
        config = msgspec.structs.replace(config, trials=trials)
    folder.save_config(msgspec.structs.replace(config, start=True))
    if not (auto or plain or as_json) and screen_is_possible():
        return _screen(folder, place, start_engine=True)
    return _headless(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose, start=True)
