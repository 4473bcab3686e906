"""`tabapp config`: where the configuration lies, what it says, and whether it can be followed."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.settings import Settings, line_of, load_settings, settings_file

EXAMPLE = """\
# theme = "textual-light"     # or "ansi-dark" and "ansi-light", which use the terminal's own colours
# bell = true                 # ring when a run ends

[keys]
# "run.pause" = "f5"          # docs/terminal.md lists the ids

[run]
# budget = "2m"               # any option of a run, by its long name
"""


def check_run_options(settings: Settings, options: dict[str, Any]) -> None:
    """Refuse defaults for options that a run does not have.

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
                f"The configuration {file} cannot be followed: line {line_of(text, key)} sets run.{key}, which is no option{hint}"
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
    """A value as it would stand on the command line."""
    if isinstance(value, list):
        return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, bool) else str(value)


@click.command()
@click.argument("what", type=click.Choice(["show", "path", "validate"]), default="show")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout (show).")
def config(what: str, as_json: bool) -> int:
    """Show the configuration, where it lies, or whether it can be followed."""
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
        state = "can be followed" if file.is_file() else "is not there, so nothing is set"
        click.echo(f"{file} {state}.", err=True)
        return 0
    if as_json:
        click.echo(msgspec.json.encode(settings))
        return 0
    if file.is_file():
        click.echo(file.read_text(encoding="utf-8"), nl=False)
        return 0
    click.echo(f"{file} is not there. What it could say:", err=True)
    click.echo(EXAMPLE, nl=False)
    return 0
