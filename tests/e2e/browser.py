"""A small driver for headless Chromium through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import HANG_SECONDS

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# The page's script does not export its terminal. The first object that receives a `websocket_url` holds it.
KEEP_TERMINAL = """
Object.defineProperty(Object.prototype, "websocket_url", {
  configurable: true,
  set(value) { window.session = this; Object.defineProperty(this, "websocket_url", { value, writable: true }); },
});
"""
READ_TERMINAL = """
(() => {
  const terminal = window.session && window.session.terminal;
  if (!terminal) return "";
  const buffer = terminal.buffer.active;
  return Array.from({ length: terminal.rows }, (_, row) => buffer.getLine(row)?.translateToString(true) ?? "").join("\\n");
})()
"""
# Modifiers and codes of the protocol's Input.dispatchKeyEvent.
CONTROL = 2


class Tab:
    """One browser tab; use it as an asynchronous context manager."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address
        self._number = 0
        self.requested: list[str] = []
        """Every URL that the page has requested."""

    async def __aenter__(self) -> Tab:
        self._socket = await self._session.ws_connect(self._address, max_msg_size=0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=HANG_SECONDS)
            if message.get("method") == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    async def open(self, address: str) -> None:
        """Navigate to an address."""
        await self.call("Network.enable")
        await self.call("Page.enable")
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=KEEP_TERMINAL)
        size = {"width": 1240, "height": 720, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Page.navigate", url=address)

    async def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression on the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    async def screen(self) -> str:
        """The text of the page's terminal."""
        return await self.run(READ_TERMINAL) or ""

    async def wait(self, text: str, seconds: float = HANG_SECONDS) -> str:
        """Wait until the terminal shows a text; returns the screen."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            screen = await self.screen()
            if text in screen:
                return screen
            await asyncio.sleep(0.2)
        raise AssertionError(f"{text!r} did not appear:\n{await self.screen()}")

    async def key(self, key: str, *, modifiers: int = 0) -> None:
        """Press and release a key: a letter or a digit."""
        code = f"Digit{key}" if key.isdigit() else f"Key{key.upper()}"
        event = {"key": key, "code": code, "windowsVirtualKeyCode": ord(key.upper()), "modifiers": modifiers}
        text = {} if modifiers else {"text": key}
        await self.run("document.querySelector('.xterm-helper-textarea').focus()")
        await self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    async def picture(self, file: Path) -> None:
        """Save a screenshot of the page as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(found["data"]))


class Browser:
    """Chromium with its own profile and process group; use it as an asynchronous context manager."""

    def __init__(self, folder: Path) -> None:
        self._profile = folder / "profile"
        self._log = folder / "chromium.log"

    async def __aenter__(self) -> Browser:
        assert PROGRAM is not None
        words = [
            PROGRAM,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={self._profile}",
            "--disable-gpu",
        ]
        words += [
            "--no-first-run",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--disable-extensions",
        ]
        words += ["--no-sandbox"] if os.geteuid() == 0 else []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*words, "about:blank"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._port = await self._find_port()
        except BaseException:
            self._kill()
            raise
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._kill()
        await self._session.close()

    async def tab(self) -> Tab:
        """Open a new tab; enter it as a context manager."""
        async with self._session.put(f"http://127.0.0.1:{self._port}/json/new?about:blank") as answer:
            return Tab(self._session, (await answer.json())["webSocketDebuggerUrl"])

    async def _find_port(self) -> int:
        file, until = self._profile / "DevToolsActivePort", time.monotonic() + HANG_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            lines = file.read_text().split() if file.exists() else []
            if lines:
                return int(lines[0])
            await asyncio.sleep(0.1)
        raise AssertionError(f"Chromium did not start:\n{self._log.read_text()}")

    def _kill(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()
