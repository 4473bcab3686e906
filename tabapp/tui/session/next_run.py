"""What follows a run: more time for it, its resumption, or a new run of the same plan or of another file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
from textual.screen import Screen

from tabapp.errors import TabappError, UsageError
from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.run.options.defaults import config_for
from tabapp.run.options.settings import Settings
from tabapp.run.options.units import format_duration, parse_budget
from tabapp.run.record.confining import own_config
from tabapp.run.record.folder import RunFolder, create_run
from tabapp.run.record.resuming import resumed_config, save_resumed
from tabapp.tui.dialogs.basic import Ask, Choice, Option
from tabapp.tui.paths import is_file
from tabapp.tui.viewmodels.texts import short_path

SPANS = (60, 120, 300, 600, 1800, 3600)
"""Seconds of more time that are proposed."""


class Opener(Protocol):
    """An app that can leave what it shows for a run."""

    runs_dir: Path
    settings: Settings

    def open_run(self, folder: RunFolder, *, start_engine: bool, resumed: bool = False) -> None:
        """Show a run, with a new engine or without; a resumed one begins at its leaderboard."""
        ...

    def notify(self, message: str, *, title: str = ..., severity: Any = ..., timeout: float | None = ...) -> None:
        """Show a toast."""
        ...

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """Show a dialog and call back with its answer."""
        ...


def resume(app: Opener, folder: RunFolder, *, budget: float | None = None, trials: int | None = None) -> None:
    """Resume a run, with more time or trials if it has ended, and show its leaderboard."""
    try:
        save_resumed(folder, resumed_config(folder, budget, trials, warn=lambda text: _warn(app, text)))
    except TabappError as error:
        app.notify(str(error), title="Not resumed", severity="error", timeout=8)
        return
    app.open_run(folder, start_engine=True, resumed=True)


def ask_for_more(app: Opener, folder: RunFolder) -> None:
    """Ask how much more time, or how many trials, a run that has ended gets, and resume it."""
    try:
        config = folder.config()
    except UsageError as error:
        app.notify(str(error), severity="error")
        return
    if config.budget_seconds is None:
        _ask_for_trials(app, folder, config)
        return
    spans = sorted({*SPANS, round(config.budget_seconds)})
    same = str(round(config.budget_seconds))
    dialog = Choice(
        "Continue the run with more time",
        [Option(str(span), format_duration(span), "as much as before" if str(span) == same else "") for span in spans],
        current=same,
        hint=f"or type {OPTIONS['budget'].expected}",
        parse=lambda text: str(parse_budget(text)),
    )
    app.push_screen(dialog, lambda text: resume(app, folder, budget=float(text)) if text else None)


def _ask_for_trials(app: Opener, folder: RunFolder, config: RunConfig) -> None:
    """A run without a time limit ends by its trials, so it continues with more of them."""
    now = config.trials or 1

    def check(text: str) -> str:
        if not text.strip().isdecimal() or int(text) <= now:
            raise UsageError(f"Type a number above {now}, the present maximum of trials per model.")
        return text.strip()

    dialog = Ask("Continue the run with more trials", "Maximum trials per model:", str(math.ceil(now * 2)), check)
    app.push_screen(dialog, lambda text: resume(app, folder, trials=int(text)) if text else None)


def clone(app: Opener, folder: RunFolder) -> None:
    """Open a new Data screen on the table of a run, with all its options."""
    try:
        config = own_config(folder, warn=lambda text: _warn(app, text))
        if not is_file(Path(config.data)):
            raise UsageError(f"The table {config.data} is no longer there. Press o to choose a file.")
        # A bundle of two runs in one place would replace the first; a name belongs to one run.
        config = msgspec.structs.replace(config, start=False, out=None, name=None)
        made = create_run(config, app.runs_dir)
    except TabappError as error:
        app.notify(str(error), title="No new run", severity="error", timeout=8)
        return
    app.open_run(made, start_engine=True)


def open_file(app: Opener, path: Path) -> None:
    """Open the Data screen of a file, with the defaults of the user's configuration."""
    try:
        made = create_run(config_for(path, app.settings), app.runs_dir)
    except TabappError as error:
        app.notify(f"{short_path(path)} cannot be opened: {error}", severity="error", timeout=8)
        return
    app.open_run(made, start_engine=True)


def _warn(app: Opener, text: str) -> None:
    app.notify(text, severity="warning", timeout=8)
