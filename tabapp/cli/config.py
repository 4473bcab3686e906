"""The command `config`: show, locate and validate the configuration."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.settings import Settings, line_of, load_settings, settings_file

EXAMPLE = """\
# theme = "textual-light"     # or "ansi-dark" and "ansi-light", which use the terminal's own colors
# bell = true                 # ring when a run ends

[keys]
# "run.pause" = "f5"          # docs/terminal.md lists the ids

[run]
# budget = "2m"               # any option of a run, by its long name
"""


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


@click.command()
@click.argument("what", type=click.Choice(["show", "path", "validate"]), default="show")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout (show).")
def config(what: str, as_json: bool) -> int:
    """Show the configuration or its path, or validate it."""
    from tabapp.cli.running import run
    from tabapp.tui.chrome.keymap import check_keys
    from tabapp.tui.chrome.theme import check_theme

    file = settings_file()
    if what == "path":
        click.echo(file)
        return 0
    settings = load_settings()
    run_defaults(settings, run)
    check_keys(settings)
    check_theme(settings)
    if what == "validate":
        state = "is valid" if file.is_file() else "does not exist, so the defaults apply"
        click.echo(f"{file} {state}.", err=True)
        return 0
    if as_json:
        click.echo(msgspec.json.encode(settings))
        return 0
    if file.is_file():
        click.echo(file.read_text(encoding="utf-8"), nl=False)
        return 0
    click.echo(f"{file} does not exist. An example:", err=True)
    click.echo(EXAMPLE, nl=False)
    return 0
