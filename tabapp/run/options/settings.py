"""The user's configuration: one TOML file in the platform's configuration folder.

theme = "textual-light"      a theme by name; "ansi-dark" and "ansi-light" use the terminal's own colors
bell = true                  ring when a run ends
trust = "~/keys/pub.pem"     public key that must have signed the bundles of the Predict screen
[keys]                       keys by action id, such as "run.pause" = "f5"
[run]                        options of a run by their long names, such as budget = "2m"
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from tabapp import files
from tabapp.errors import UsageError, did_you_mean
from tabapp.user_folders import config_folder

MOST_BYTES = 1 << 20
"""Largest configuration file."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The configuration file; every field is optional.

    Attributes:
        theme: name of a theme, or None for tabapp's own.
        bell: whether the terminal's bell rings when a run ends.
        trust: file of the Ed25519 public key that must have signed the bundles of the Predict screen; None checks no signature.
        keys: keys by action id, comma-separated as Textual names them.
        run: defaults for the options of a run, by their long names without leading dashes.
    """

    theme: str | None = None
    bell: bool = False
    trust: str | None = None
    keys: dict[str, str] = {}
    run: dict[str, Any] = {}


def settings_file() -> Path:
    """The path of the configuration: `$TABAPP_CONFIG`, or `config.toml` in the platform's folder."""
    chosen = os.environ.get("TABAPP_CONFIG")
    if chosen:
        return Path(chosen)
    return config_folder() / "config.toml"


def load_settings() -> Settings:
    """Read the configuration; without a file, all settings have defaults. `$TABAPP_THEME` overrides its theme.

    Raises:
        UsageError: the file cannot be read or is not valid; names the line, or the key and the closest valid key.
    """
    file = settings_file()
    text = _text_of(file)
    try:
        settings = msgspec.convert(tomllib.loads(text), type=Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"The configuration {file} is not valid: {_sentence(str(error), text)}") from None
    except RecursionError:
        raise UsageError(f"The configuration {file} is not valid: it is nested too deeply.") from None
    except ValueError as error:
        raise UsageError(f"The configuration {file} is not TOML: {error}.") from None
    theme = os.environ.get("TABAPP_THEME")
    return msgspec.structs.replace(settings, theme=theme) if theme else settings


def _text_of(file: Path) -> str:
    """The text of the configuration; empty if there is none.

    Raises:
        UsageError: the file cannot be read.
    """
    if file == Path(os.devnull):
        return ""
    try:
        with files.open_to_read(file) as opened:
            content = opened.read(MOST_BYTES + 1)
        text = content.decode()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError as error:
        if "TABAPP_CONFIG" not in os.environ and not os.access(file.parent, os.X_OK):
            # The home folder of another user, as in a container that sets HOME for root only.
            return ""
        raise UsageError(f"The configuration {file} cannot be read: {error.strerror}.") from None
    except OSError as error:
        raise UsageError(f"The configuration {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The configuration {file} cannot be read: it is not UTF-8.") from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"The configuration {file} has more than {MOST_BYTES:,} bytes. Keep only its options.")
    return text


def line_of(text: str, key: str) -> int | None:
    """The number of the line that sets a key, counted from 1; None without one."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.split("=", 1)[0].strip().strip("\"'") == key or line.strip().strip("[]") == key:
            return number
    return None


def _sentence(message: str, text: str) -> str:
    """An error of msgspec as a sentence, with the line and the closest valid key."""
    quoted = message.split("`")
    if "unknown field" in message and len(quoted) > 1:
        key = quoted[1]
        line = line_of(text, key)
        hint = (
            did_you_mean(key, Settings.__struct_fields__) or f"; the keys are {', '.join(Settings.__struct_fields__)}."
        )
        return f"line {line} sets {key!r}, which is not a key{hint}"
    return f"{message.replace('`', '')}."
