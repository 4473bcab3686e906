"""The answers of the process that reads a pasted command: one line of JSON."""

from __future__ import annotations

from typing import Any

from tabapp.run.record.messages import Message, Vocabulary

MODULE = "tabapp.cli.read_command"


class Answer(Message, frozen=True, kw_only=True, tag_field="answer"):
    """The base of both answers."""


class Understood(Answer, tag="understood", frozen=True, kw_only=True):
    """The command starts a run: the path of its table, and its options by field of `RunConfig`, defaults included."""

    data: str
    options: dict[str, Any]


class Rejected(Answer, tag="rejected", frozen=True, kw_only=True):
    """The command starts no run; `message` is the sentence of the command line."""

    message: str


PASTED: Vocabulary[Understood | Rejected] = Vocabulary("answer", "answer", Understood | Rejected)
