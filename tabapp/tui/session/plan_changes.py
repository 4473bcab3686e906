"""Changes of the plan that this view requested and the engine has not answered yet, and how to undo those that it has made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from tabapp.errors import UsageError
from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.confining import CHANGEABLE
from tabapp.run.record.folder import RunFolder

Answered = Callable[[str], None]
"""Receives why a change is refused; an empty text if it is made."""
FIELDS = tuple(each.field for each in OPTIONS.values())
"""The fields of the configuration that are options."""


@dataclass(frozen=True)
class _Request:
    options: dict[str, Any]
    answered: Answered | None
    undoes: dict[str, Any] | None


class PlanChanges:
    """Keeps the configuration of the last plan, the changes requested since, and the earlier values of those made.

    Several views may change one plan. A view therefore sends only the fields that it changes, and extends the lists that
    the engine used last.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._config = folder.config()
        self._first: RunConfig | None = None
        self._requests: list[_Request] = []
        self._made: list[dict[str, Any]] = []

    @property
    def asked(self) -> dict[str, Any]:
        """Requested fields of the configuration that the engine has not answered."""
        return {name: value for request in self._requests for name, value in request.options.items()}

    @property
    def waits(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._requests)

    @property
    def config(self) -> RunConfig:
        """The configuration of the last plan."""
        return self._config

    @property
    def changed(self) -> frozenset[str]:
        """The fields whose values differ from those of the first plan that this view saw."""
        first = self._first or self._config
        return frozenset(name for name in FIELDS if getattr(first, name) != getattr(self._config, name))

    @property
    def undoes(self) -> int:
        """How many changes can be undone."""
        return len(self._made)

    @property
    def ignored(self) -> list[str]:
        """The columns that the user ignores, without those that tabapp ignores by default."""
        return list(self.value("ignore"))

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds set by the user, by column."""
        return dict(self.value("kinds"))

    def value(self, field: str) -> Any:
        """The value of a field as requested last."""
        return self.asked.get(field, getattr(self._config, field))

    def add(self, options: dict[str, Any], answered: Answered | None = None) -> None:
        """Record changes that are sent to the engine.

        Raises:
            OSError: the configuration, into which files that the changes name are written, cannot be.
        """
        self._request(options, answered, None)

    def undo(self) -> dict[str, Any] | None:
        """Record the request that undoes the last change, and return its options; None if there is nothing to undo.

        Raises:
            OSError: as `add`.
        """
        if not self._made:
            return None
        options = self._made.pop()
        self._request(options, None, options)
        return options

    def _request(self, options: dict[str, Any], answered: Answered | None, undoes: dict[str, Any] | None) -> None:
        files = {name: options[name] for name in CHANGEABLE if name in options}
        if files and self._folder.is_own():
            self._folder.save_config(msgspec.structs.replace(self._folder.config(), **files))
        self._requests.append(_Request(options, answered, undoes))

    def on_event(self, event: ev.AnyEvent) -> bool:
        """Record an answer; the engine answers requests in order. Returns whether a dialog shows why it is refused."""
        if not isinstance(event, ev.PlanMade | ev.PlanRefused):
            return False
        request = self._requests.pop(0) if self._requests else None
        before = self._config
        # The engine saves the configuration before it emits the plan. If the folder is deleted, the last one is kept.
        with suppress(UsageError):
            self._config = self._folder.config()
        self._first = self._first or self._config
        if request is None:
            return False
        if isinstance(event, ev.PlanRefused):
            if request.undoes is not None:
                self._made.append(request.undoes)
            if request.answered is not None:
                request.answered(event.message)
            return request.answered is not None
        if request.undoes is None and (earlier := _earlier(before, self._config)):
            self._made.append(earlier)
        if request.answered is not None:
            request.answered("")
        return False


def _earlier(before: RunConfig, after: RunConfig) -> dict[str, Any]:
    """The options that lead back from one configuration to an earlier one."""
    changed = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    values = msgspec.to_builtins(before)
    return {name: values[name] for name in changed}
