"""The app of `tabapp` without arguments: the front door until a run or a file is chosen."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.screen import Screen

from tabapp.printable import one_line
from tabapp.run.options.settings import Settings
from tabapp.run.record.folder import RunFolder
from tabapp.tui.base_app import BaseApp
from tabapp.tui.chrome.crash_report import report_crash
from tabapp.tui.door.screen import Door
from tabapp.tui.session.opened import Opened


class DoorApp(BaseApp, inherit_bindings=False):
    """Shows the runs of a folder and the tables of the working folder.

    Attributes:
        opened: what was chosen; None if the user quit.
    """

    def __init__(self, *, runs_dir: Path, settings: Settings) -> None:
        super().__init__(settings)
        self.runs_dir = runs_dir
        self.opened: Opened | None = None

    def get_default_screen(self) -> Screen[None]:
        return Door()

    def open_run(self, folder: RunFolder, *, start_engine: bool, resumed: bool = False) -> None:
        """Show a run after this app exits."""
        self.opened = Opened(folder, start_engine, resumed)
        self.exit()

    def _fatal_error(self) -> None:
        self.panic(Text(one_line(report_crash(None))))
