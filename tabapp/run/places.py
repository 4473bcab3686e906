"""Checks of the paths that a user gives: what a run can record."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabapp.errors import UsageError
from tabapp.run.config import RunConfig


def reject_undecodable(config: RunConfig, runs_dir: Path) -> None:
    """Refuse options and a folder with bytes that are not UTF-8: run files are JSON, and model libraries take no such path.

    Raises:
        UsageError: names the text.
    """
    for value in (str(runs_dir), *(getattr(config, field) for field in config.__struct_fields__)):
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError:
            what = f"{value} contains" if isinstance(value, str) else "An option contains"
            raise UsageError(f"{what} bytes that are not UTF-8, which a run cannot record. Rename it.") from None
