"""Client of the process that reads table rows: started on the first request, stopped with the screen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from tabapp.errors import UsageError
from tabapp.run.protocol import paging
from tabapp.run.protocol.client import open_log
from tabapp.run.record.folder import RunFolder
from tabapp.tui.json_process import JsonProcess


class Pager(JsonProcess[paging.AnyRequest, paging.AnyReply]):
    """Requests rows from `tabapp.processes.pager`."""

    MODULE = "tabapp.processes.pager"

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(paging.REQUESTS, paging.REPLIES)
        self._folder = folder

    def arguments(self) -> list[str]:
        return [str(self._folder.path)]

    def not_sent(self, reason: str) -> paging.AnyReply:
        return paging.Failed(message=f"The rows cannot be read: {reason}.")

    def ended(self) -> paging.AnyReply:
        return paging.Failed(message=f"The pager process has ended; see {self._folder.log}.")

    def log(self) -> BinaryIO:
        try:
            return open_log(self._folder)
        except UsageError:
            # The run of a read-only folder can be looked at, too.
            return Path(os.devnull).open("ab")
