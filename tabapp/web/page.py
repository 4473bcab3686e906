"""The process behind one page in the browser: `python -m tabapp.web.page RUN_DIR RUNS_DIR`, started by `tabapp.web.server`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from tabapp.run.options.settings import load_settings
from tabapp.run.protocol.client import start_detached_engine
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp
from tabapp.tui.chrome.actions import has_started

SERVER_SECONDS = 0.5


class Page(AttachedApp):
    """A screen attached to a run, in a browser. Another run opens in its place by another address."""

    def open_run(self, folder: RunFolder, *, start_engine: bool, resumed: bool = False) -> None:
        """Show another run on this page, or this one with a new engine. The engine of this run keeps running."""
        if start_engine:
            start_detached_engine(folder)
        self.open_url(f"?run={folder.run}", new_tab=False)


def _end_with_server() -> None:
    """End this process when the server ends. A thread does it, because an orphan whose output nobody reads may be stuck drawing."""
    server = os.getppid()

    def watch() -> None:
        while os.getppid() == server:
            time.sleep(SERVER_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Show a run until the page is closed or left."""
    # Ctrl+C in the server's terminal reaches this process too, perhaps before Textual listens for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_server()
    folder, runs_dir = RunFolder(Path(arguments[0])), Path(arguments[1])
    if not has_started(folder.state()):
        Page.DEFAULT_MODE = "data"
    app = Page(folder, runs_dir=runs_dir, settings=load_settings())
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
