"""The folder of the installed weights."""

from __future__ import annotations

import os
from pathlib import Path

from tabapp.user_folders import data_folder

FOLDER_VARIABLE = "TABAPP_WEIGHTS_DIR"
"""Environment variable that replaces the folder of the weights."""


def folder() -> Path:
    """The folder of the installed weights; it may not exist."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given).expanduser() if given else data_folder() / "weights"
