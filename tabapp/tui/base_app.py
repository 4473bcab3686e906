"""What the apps share: style sheet, theme, keys, printable text, and the way back to the shell."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from textual.app import App
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.theme import Theme

from tabapp.printable import multi_line, one_line
from tabapp.run.options.settings import Settings
from tabapp.tui.chrome.contrast import readable
from tabapp.tui.chrome.keymap import use_keys
from tabapp.tui.chrome.stylesheet import CachedStylesheet, sheet
from tabapp.tui.chrome.theme import use_theme
from tabapp.tui.chrome.type_ahead import TypeAhead
from tabapp.tui.content import PrintableFilter
from tabapp.tui.session.preferences import Preferences


class BaseApp(App[None], inherit_bindings=False):
    """An app with the user's theme and keys."""

    TITLE = "tabapp"
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-tall")]  # noqa: RUF012

    def __init__(self, settings: Settings) -> None:
        super().__init__(css_path=sheet("tabapp"))
        self.stylesheet = CachedStylesheet(variables=self.get_css_variables())
        self.settings = settings
        self.preferences = Preferences()
        use_theme(self, settings, self.preferences.values.theme)
        use_keys(self, settings)
        self._printable = PrintableFilter()
        self._toasts_end: dict[tuple[str, str], float] = {}
        """When the toasts disappear, by title and message."""
        self._typed = TypeAhead(self, super().on_event)

    def get_css_variables(self) -> dict[str, str]:
        self.theme_variables = readable(super().get_css_variables())
        return self.theme_variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._printable]

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key) and not event.is_forwarded:
            await self._typed.take(event)
        else:
            await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a toast, unless the same is shown already. Messages quote data, so `markup` is ignored: brackets are shown as
        written.
        """
        now, said = time.monotonic(), (title, message)
        if now < self._toasts_end.get(said, 0.0):
            return
        self._toasts_end = {toast: end for toast, end in self._toasts_end.items() if end > now}
        self._toasts_end[said] = now + (self.NOTIFICATION_TIMEOUT if timeout is None else timeout)
        super().notify(multi_line(message), title=one_line(title), severity=severity, timeout=timeout, markup=False)

    def clear_notifications(self) -> None:
        """Remove all toasts."""
        self._toasts_end.clear()
        super().clear_notifications()

    def on_mount(self) -> None:
        self.set_class(self.no_color, "-no-color")
        self.set_class(self.console.color_system == "standard" and not self.is_headless, "-sixteen")
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        if self.preferences.note:
            self.notify(self.preferences.note, severity="warning")
        self.app_resume_signal.subscribe(self, self._draw_again)

    def action_suspend_process(self) -> None:
        """Return to the shell until it brings the program back; a browser has none."""
        if self._driver is None or not self._driver.can_suspend:
            self.notify("There is no shell to return to here.", severity="warning")
        else:
            super().action_suspend_process()

    def _keep_theme(self, theme: Theme) -> None:
        self.preferences.values.theme = theme.name
        self.preferences.save()

    def _draw_again(self, app: App[Any]) -> None:
        """Draw everything after the shell had the terminal."""
        self.refresh(layout=True)
