"""The process behind one page in the browser: `python -m tabapp.web.page RUN_DIR RUNS_DIR`, started by `tabapp.web.server`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tabapp.run.client import start_detached_engine
from tabapp.run.folder import RunFolder
from tabapp.run.settings import load_settings
from tabapp.tui.app import AttachedApp
from tabapp.tui.chrome.actions import has_started

SERVER_SECONDS = 0.5


class Page(AttachedApp):
    """A screen attached to a run, in a browser. Another run opens in its place by another address."""

    def on_mount(self) -> None:
        server = os.getppid()
        self.set_interval(SERVER_SECONDS, lambda: self._leave_after(server))

    def _leave_after(self, server: int) -> None:
        # Nobody reads what an orphan draws, so it cannot even close its screen.
        if os.getppid() != server:
            os._exit(1)

    def open_run(self, folder: RunFolder, *, start_engine: bool) -> None:
        """Show another run on this page, or this one with a new engine. The engine of this run keeps running."""
        if start_engine:
            start_detached_engine(folder)
        self.open_url(f"?run={folder.run}", new_tab=False)


def main(arguments: list[str]) -> int:
    """Show a run until the page is closed or left."""
    # Ctrl+C in the server's terminal reaches this process too, perhaps before Textual listens for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, runs_dir = RunFolder(Path(arguments[0])), Path(arguments[1])
    if not has_started(folder.state()):
        Page.DEFAULT_MODE = "data"
    app = Page(folder, runs_dir=runs_dir, settings=load_settings())
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
