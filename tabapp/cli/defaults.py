"""Defaults of a run from the configuration file."""

from __future__ import annotations

from typing import Any

import click

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.defaults import as_texts
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
        typed = as_texts(OPTIONS.get(key.replace("-", "_")), value)
        found[str(options[key].name)] = typed if options[key].multiple else typed[-1]
    return found
