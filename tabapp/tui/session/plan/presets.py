"""Named presets of plans: TOML files in the folder of the user's configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tabapp import files
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.options.plan_file import preset_toml, read_plan
from tabapp.run.options.settings import MOST_BYTES
from tabapp.user_folders import config_folder

SUFFIX = ".toml"
NOT_SAVED = ("name", "out", "executor", "address")
"""Options that belong to one run."""
_NAME = re.compile(r"[^/\\\0]{1,60}")


def presets_folder() -> Path:
    """The folder of presets, which may not exist."""
    return config_folder() / "presets"


def preset_names() -> list[str]:
    """The names of all presets."""
    try:
        return sorted(path.stem for path in presets_folder().iterdir() if path.suffix == SUFFIX)
    except OSError:
        return []


def check_name(text: str) -> str:
    """A name for a preset.

    Raises:
        UsageError: it cannot be the name of a file.
    """
    name = text.strip()
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(f"{name!r} cannot be the name of a preset. Use letters, digits, spaces and dashes.")
    return name


def save_preset(name: str, config: RunConfig) -> Path:
    """Save the options of a plan that do not have their defaults; returns the file.

    Raises:
        UsageError: the file cannot be written.
    """
    path = presets_folder() / f"{check_name(name)}{SUFFIX}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, preset_toml(config, NOT_SAVED).encode())
    except OSError as error:
        raise UsageError(f"The preset cannot be written to {path}: {error.strerror or error}.") from None
    return path


def load_preset(name: str) -> dict[str, Any]:
    """The fields of `RunConfig` that a preset sets.

    Raises:
        UsageError: the file cannot be read or is not valid.
    """
    path = presets_folder() / f"{name}{SUFFIX}"
    try:
        with files.open_to_read(path) as opened:
            text = opened.read(MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The preset {path} cannot be read: {reason}.") from None
    return read_plan(text, f"The preset {name}")


def delete_preset(name: str) -> None:
    """Delete a preset.

    Raises:
        UsageError: the file cannot be deleted.
    """
    path = presets_folder() / f"{name}{SUFFIX}"
    try:
        path.unlink()
    except OSError as error:
        raise UsageError(f"The preset {path} cannot be deleted: {error.strerror}.") from None
