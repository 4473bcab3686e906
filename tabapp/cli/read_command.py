"""Reads a command that starts a run, for a screen: `python -m tabapp.cli.read_command`, with the command on stdin.

Prints one line of JSON: the options of the run, or the sentence with which the command line would reject them.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from tabapp.cli.commands.run import config_of, run
from tabapp.cli.main import COMMANDS, DEFAULT, usage_sentence
from tabapp.errors import TabappError, UsageError
from tabapp.run.options.config import OPTIONS
from tabapp.run.protocol.pasted import PASTED, Rejected, Understood


def read_command(text: str) -> Understood:
    """The options of a run in a command such as `tabapp --auto data.csv --budget 2m`.

    Raises:
        TabappError: it is not such a command, or an option is not valid.
        click.ClickException: as `TabappError`.
    """
    try:
        # As a shell: a line that ends with a backslash continues, and a tilde is the home folder.
        words = [os.path.expanduser(word) for word in shlex.split(text.replace("\\\n", " "))]
    except ValueError as error:
        raise UsageError(f"The pasted text is not a command: {str(error).lower()}.") from None
    if not words or Path(words[0]).name != "tabapp":
        raise UsageError("The pasted text is not a command of tabapp. Copy one that begins with `tabapp`.")
    if {"-h", "--help"} & set(words):
        raise UsageError("The pasted command shows the help. Copy one that starts a run.")
    arguments = words[2:] if words[1:2] == [DEFAULT] else words[1:]
    if arguments and arguments[0] in COMMANDS:
        raise UsageError(f"`tabapp {arguments[0]}` starts no run. Copy a command such as `tabapp --auto data.csv`.")
    with run.make_context("tabapp", arguments) as ctx:
        if ctx.params["data"] is None:
            raise UsageError("The pasted command names no table. Copy a command such as `tabapp --auto data.csv`.")
        options: dict[str, Any] = {option.field: ctx.params[option.field] for option in OPTIONS.values()}
        config = config_of(ctx, ctx.params["data"], options)
    values = msgspec.to_builtins(config)
    return Understood(data=config.data, options={option.field: values[option.field] for option in OPTIONS.values()})


def main() -> int:
    """Answer one command; returns the exit code."""
    text = sys.stdin.read()
    try:
        answer: Understood | Rejected = read_command(text)
    except click.UsageError as error:
        answer = Rejected(message=usage_sentence(error))
    except (click.ClickException, TabappError) as error:
        answer = Rejected(message=error.format_message() if isinstance(error, click.ClickException) else str(error))
    sys.stdout.buffer.write(PASTED.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
