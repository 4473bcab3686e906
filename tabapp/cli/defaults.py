"""Defaults of a run from the configuration file."""

from __future__ import annotations

from typing import Any, cast

import click

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.settings import Settings, line_of, settings_file


def run_defaults(settings: Settings, command: click.Command) -> dict[str, Any]:
    """The configuration's defaults as click's `default_map` for the command of a run.

    Raises:
        UsageError: an option is not known; names it, its line, and the nearest right one.
    """
    options = {name.removeprefix("--"): p for p in command.params for name in p.opts if name.startswith("--")}
    found: dict[str, Any] = {}
    for key, value in settings.run.items():
        if key not in options:
            file = settings_file()
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            hint = did_you_mean(key, options) or "; `tabapp --help` lists the options."
            raise UsageError(
                f"The configuration {file} is not valid: line {line_of(text, key)} sets run.{key}, which is no option{hint}"
            )
        typed = _as_typed(key, value)
        found[str(options[key].name)] = typed if options[key].multiple else typed[-1]
    return found


def _as_typed(key: str, value: Any) -> list[Any]:
    """A value as the command line has it, perhaps in several occurrences of the option; lists and tables as in Python."""
    option = OPTIONS.get(key.replace("-", "_"))
    match value:
        case bool():
            return [value]
        case list() if option is not None:
            return option.texts(option.convert([str(item) for item in cast(list[Any], value)]))
        case dict() if option is not None:
            settings = {column: str(setting) for column, setting in cast(dict[str, Any], value).items()}
            return option.texts(option.convert(settings))
        case _:
            return [str(value)]
