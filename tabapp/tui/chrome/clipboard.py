"""Copies text to the system's clipboard, to the terminal's clipboard by OSC 52, and to a file as a fallback."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp import files
from tabapp.printable import without_controls
from tabapp.user_folders import cache_folder

if TYPE_CHECKING:
    from textual.app import App

TOOL_SECONDS = 2.0


def clipboard_command() -> list[str] | None:
    """The command that sets the system's clipboard; None if there is none or the session is remote."""
    if os.environ.get("SSH_CONNECTION"):
        return None
    if sys.platform == "darwin":
        wanted = [["pbcopy"]]
    else:
        wanted = [["wl-copy"]] if os.environ.get("WAYLAND_DISPLAY") else []
        if os.environ.get("DISPLAY"):
            wanted += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
        wanted.append(["clip.exe"])
    return next((command for command in wanted if shutil.which(command[0])), None)


def copies_file() -> Path:
    """The file that keeps the last copied text."""
    return cache_folder() / "copied.txt"


async def _to_system(command: list[str], text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(process.communicate(text.encode()), TOOL_SECONDS)
    except (OSError, TimeoutError):
        return False
    return process.returncode == 0


def copy(app: App[Any], text: str) -> None:
    """Send a text to the terminal's clipboard, and then to the system's clipboard or a file.

    Its control characters are made visible: pasted into a terminal, they could run commands.
    """
    text = without_controls(text)
    app.copy_to_clipboard(text)
    app.run_worker(copy_to_system(app, text), name="copy")


async def copy_to_system(app: App[Any], text: str) -> None:
    """Copy a text to the system's clipboard, or else to a file, and report where it is.

    Terminals do not confirm OSC 52, hence the file.
    """
    command = clipboard_command()
    places = ["the terminal's clipboard"]
    if command is not None and await _to_system(command, text):
        places = ["the clipboard"]
    else:
        file = copies_file()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(file, text.encode())
            places.append(str(file))
        except OSError:
            pass
    app.notify(text, title=f"Copied to {' and '.join(places)}", markup=False)
