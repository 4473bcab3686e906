"""What a user does to edit a plan on the Data screen, and how the engine answers."""

from __future__ import annotations

import msgspec
from textual.widgets import Input

from tabapp.run.options.config import RunConfig
from tabapp.tui.screens.data import DataView
from tabapp.tui.widgets.plan import Plan
from tests.tui import recordings
from tests.tui.driver import Driver


async def answer(driver: Driver, **changes: object) -> None:
    """Answer the last request as the engine does: it saves the configuration before it emits the plan."""
    options = driver.commands()[-1]["options"]
    config = msgspec.convert({**msgspec.to_builtins(driver.folder.config()), **options}, RunConfig)
    driver.folder.save_config(config)
    await driver.write(recordings.plan(**changes))


async def go_to(driver: Driver, name: str) -> None:
    """Put the cursor of the plan on a field."""
    fields = driver.app.screen.query_one(Plan)
    fields.focus()
    fields.move_to_key(name)
    await driver.pilot.pause()


async def says(driver: Driver, text: str) -> None:
    """Wait for a message in the corner, whose lines the screen breaks."""
    await driver.until(lambda: any(text in toast for toast in driver.toasts()))


async def enter(driver: Driver, text: str) -> None:
    """Enter a text into the dialog that is shown."""
    await driver.until(lambda: driver.app.screen.query(Input) and not isinstance(driver.app.screen, DataView))
    driver.app.screen.query_one(Input).value = text
    await driver.pilot.pause()
    await driver.press("enter")


def sent(driver: Driver) -> dict[str, object]:
    """The options of the last request."""
    return driver.commands()[-1]["options"]
