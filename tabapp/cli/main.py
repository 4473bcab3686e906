"""The command line: `tabapp DATA` is the default command, beside the sub-commands. Nothing heavy is imported at module scope."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tabapp import __version__
from tabapp.cli.terminal import is_interactive
from tabapp.errors import ExitCode, TabappError, UnconfinedWarning, UsageError, did_you_mean

DEFAULT = "run"
COMPLETION = "_TABAPP_COMPLETE"
"""Set by the shells' completion scripts when they ask what can be typed."""

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("tabapp.cli.commands.run:run", "Open DATA in the terminal UI, or run it without a screen with --auto."),
    "predict": ("tabapp.cli.commands.predict:predict", "Predict rows with a bundle."),
    "explain": ("tabapp.cli.commands.explain:explain", "Explain single predictions."),
    "evaluate": ("tabapp.cli.commands.evaluate:evaluate", "Score a bundle on labeled rows."),
    "monitor": ("tabapp.cli.commands.monitor:monitor", "Compare later tables with the training table of a bundle."),
    "update": ("tabapp.cli.commands.update:update", "Train again on old and new rows, and compare the bundles."),
    "impute": ("tabapp.cli.commands.impute:impute", "Fill the missing cells of a table."),
    "serve": ("tabapp.cli.commands.serve:serve", "Predict over HTTP with one or more bundles."),
    "inspect": ("tabapp.cli.commands.inspect:inspect", "Show the contents of a bundle without loading a model."),
    "runs": ("tabapp.cli.commands.runs:runs", "List the runs."),
    "attach": ("tabapp.cli.commands.run:attach", "Show a running or finished run."),
    "resume": ("tabapp.cli.commands.run:resume", "Resume a stopped or killed run."),
    "export": (
        "tabapp.cli.commands.export:export",
        "Write the bundle of a run to a file, as it is, smaller or faster.",
    ),
    "compare": ("tabapp.cli.commands.compare:compare", "Compare two runs on the rows that both have scored."),
    "diagnose": ("tabapp.cli.commands.diagnose:diagnose", "Choose a threshold; measure robustness and fairness."),
    "report": ("tabapp.cli.commands.report:report", "Write a report of a run to one file."),
    "models": ("tabapp.cli.commands.models:models", "List the models and their availability."),
    "weights": ("tabapp.cli.commands.weights:weights", "List and install the weights of pre-trained models."),
    "profile": ("tabapp.cli.commands.profile:profile", "Show the detected kind of each column."),
    "config": ("tabapp.cli.commands.config:config", "Show, locate or validate the configuration."),
    "info": ("tabapp.cli.commands.info:info", "Show versions, paths and protections for a bug report."),
    "completion": ("tabapp.cli.completion:completion", "Print the completion script of a shell."),
}
"""Each command's import path and its line in the help, so that the help imports no command."""

EXAMPLES = """\b
Examples:
  tabapp                                       open the runs and the tables of this folder
  tabapp data.csv                              open the terminal UI; ctrl+r starts the run
  tabapp --auto data.csv --budget 2m           run without a screen
  tabapp predict model.tabapp new.csv -o out.csv
  tabapp resume last                           resume after a crash or Ctrl+C"""

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4}{code.meaning}" for code in ExitCode)


def _check_command(word: str, rest: list[str]) -> None:
    """Reject an unknown command, which would otherwise be read as a missing file: a misspelled one, or one before another argument.

    Raises:
        UsageError: names the nearest command, or says where the commands are listed.
    """
    if not re.fullmatch("[a-z]+", word) or Path(word).exists():
        return
    if hint := did_you_mean(word, set(COMMANDS) - {DEFAULT}):
        raise UsageError(f"There is no command and no file {word!r}{hint}")
    if rest and not rest[0].startswith("-"):
        raise UsageError(
            f"There is no command {word!r}; `tabapp --help` lists the commands, and `tabapp DATA` opens a table."
        )


