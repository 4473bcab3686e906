"""What is said to a person on stderr, apart from the data on stdout: whole sentences that begin with the program's name."""

from __future__ import annotations

import re

import click


def sentence(message: str) -> str:
    """A message on one line, with a capital at its start and a mark at its end.

    A first word that is no plain word, such as a file or an option, stays as it is spelled.
    """
    text = " ".join(message.split())
    if re.match(r"[a-z]+(['’][a-z]+)?(\s|$)", text):
        text = text[0].upper() + text[1:]
    text = re.sub(r"([.?!…])\.$", r"\1", text)
    return text if text.endswith((".", "?", "!", "…")) else text + "."


def say(message: str) -> None:
    """Print a sentence on stderr."""
    click.echo(f"tabapp: {sentence(message)}", err=True)
