"""The troubleshooting page: every error and warning in the code, every check on data, and what to do about each.

Messages are found in the syntax trees of the package: errors of `tabapp.errors`, answers of the prediction server, warnings in
the log of a run, notifications of screens, and warnings about data. `troubleshooting.toml` assigns the functions that make them to
topics with a cause and a solution. A test fails when a message has no topic, or a topic no message.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tabapp import errors
from tabapp.data.checks.registry import Check, all_checks
from tabapp.markdown import code, page

ROOT = Path(__file__).parents[2]
TOPICS = ROOT / "docs" / "troubleshooting.toml"
EXIT_CODES = {
    name: int(value.exit_code)
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.TabappError)
}
WARNING_LEVELS = {"warning", "error"}
GAP = "…"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Message:
    """A message that a user can see.

    Attributes:
        text: its constant parts, with `…` for the parts that depend on the case.
        kind: "exit code N" for an error of a command, "HTTP N" for one of the server, "warning" otherwise.
        place: the function that makes it, as module.function.
        checks: names of the checks on data that make it.
    """

    text: str
    kind: str
    place: str
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """Messages with one cause and one solution. `places` are modules or functions; the most specific topic wins."""

    title: str
    places: tuple[str, ...]
    cause: str
    solution: str


@cache
def all_messages() -> list[Message]:
    """Every message in the code, each once per module, in the order of the modules."""
    found: dict[tuple[str, str], Message] = {}
    for file in sorted((ROOT / "tabapp").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for message in _messages(ast.parse(file.read_text()), module, {}):
            found.setdefault((module, message.text), message)
    return [message for message in found.values() if message.text.strip(GAP + " :.") or message.checks]


def _messages(tree: ast.AST, place: str, texts: dict[str, ast.expr]) -> Iterator[Message]:
    """The messages that a syntax tree makes. `texts` holds what the names of the function stand for."""
    for child in ast.iter_child_nodes(tree):
        inner, known = place, texts
        if isinstance(child, Function):
            inner, known = f"{place}.{child.name}", dict(texts)
        if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            texts[child.targets[0].id] = child.value
        if isinstance(child, ast.Call) and (message := _message(child, place, texts)) is not None:
            yield message
        yield from _messages(child, inner, known)


def _message(call: ast.Call, place: str, texts: dict[str, ast.expr]) -> Message | None:
    """The message that a call makes, or None for any other call."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    level = keywords.get("level", keywords.get("severity"))
    if name in EXIT_CODES and call.args:
        return Message(_text(call.args[0], texts), f"exit code {EXIT_CODES[name]}", place)
    if name == "RequestError" and isinstance(call.args[0], ast.Constant):
        return Message(_text(call.args[1], texts), f"HTTP {call.args[0].value}", place)
    if name == "busy" and call.args:
        return Message(_text(call.args[0], texts), "HTTP 503", place)
    if name == "DataWarning" and "message" in keywords:
        return Message(
            _text(keywords["message"], texts), "warning", place, tuple(_text(keywords["check"], texts).split(" / "))
        )
    if name in {"Log", "notify"} and isinstance(level, ast.Constant) and level.value in WARNING_LEVELS:
        text = keywords["message"] if "message" in keywords else call.args[0]
        return Message(_text(text, texts), "warning", place)
    return None


def _text(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    """The constant parts of a message, with `…` for what is computed."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return _join(_text(part, {}) for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _join([_text(left, texts), _text(right, texts)])
        case ast.IfExp(body=body, orelse=other):
            return f"{_text(body, texts)} / {_text(other, texts)}"
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return _text(last, texts)
        case ast.FormattedValue(
            value=ast.Call(func=ast.Name(id="option" | "given"), args=[ast.Constant(value=str(name)), *values])
        ):
            return " ".join([f"--{name.replace('_', '-')}", *(_text(value, {}) for value in values)])
        case ast.FormattedValue(value=ast.BoolOp() as value):
            return _text(value, texts)
        case ast.Name(id=name) if name in texts:
            return _text(texts[name], {})
        case _:
            return GAP


def _join(parts: Iterable[str]) -> str:
    return re.sub(rf"{GAP}(\s*{GAP})+", GAP, "".join(parts))


def _read() -> dict[str, Any]:
    return tomllib.loads(TOPICS.read_text())


@cache
def all_topics() -> list[Topic]:
    listed = _read()["topic"]
    return [Topic(item["title"], tuple(item["places"]), item["cause"], item["solution"]) for item in listed]


def topic_of(message: Message, topics: Iterable[Topic]) -> Topic | None:
    """The topic with the longest place that contains the message's place, or None."""
    fitting = [
        (len(place), topic) for topic in topics for place in topic.places if f"{message.place}.".startswith(f"{place}.")
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def pages() -> dict[str, str]:
    topics, messages = all_topics(), all_messages()
    about_data = [message for message in messages if message.checks]
    others = [message for message in messages if not message.checks]
    return {
        "troubleshooting.md": page(
            "Troubleshooting",
            "Search this page for the fixed words of a message; `…` stands for the parts that differ. An error ends the command "
            "with the exit code shown. If no entry helps, report the output of `tabapp info` and the log file of the run.",
            "## Errors and warnings",
            *(
                _section(topic, [message for message in others if topic_of(message, topics) == topic])
                for topic in topics
            ),
            "## Warnings about data",
            "`tabapp profile` and the Data screen show them. [Checks](../guide/data.md#checks) lists the default actions.",
            *(
                _check(check, [message for message in about_data if check.code in message.checks])
                for check in all_checks()
            ),
        )
    }


def _check(check: Check, messages: list[Message]) -> str:
    return _section(Topic(check.code, (), check.description, check.remedy), messages)


def _section(topic: Topic, messages: list[Message]) -> str:
    lines = [f"- {code(' '.join(message.text.split()))} ({message.kind})" for message in messages]
    return "\n\n".join([f"### {topic.title}", topic.cause, f"**What to do.** {topic.solution}", "\n".join(lines)])
