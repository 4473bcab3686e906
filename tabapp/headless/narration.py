"""Messages on stderr: complete sentences after the program's name. Stdout is reserved for data."""

from __future__ import annotations

import re

import click


def sentence(message: str) -> str:
    """Format a message as one line that starts with a capital letter and ends with a punctuation mark.

    A first word that is a file or an option keeps its spelling.
    """
    text = " ".join(message.split())
    if re.match(r"[a-z]+(['’][a-z]+)?(\s|$)", text):
        text = text[0].upper() + text[1:]
    text = re.sub(r"([.?!…])\.$", r"\1", text)
    return text if text.endswith((".", "?", "!", "…")) else text + "."


def say(message: str) -> None:
    """Print a sentence on stderr."""
    click.echo(f"tabapp: {sentence(message)}", err=True)
