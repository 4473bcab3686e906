"""The commands that start or show a run: `tabapp DATA`, `attach`, `resume`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from tabapp.cli.cluster import chosen_cluster, cluster_options
from tabapp.cli.completion import run_ids, tables
from tabapp.cli.defaults import run_defaults
from tabapp.cli.options import (
    SectionedCommand,
    all_of,
    check_file,
    gathered,
    output_options,
    run_option,
    run_options,
    runs_dir_option,
    web_options,
)
from tabapp.cli.stdin import STDIN_FILE, keep_stdin, open_keyboard, take_keys_from
from tabapp.cli.terminal import is_interactive, picture_is_possible
from tabapp.errors import ExitCode, UsageError
from tabapp.run.options.config import Executor, RunConfig, check_folds
from tabapp.run.options.places import checked_out, reject_inputs
from tabapp.run.options.settings import Settings, load_settings, settings_file
from tabapp.run.record.folder import RunFolder, create_run, find_run
from tabapp.run.record.resuming import resumed_config, save_resumed

if TYPE_CHECKING:
    from tabapp.tui.browse import Shown


@dataclass(frozen=True)
class View:
    """How a command shows a run, as its options say.

    Attributes:
        runs_dir: the folder of runs.
        port: of the browser, with `web`.

    Raises:
        UsageError: a screen in the browser is asked for, and one without a screen too.
    """

    runs_dir: Path
    auto: bool
    plain: bool
    as_json: bool
    quiet: bool
    verbose: bool
    web: bool
    port: int

    def __post_init__(self) -> None:
        for name, asked in (("--auto", self.auto), ("--plain", self.plain), ("--json", self.as_json)):
            if self.web and asked:
                raise UsageError(
                    f"--web opens a browser, but {name} shows the run without a screen. Use only one of them."
                )

    @property
    def is_headless(self) -> bool:
        return self.auto or self.plain or self.as_json

    @property
    def is_screen(self) -> bool:
        """Whether a screen is wanted, and this terminal has keys and can draw it."""
        return not self.is_headless and sys.stdin.isatty() and picture_is_possible()

    @property
    def lines(self) -> dict[str, bool]:
        """The options of a view without a screen."""
        return {name: getattr(self, name) for name in ("plain", "as_json", "quiet", "verbose")}


class RunCommand(SectionedCommand):
    """A command whose options have the defaults that the user's configuration gives them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and not {"-h", "--help"} & set(args):
            ctx.default_map = run_defaults(load_settings(), self)
        return super().parse_args(ctx, args)


def config_of(ctx: click.Context, data: str, options: dict[str, Any]) -> RunConfig:
    """The configuration that a command describes, with whole paths of files that exist.

    Args:
        ctx: that of the command.
        options: values of the options of a run, by field.

    Raises:
        TabappError: a file does not exist or cannot be written, or options contradict each other.
    """
    if data != "-":
        check_file(data)
    for name in ("test", "unlabelled"):
        if options[name]:
            check_file(options[name])
            options[name] = str(Path(options[name]).resolve())
    if options["out"]:
        reject_inputs(options["out"], (data, options["test"], options["unlabelled"], settings_file()))
        options["out"] = str(checked_out(Path(options["out"])).resolve())
    config = RunConfig(data=STDIN_FILE if data == "-" else str(Path(data).resolve()), **options)
    # A default in the user's configuration is for runs that have folds; two options of one command contradict each other.
    if ctx.get_parameter_source("folds") is ParameterSource.COMMANDLINE:
        check_folds(config)
    return config


@click.command(cls=RunCommand, name="run")
@click.argument("data", required=False, shell_complete=tables)
@run_options
@gathered("view", View)
def run(data: str | None, view: View, **options: Any) -> int:
    """Open DATA in the terminal or a browser, or run it without a screen. Without DATA, show the runs and the tables here."""
    if data is None:
        return _front_door(view)
    if data == "-" and sys.stdin.isatty():
        raise UsageError("- reads the table from stdin, but stdin is a terminal. Pipe a file into it.")
    keyboard: int | None = None
    if data == "-" and not view.web and not view.is_headless and sys.stdout.isatty() and picture_is_possible():
        keyboard = open_keyboard()
    config = config_of(click.get_current_context(), data, options)
    screen = view.web or keyboard is not None or view.is_screen
    if not screen and not view.is_headless:
        from tabapp.headless.narration import say

        say("No terminal to draw on, so this runs headless as with --auto.")
    settings = _screen_settings() if screen else None
    listening = _listen(view.port) if view.web else None
    place = view.runs_dir.absolute()
    folder = create_run(msgspec.structs.replace(config, start=not screen), place)
    if data == "-":
        keep_stdin(folder, folder.config())
    if keyboard is not None:
        take_keys_from(keyboard)
    if listening is not None:
        return _in_browser(folder, place, listening, start_engine=True)
    if screen:
        return _screen(folder, place, start_engine=True, settings=settings)
    code = _headless(folder, view, start=True)
    if code in (ExitCode.USAGE, ExitCode.DATA) and not folder.has_started:
        # A misspelled option leaves no run, like one that is rejected before.
        shutil.rmtree(folder.path, ignore_errors=True)
    return code


def _front_door(view: View) -> int:
    """Show the runs and the tables of the working folder.

    Raises:
        MissingParameter: there is no terminal for it, or an option needs a table.
    """
    context = click.get_current_context()
    given = [
        p for p in context.command.params if context.get_parameter_source(str(p.name)) is ParameterSource.COMMANDLINE
    ]
    if not is_interactive() or any(parameter.name != "runs_dir" for parameter in given):
        parameter = next(p for p in context.command.params if p.name == "data")
        # The brackets of an optional argument would contradict the sentence.
        raise click.MissingParameter(ctx=context, param=parameter, param_hint="'DATA'")
    from tabapp.tui.browse import show_door

    return _leave(show_door(runs_dir=view.runs_dir.absolute(), settings=_screen_settings()))


