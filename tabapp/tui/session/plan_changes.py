"""Changes of the plan that this view requested and the engine has not answered yet."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tabapp.errors import UsageError
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder


class PlanChanges:
    """Keeps the configuration of the last plan and the changes requested since.

    Several views may change one plan. A view therefore sends only the fields that it changes, and extends the lists that
    the engine used last.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._config = folder.config()
        self._unanswered: list[dict[str, Any]] = []

    @property
    def asked(self) -> dict[str, Any]:
        """Requested fields of the configuration that the engine has not answered."""
        return {name: value for options in self._unanswered for name, value in options.items()}

    @property
    def waits(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._unanswered)

    @property
    def ignored(self) -> list[str]:
        """The columns that the user ignores, without those that tabapp ignores by default."""
        return list(self.asked.get("ignore", self._config.ignore))

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds set by the user, by column."""
        return dict(self.asked.get("kinds", self._config.kinds))

    def add(self, options: dict[str, Any]) -> None:
        """Record changes that are sent to the engine."""
        self._unanswered.append(options)

    def on_event(self, event: ev.AnyEvent) -> None:
        """Record an answer; the engine answers requests in order."""
        if not isinstance(event, ev.PlanMade | ev.PlanRefused):
            return
        del self._unanswered[:1]
        # The engine saves the configuration before it emits the plan. If the folder is deleted, the last one is kept.
        with suppress(UsageError):
            self._config = self._folder.config()
