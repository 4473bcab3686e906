"""Draw the README's screenshots from a run: the screens at both sizes, as SVG and, where a Chromium is found, as PNG.

    python tools/screenshots.py RUN_FOLDER [OUTPUT_FOLDER]

The Data screen is drawn before the start of the run, Run after half of its budget, and the others after its end. Predict uses the
rows of the training table; Runs also lists the other runs of the folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tabapp.tui.app import AttachedApp
from tabapp.tui.screens.predict import PredictView

PREDICT_SECONDS = 60.0
SIZES = ((120, 36), (80, 24))
DEFAULT_OUTPUT = Path(__file__).parent.parent / "assets" / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def copy_until(folder: RunFolder, moment: float | None, copies: Path) -> RunFolder:
    """Copy a run, up to a moment if given."""
    copy = RunFolder(copies / "runs" / folder.run)
    copy.path.mkdir(parents=True)
    data = copies / Path(folder.config().data).name
    if not data.exists():
        shutil.copyfile(folder.config().data, data)
    copy.save_config(msgspec.structs.replace(folder.config(), data=str(data)))
    events = EventReader(folder.events).read_new()
    place = str(Path(folder.config().data).parent) + "/"
    kept = [
        msgspec.structs.replace(event, command=event.command.replace(place, ""))
        if isinstance(event, ev.PlanMade)
        else event
        for event in events
        if moment is None or event.t <= moment
    ]
    if moment is not None and kept[-1].t < moment and not any(isinstance(event, ev.FitStarted) for event in kept):
        # A run without a screen does not wait for its start.
        kept = [event for event in kept if not isinstance(event, ev.StageChanged) or event.stage == "reading"]
        kept.append(ev.StageChanged(stage="ready", seq=kept[-1].seq + 1, t=kept[-1].t))
    copy.events.write_bytes(b"".join(encode(event) for event in kept))
    return copy


class Scene(AttachedApp):
    """The app on a copy of a run, whose engine is assumed to be alive."""

    async def _check_engine(self) -> None:
        pass


async def draw(folder: RunFolder, now: float, keys: list[str], size: tuple[int, int], target: Path) -> None:
    """Save one screen as SVG."""
    app = Scene(folder, runs_dir=folder.path.parent, clock=lambda: now)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.8)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.4)
        until = time.monotonic() + PREDICT_SECONDS
        while isinstance(app.screen, PredictView) and app.screen.is_at_work and time.monotonic() < until:
            await pilot.pause(0.2)
        if isinstance(app.screen, PredictView):
            app.clear_notifications()
            await pilot.pause(0.4)
        svg = app.export_screenshot(title="tabapp")
    target.write_text(svg)
    print(target)


def to_png(svg: Path, browser: str) -> None:
    """Draw an SVG with a browser: other converters shift the columns."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())
    assert found is not None
    width, height = (int(float(number)) + 1 for number in found.groups())
    png = svg.with_suffix(".png")
    with tempfile.TemporaryDirectory() as profile:
        options = [f"--user-data-dir={profile}", f"--screenshot={png}", f"--window-size={width},{height}"]
        command = [browser, *BROWSER_OPTIONS, *options, svg.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    print(png)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run.resolve())
    state = folder.state()
    if state.finished is None or state.fitting_since is None:
        print(f"{folder.path} has not finished a run.", file=sys.stderr)
        return 2
    output: Path = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    half = (state.fitting_since + state.time) / 2
    with tempfile.TemporaryDirectory() as copies:
        for size in SIZES:
            name = f"{size[0]}x{size[1]}"
            scenes = (
                ("data", state.fitting_since, ["2", "down", "down"]),
                ("table", None, ["2", "p", "down", "l"]),
                ("run", half, ["1", "down"]),
                ("models", None, ["1", "down", "3", "right", "right"]),
                ("compare", None, ["1", "down", "3", "space", "down", "space"]),
                ("tuning", None, ["1", "down", "4"]),
                ("explain", None, ["5"]),
                ("predict", None, ["6", "o", "enter", "ctrl+r"]),
                ("runs", None, ["7"]),
                ("log", None, ["8"]),
                ("help", half, ["1", "question_mark"]),
            )
            for scene, moment, keys in scenes:
                # The plan is shown before the start, which is the moment before the first fit.
                until = moment - 0.001 if scene == "data" and moment is not None else moment
                place = Path(copies) / f"{scene}-{name}"
                copy = copy_until(folder, until, place)
                if scene == "runs":
                    for other in list_runs(folder.path.parent):
                        if other != folder:
                            copy_until(other, None, place)
                # Paths are shown relative to the current folder.
                os.chdir(place)
                target = output / f"{scene}-{name}.svg"
                asyncio.run(draw(copy, until or state.time, keys, size, target))
                if browser is not None:
                    to_png(target, browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