def _screen_settings() -> Settings:
    """The configuration, validated before a run or a screen exists.

    Raises:
        UsageError: it is not valid.
    """
    from tabapp.tui.chrome.keymap import check_keys
    from tabapp.tui.chrome.theme import check_theme

    settings = load_settings()
    check_keys(settings)
    check_theme(settings)
    return settings


def _screen(
    folder: RunFolder,
    runs_dir: Path,
    *,
    start_engine: bool,
    settings: Settings | None = None,
    replay: float | None = None,
    resumed: bool = False,
) -> int:
    from tabapp.tui.browse import show_runs

    settings = settings or _screen_settings()
    return _leave(
        show_runs(
            folder, runs_dir=runs_dir, start_engine=start_engine, resumed=resumed, settings=settings, replay=replay
        )
    )


def _leave(shown: list[Shown]) -> int:
    """Remove runs that were never started, and print what is known of the others; returns the exit code of the last one."""
    from tabapp.headless.summary import print_summary

    if not shown:
        return ExitCode.OK
    for run in shown:
        if run.start_engine and run.exit_code == 0 and not run.folder.has_started:
            # Looked at and left: a run that never started would only clutter the list.
            shutil.rmtree(run.folder.path, ignore_errors=True)
    last = shown[-1]
    for folder in dict.fromkeys(run.folder for run in shown):
        if folder != last.folder and folder.is_running() and folder.state().finished is None:
            print_summary(folder)
    if last.folder.path.exists():
        print_summary(last.folder)
    return last.exit_code


def _listen(port: int) -> socket:
    """Take the port before there is a run.

    Raises:
        UsageError: the package for it is missing, or the port cannot be used.
    """
    try:
        from tabapp.web.server import free_port
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "textual_serve"):
            raise
        raise UsageError(
            "--web needs the package textual-serve. Install it with `pip install 'tabapp[web]'`."
        ) from None
    return free_port(port)


def _in_browser(folder: RunFolder, runs_dir: Path, listening: socket, *, start_engine: bool) -> int:
    from tabapp.headless.summary import print_summary
    from tabapp.web.server import serve_run

    serve_run(folder, runs_dir.absolute(), listening, start_engine=start_engine)
    if start_engine and not folder.has_started and not folder.is_running():
        # Looked at and left, as on a screen in the terminal.
        shutil.rmtree(folder.path, ignore_errors=True)
        return 0
    print_summary(folder)
    finished = folder.state().finished
    return finished.exit_code if finished is not None else 0


def _headless(folder: RunFolder, view: View, *, start: bool) -> int:
    from tabapp.headless.follow import follow

    return follow(folder, **view.lines, start=start)


_view_options = all_of(runs_dir_option, output_options(instead_of="a screen"), web_options)


@click.command()
@click.argument("run_id", metavar="[RUN]", default="last", shell_complete=run_ids)
@click.option("--auto", is_flag=True, help="Follow the run without a screen.")
@click.option(
    "--replay", metavar="SPEED", help="Replay the run as it happened, at a multiple of its speed such as 20x."
)
@_view_options
@gathered("view", View)
def attach(run_id: str, replay: str | None, view: View) -> int:
    """Show a running or finished run. RUN is an id, part of an id, a name, `last` (the newest run, the default), or a path
    with a slash."""
    from tabapp.run.record.replaying import parse_speed

    folder = find_run(run_id, view.runs_dir)
    if replay is not None and view.web:
        raise UsageError("--replay shows a run in the terminal. Omit --web.")
    speed = None if replay is None else parse_speed(replay)
    if view.web:
        return _in_browser(folder, view.runs_dir, _listen(view.port), start_engine=False)
    if view.is_screen:
        return _screen(folder, view.runs_dir, start_engine=False, replay=speed)
    if speed is not None:
        from tabapp.headless.replay import replay as show_replay

        return show_replay(folder, speed, **view.lines)
    return _headless(folder, view, start=False)


@click.command()
@click.argument("run_id", metavar="[RUN]", default="last", shell_complete=run_ids)
@click.option("--auto", is_flag=True, help="Follow the run without a screen.")
@run_option("budget", summary="Additional time, such as 5m.", shown_default="")
@run_option("trials", summary="New maximum number of trials per model.")
@run_option("out")
@cluster_options
@_view_options
@gathered("view", View)
def resume(
    run_id: str,
    budget: float | None,
    trials: int | None,
    out: str | None,
    executor: Executor | None,
    address: str | None,
    view: View,
) -> int:
    """Resume a stopped or killed run; complete fits are kept.

    RUN is an id, part of an id, a name, `last` (the newest run, the default), or a path with a slash. A run that somebody else
    made, or that was made on another machine, reads and writes only in its own folder; --out chooses another place for its bundle.
    """
    folder = find_run(run_id, view.runs_dir)
    checked = str(checked_out(Path(out)).resolve()) if out else None
    from tabapp.headless.narration import say

    executor, address = chosen_cluster(folder.config(), executor, address)
    config = resumed_config(folder, budget, trials, out=checked, executor=executor, address=address, warn=say)
    listening = _listen(view.port) if view.web else None
    save_resumed(folder, config)
    if listening is not None:
        return _in_browser(folder, view.runs_dir, listening, start_engine=True)
    if view.is_screen:
        return _screen(folder, view.runs_dir, start_engine=True, resumed=True)
    return _headless(folder, view, start=True)
