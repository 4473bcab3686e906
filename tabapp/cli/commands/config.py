"""The command `config`: show, locate and validate the configuration."""

from __future__ import annotations

import click
import msgspec

from tabapp.cli.commands.run import run
from tabapp.cli.defaults import run_defaults
from tabapp.headless.narration import echo, echo_data, echo_json
from tabapp.run.options.settings import load_settings, settings_file

EXAMPLE = """\
# theme = "textual-light"     # or "ansi-dark" and "ansi-light", which use the terminal's own colors
# bell = true                 # ring when a run ends
# trust = "~/key.pub.pem"     # the key that must have signed a bundle on the Predict screen

[keys]
# "run.pause" = "f5"          # docs/guide/terminal.md lists the ids

[run]
# budget = "2m"               # any option of a run, by its long name
"""


@click.command()
@click.argument("what", type=click.Choice(["show", "path", "validate"]), default="show")
@click.option("--json", "as_json", is_flag=True, help="Print the configuration as JSON on stdout (show only).")
def config(what: str, as_json: bool) -> int:
    """Show the configuration or its path, or validate it."""
    from tabapp.tui.chrome.keymap import check_keys
    from tabapp.tui.chrome.theme import check_theme

    file = settings_file()
    if what == "path":
        echo(str(file))
        return 0
    settings = load_settings()
    run_defaults(settings, run)
    check_keys(settings)
    check_theme(settings)
    if what == "validate":
        state = "is valid" if file.is_file() else "does not exist, so the defaults apply"
        echo(f"{file} {state}.", err=True)
        return 0
    if as_json:
        echo_json(msgspec.json.encode(settings))
        return 0
    if file.is_file():
        echo_data(file.read_bytes())
        return 0
    echo(f"{file} does not exist. An example:", err=True)
    echo_data(EXAMPLE.encode())
    return 0
