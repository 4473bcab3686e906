"""Errors that a user can fix, the spelling of options in them, and the exit codes of every command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

from tabapp.printable import multi_line


class ExitCode(IntEnum):
    """The exit codes of every command and process; `meaning` is their line in the help."""

    OK = 0, "done"
    NO_MODEL = 1, "no usable model, or an unexpected error"
    USAGE = 2, "invalid usage or configuration"
    DATA = 3, "unusable data"
    BUDGET = 4, "budget exhausted before the first model"
    BUNDLE = 5, "bundle not trusted or not understood"
    INTERRUPTED = 130, "interrupted; the bundle has the best models so far"
    BROKEN_PIPE = 141, "the reader of the output has exited"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


class TabappError(Exception):
    """A failure described in one or two sentences: what is wrong, where, and what to do.

    Its text is printable, although it may quote data: Python prints the text of an uncaught error as it is.
    """

    exit_code: ExitCode = ExitCode.NO_MODEL

    def __str__(self) -> str:
        return multi_line(super().__str__())


class UnconfinedWarning(UserWarning):
    """The system does not confine the process that loads a bundle."""


class TableWarning(UserWarning):
    """Something looks wrong with the table of a run, or a part of it is left out."""


class UsageError(TabappError):
    """An option or a configuration is not valid."""

    exit_code: ExitCode = ExitCode.USAGE


class DataError(TabappError):
    """The data is not usable: missing, unreadable, or without a target."""

    exit_code: ExitCode = ExitCode.DATA


class TooLargeError(DataError):
    """A table, or a cell of it, is larger than what may be read."""


class BudgetError(TabappError):
    """The budget ended before the first model had a score."""

    exit_code: ExitCode = ExitCode.BUDGET


class BundleError(TabappError):
    """A bundle is not trusted or not understood."""

    exit_code: ExitCode = ExitCode.BUNDLE


def error_for(exit_code: int, message: str) -> TabappError:
    """The error that ended another process, from its exit code."""
    kinds = (UsageError, DataError, BudgetError, BundleError)
    return next((kind for kind in kinds if int(kind.exit_code) == exit_code), TabappError)(message)


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """The end of a sentence that suggests the nearest name, ignoring case; empty when no name is near."""
    by_folded = {name.casefold(): name for name in names}
    near = get_close_matches(wrong.casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"; did you mean {by_folded[near[0]]!r}?" if near else ""


_SPELLING = "TABAPP_SPELLING"
_PYTHON, _HTTP = "python", "http"
_reader: ContextVar[str] = ContextVar("reader")


@contextmanager
def spelled_in_python() -> Generator[None]:
    """Spell options as keywords of Python: in a block, or in a decorated function of the Python interface."""
    token = _reader.set(_PYTHON)
    try:
        yield
    finally:
        _reader.reset(token)


@contextmanager
def spelled_in_addresses() -> Generator[None]:
    """Spell options as parameters of an address, in a block."""
    token = _reader.set(_HTTP)
    try:
        yield
    finally:
        _reader.reset(token)


def _is_for_python() -> bool:
    return _reader.get(os.environ.get(_SPELLING)) == _PYTHON


def spelling_of_children() -> dict[str, str]:
    """The variable with which a child process spells options as this one does."""
    return {_SPELLING: _PYTHON} if _is_for_python() else {}


def option(name: str, value: Any = None) -> str:
    """An option in a sentence, as its reader writes it: `--device cpu` on the command line, `device='cpu'` in Python, and
    `?device=cpu` in an address.

    Args:
        name: the keyword, such as "hide_cells".
        value: text, a number, or settings by column.
    """
    if _is_for_python():
        return name if value is None else f"{name}={value!r}"
    if _reader.get(None) == _HTTP:
        return f"?{name}" if value is None else f"?{name}={value}"
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, dict):
        settings: dict[str, str] = value
        return " ".join(f"{flag} {shlex.quote(f'{column}={setting}')}" for column, setting in settings.items())
    return flag if value is None else f"{flag} {shlex.quote(str(value))}"


def given(name: str, value: Any) -> str:
    """An option with the value that it was given, in a sentence about what is wrong with it."""
    return option(name, value) if _is_for_python() else f"{option(name)} {value!r}"
