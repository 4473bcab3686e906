"""The options of a run, and the parsers of option values that several commands share."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tabapp.cli.completion import columns, metrics, models, several, tables
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.option import Choice, Device, Names, Option, Section, Target
from tabapp.run.options.places import check_file as check_file
from tabapp.run.options.quantities import Whole
from tabapp.run.options.units import parse_budget, parse_bytes
from tabapp.run.record.folder import default_runs_dir


def read_budget(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else parse_budget(value)


def read_bytes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(value)


class OptionValue(click.ParamType[Any]):
    """A value, as an option of a run reads and checks it."""

    def __init__(self, option: Option) -> None:
        self._option = option
        self.name = option.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            value = self._option.parse(value)
            self._option.check(value)
        return value


class OneOf(click.Choice[str]):
    """A choice that rejects other values in one sentence and suggests the nearest one."""

    def __init__(self, option: Choice) -> None:
        super().__init__(option.choices)
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._option.convert(value)


def whole(name: str, least: int = 1, most: int | None = None) -> OptionValue:
    """The type of an option that is a whole number from `least` to `most`."""
    return OptionValue(Whole("Output", "", keyword=name, least=least, most=most))


def whole_option(name: str, default: int, summary: str, least: int = 1, most: int | None = None) -> Any:
    """A decorator that gives a command an option that is a whole number from `least` to `most`."""
    kind = whole(name, least, most)
    return click.option(f"--{name}", type=kind, default=default, show_default=True, metavar="N", help=summary)


class SectionOption(click.Option):
    """An option with its section of the help."""

    def __init__(self, *arguments: Any, section: Section = "Output", **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.section = section


def _type_of(option: Option) -> click.ParamType[Any]:
    if option.completion in ("files", "tables"):
        return click.Path()
    return OneOf(option) if isinstance(option, Choice) else OptionValue(option)


_COMPLETIONS = {"columns": columns, "metrics": metrics, "models": models, "tables": tables}


def as_click(option: Option) -> Any:
    """A decorator that gives a command an option of a run."""

    def complete(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is None or value == ():
            return option.default
        return option.combine(value) if option.is_repeatable else value

    completion = _COMPLETIONS.get(option.completion or "")
    if completion is not None and isinstance(option, Names | Target):
        completion = several(completion)
    return click.option(
        option.flag,
        *option.other_flags,
        option.field,
        cls=SectionOption,
        section=option.section,
        type=_type_of(option),
        multiple=option.is_repeatable,
        default=option.default or None,
        callback=complete,
        metavar=option.metavar,
        shell_complete=completion,
        help=option.help,
    )


def run_option(name: str, **changes: Any) -> Any:
    """A decorator that gives another command an option of a run, with another help or default."""
    return as_click(replace(OPTIONS[name], **changes))


def describing_option(name: str, **changes: Any) -> Any:
    """As `run_option`, with the help of commands that only read or describe a table."""
    summary = OPTIONS[name].profile
    changes |= {} if summary is True else {"summary": summary}
    return run_option(name, shown_default="", **changes)


def all_of(*decorators: Any) -> Any:
    """A decorator that gives a command several options, in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


trust_option = click.option(
    "--trust",
    type=click.Path(path_type=Path),
    metavar="PUBKEY",
    help="Reject BUNDLE unless this Ed25519 public key has signed it.",
)
"""The option `--trust` of the commands that read a bundle."""


def gathered(name: str, kind: type[Any]) -> Any:
    """A decorator for a command that receives the options that are fields of a dataclass together, as one argument."""

    def decorate(function: Any) -> Any:
        @wraps(function)
        def command(**options: Any) -> Any:
            own = {field.name: options.pop(field.name) for field in fields(kind)}
            return function(**{name: kind(**own)}, **options)

        return command

    return decorate


class SectionedCommand(click.Command):
    """A command whose help lists its options in named sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Output"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


DEFAULT_PORT = 8000

device_option = click.option(
    "--device",
    type=OptionValue(Device("Resources", "", keyword="device", has_auto=False)),
    default="cpu",
    show_default=True,
    metavar="DEVICE",
    help="Device of the deep models: cpu, cuda or cuda:N.",
)
"""The option `--device` of the commands that use the models of a bundle."""
runs_dir_option = click.option(
    "--runs-dir",
    cls=SectionOption,
    type=click.Path(path_type=Path),
    callback=lambda ctx, parameter, value: value or default_runs_dir(),
    metavar="DIR",
    help="Folder of runs.",
)


def _flag(*names: str, summary: str, section: Section = "Output") -> Any:
    return click.option(*names, cls=SectionOption, section=section, is_flag=True, help=summary)


web_options = all_of(
    _flag("--web", summary="Open the terminal UI in a browser on this machine and print its address."),
    click.option(
        "--port",
        cls=SectionOption,
        type=whole("port", 0, 65535),
        default=DEFAULT_PORT,
        metavar="N",
        help=f"Port of --web; 0 chooses a free port [default: {DEFAULT_PORT}].",
    ),
)


def output_options(*, instead_of: str, implies: str = "") -> Any:
    """The options that choose how a command shows a run.

    Args:
        instead_of: what `--plain` replaces.
        implies: the end of the help of `--json`.
    """
    return all_of(
        _flag("--plain", summary=f"Print plain lines instead of {instead_of}."),
        _flag("--json", "as_json", summary=f"Print one JSON event per line on stdout{implies}."),
        _flag("-q", "--quiet", summary="Print only errors on stderr."),
        _flag("-v", "--verbose", summary="Report every fit, and list models that were not started."),
    )


run_options = all_of(
    _flag("--auto", section="Task", summary="Run without a screen: print the leaderboard and write the bundle."),
    *map(as_click, OPTIONS.values()),
    runs_dir_option,
    web_options,
    output_options(instead_of="a live view", implies=" (implies --auto)"),
)
