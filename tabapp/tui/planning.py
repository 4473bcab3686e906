"""The changes of plan that a view has asked for, of which the engine may refuse some."""

from __future__ import annotations

from typing import Any

from tabapp.run import events as ev
from tabapp.run.config import RunConfig


class Planning:
    """Remembers what was asked, so that each request carries all changes, and takes back what is refused.

    Attributes:
        asked: changed fields of the configuration, answered or not.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._accepted: dict[str, Any] = {}
        self._unanswered = 0
        self.asked: dict[str, Any] = {}

    @property
    def waits(self) -> bool:
        """Whether the engine has yet to answer."""
        return self._unanswered > 0

    @property
    def ignored(self) -> list[str]:
        """The columns that the user leaves out; those that tabapp leaves out are not among them."""
        return list(self.asked.get("ignore", self._config.ignore))

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds that the user has set, by column."""
        return dict(self.asked.get("kinds", self._config.kinds))

    def ask(self, options: dict[str, Any]) -> dict[str, Any]:
        """Add changes; returns all of them, to be sent."""
        self.asked = {**self.asked, **options}
        self._unanswered += 1
        return self.asked

    def hear(self, event: ev.AnyEvent) -> None:
        """Take note of an answer."""
        if isinstance(event, ev.PlanMade):
            self._unanswered = max(0, self._unanswered - 1)
            if not self.waits:
                self._accepted = self.asked
        elif isinstance(event, ev.PlanRefused):
            self._unanswered = max(0, self._unanswered - 1)
            self.asked = self._accepted