class DefaultGroup(click.Group):
    """A group whose commands are imported when they are called, and whose default command takes a file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name != DEFAULT]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        return getattr(import_module(module), attribute)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and is_interactive():
            # The front door.
            args = [DEFAULT]
        if args and args[0] not in COMMANDS and args[0] not in ("--help", "-h", "--version"):
            if not ctx.resilient_parsing:
                _check_command(args[0], args[1:])
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """What the first word may be: a table, a command, or an option of either."""
        found = super().shell_complete(ctx, incomplete)
        default = self.get_command(ctx, DEFAULT)
        if default is None:
            return found
        below = click.Context(default, ctx, resilient_parsing=True)
        parameters = default.params if not incomplete.startswith("-") else []
        tables = [item for p in parameters if p.name == "data" for item in p.shell_complete(below, incomplete)]
        return [*tables, *found, *default.shell_complete(below, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        default = self.get_command(ctx, DEFAULT)
        if default is not None:
            default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("tabapp", "[DATA] [OPTIONS]")
        formatter.write_usage("tabapp", "COMMAND [ARGS]…", prefix="       ")


@click.group(
    cls=DefaultGroup,
    invoke_without_command=True,
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="tabapp", message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """AutoML for tables in the terminal. DATA is a .csv, .tsv or .txt file (also .gz, .zst, .zip), an .xlsx,
    .json, .parquet or .arrow file, or - for stdin; without it, a terminal shows the runs and the tables of the working folder."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _say(message: str) -> None:
    from tabapp.headless.narration import say

    say(message)


@contextmanager
def _spoken_warnings() -> Generator[None]:
    """Print warnings about missing protections as sentences."""
    show = warnings.showwarning

    def say_or_show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, UnconfinedWarning):
            _say(str(message))
        else:
            show(message, category, *place)

    warnings.showwarning = say_or_show
    try:
        yield
    finally:
        warnings.showwarning = show


def _unexpected(error: Exception) -> str:
    """A sentence about a bug; the traceback, which may contain the user's data, goes to a file."""
    import tempfile
    import traceback

    fault = f"This is a bug in tabapp, {type(error).__name__}: {error}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tabapp-fault-", suffix=".txt", delete=False) as report:
            traceback.print_exception(error, file=report)
    except OSError:
        return fault
    return f"{fault}. Attach {report.name} to a bug report."


def _system_sentence(error: OSError) -> str:
    """A sentence about a failed system call. Two of them name no file: those for the working and for the temporary folder."""
    import tempfile

    if error.filename is None:
        try:
            os.getcwd()
        except OSError:
            return "The working directory no longer exists. Change to another one."
        try:
            tempfile.gettempdir()
        except OSError:
            return "No folder for temporary files can be written. Set TMPDIR to one."
    return f"{error.filename or 'The system'}: {error.strerror or error}."


def usage_sentence(error: click.UsageError) -> str:
    """What click found wrong, as one sentence."""
    if isinstance(error, click.NoSuchOption):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx else []
        hint = did_you_mean(error.option_name, known) or "; `tabapp --help` lists the options."
        return f"There is no option {error.option_name}{hint}"
    sentence = " ".join(error.format_message().split())
    if error.ctx is not None and (extra := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)\.?", sentence)):
        if error.ctx.command.name == DEFAULT:
            return f"A run takes one table, but more follows: {extra[1]}. Join the files first, or use --test for test rows."
        command = error.ctx.command_path
        return f"`{command}` does not take {extra[1]}; `{command} --help` lists its arguments."
    return sentence


def run_command_line(arguments: list[str]) -> int:
    """Run a command and return its exit code; every failure is one sentence on stderr."""
    if COMPLETION in os.environ:
        import_module("tabapp.cli.completion")
    try:
        with _spoken_warnings():
            result: Any = group.main(arguments, prog_name="tabapp", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        _say(usage_sentence(error))
        return ExitCode.USAGE
    except click.ClickException as error:
        _say(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted.")
        return ExitCode.INTERRUPTED
    except TabappError as error:
        _say(str(error))
        return error.exit_code
    except MemoryError:
        _say("Out of memory. Use a smaller table or a machine with more memory.")
        return ExitCode.NO_MODEL
    except (BrokenPipeError, SystemExit):
        if COMPLETION in os.environ:
            return 0
        # The reader of our output has gone, as `| head` does; click makes SystemExit of it. Python would complain once more
        # when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        _say(_system_sentence(error))
        return ExitCode.NO_MODEL
    except Exception as error:
        _say(_unexpected(error))
        return ExitCode.NO_MODEL
