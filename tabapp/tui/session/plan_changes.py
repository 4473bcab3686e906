"""The changes of plan that a view has asked for, of which the engine may refuse some."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tabapp.errors import UsageError
from tabapp.run import events as ev
from tabapp.run.folder import RunFolder


class Planning:
    """Knows the configuration that the last plan was made of, and what was asked since.

    Any number of views may change one plan, so a view sends what it changes and nothing else, and a list that it adds to is the
    one that the engine used last, whoever asked for it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._config = folder.config()
        self._unanswered: list[dict[str, Any]] = []

    @property
    def asked(self) -> dict[str, Any]:
        """Fields of the configuration that the engine has yet to answer for."""
        return {name: value for options in self._unanswered for name, value in options.items()}

    @property
    def waits(self) -> bool:
        """Whether the engine has yet to answer."""
        return bool(self._unanswered)

    @property
    def ignored(self) -> list[str]:
        """The columns that the user leaves out; those that tabapp leaves out are not among them."""
        return list(self.asked.get("ignore", self._config.ignore))

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds that the user has set, by column."""
        return dict(self.asked.get("kinds", self._config.kinds))

    def ask(self, options: dict[str, Any]) -> None:
        """Take note of changes that are sent to the engine."""
        self._unanswered.append(options)

    def hear(self, event: ev.AnyEvent) -> None:
        """Take note of an answer; the engine answers in the order in which it was asked."""
        if not isinstance(event, ev.PlanMade | ev.PlanRefused):
            return
        del self._unanswered[:1]
        # Saved before the plan is told. A run whose folder goes away keeps what is known.
        with suppress(UsageError):
            self._config = self._folder.config()
