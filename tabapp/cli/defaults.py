"""Defaults of a run from the configuration file."""

from __future__ import annotations

from typing import Any

import click

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.settings import Settings, line_of, settings_file


def check_run_options(settings: Settings, options: dict[str, Any]) -> None:
    """Reject defaults for unknown options of a run.

    Args:
        options: the options of a run by their long names.

    Raises:
        UsageError: names the first wrong one, its line, and the nearest right one.
    """
    for key in settings.run:
        if key not in options:
            file = settings_file()
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            hint = did_you_mean(key, options) or "; `tabapp --help` lists the options."
            raise UsageError(
                f"The configuration {file} is not valid: line {line_of(text, key)} sets run.{key}, which is no option{hint}"
            )


def run_defaults(settings: Settings, command: click.Command) -> dict[str, Any]:
    """The configuration's defaults as click's `default_map` for the command of a run.

    Raises:
        UsageError: an option is not known.
    """
    names = {name.removeprefix("--"): p.name for p in command.params for name in p.opts if name.startswith("--")}
    check_run_options(settings, names)
    return {str(names[key]): _as_typed(value) for key, value in settings.run.items()}


def _as_typed(value: Any) -> Any:
    """A value as on the command line."""
    if isinstance(value, list):
        return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, bool) else str(value)
