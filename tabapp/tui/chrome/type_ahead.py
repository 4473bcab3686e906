"""Keys in the order in which they were typed, also if several arrive at once: each is handled completely before the next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.events import Key
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

LONGEST_SECONDS = 2.0
"""A key that is still being handled after this no longer delays the next."""


class TypeAhead:
    """Holds keys back until the one before has had its effect, such as a prompt that opens and takes the focus.

    Textual sends a key to the widget that is focused when it arrives. A paste or a slow connection delivers several keys at once,
    which would all go to the widget that had the focus before the first of them: `/ft` would run the actions of `f` and `t`.
    """

    def __init__(self, app: App[Any], handle: Callable[[Key], Awaitable[None]]) -> None:
        """`handle` passes a key to the focused widget."""
        self._app = app
        self._handle = handle
        self._waiting: deque[Key] = deque()
        self._since: float | None = None

    async def take(self, key: Key) -> None:
        """Handle a key now, or once those before it have been handled."""
        self._waiting.append(key)
        if self._since is None or time.monotonic() - self._since > LONGEST_SECONDS:
            await self._next()

    async def _next(self) -> None:
        if not self._waiting:
            self._since = None
            return
        self._since = time.monotonic()
        key = self._waiting.popleft()
        first = self._app.focused or self._app.screen
        await self._handle(key)
        # A message behind the key in each queue that it passes arrives at the app when the key has been handled.
        self._follow([first, *first.ancestors], self._settle)

    def _follow(self, nodes: Sequence[MessagePump], then: Callable[[], object]) -> None:
        """Pass through the queues of some nodes in order; a closed one is left out."""
        if not nodes:
            then()
        elif not nodes[0].call_later(self._follow, nodes[1:], then):
            self._follow(nodes[1:], then)

    def _settle(self) -> None:
        """Wait until a screen that was opened by the key is mounted, and the app has set the focus there."""
        self._follow([self._app.screen], lambda: self._app.call_later(self._next))
