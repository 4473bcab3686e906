"""Draw all screens at both sizes as SVG, and as PNG where `resvg` is found: python tools/screenshots.py [OUTPUT_FOLDER].

The screens show a fresh run on the table of `make demo`: Data before its start, Run after most of its time, and the others after
its end. Predict uses the rows that were set aside; Runs lists two short runs as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from PIL import Image

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tabapp.tui.app import AttachedApp
from tabapp.tui.screens.predict import PredictView

PREDICT_SECONDS = 60.0
SIZES = ((120, 36), (80, 24))
ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUTPUT = ROOT / "assets" / "screenshots"
RUNS = (
    ["--trials", "1", "--models", "linear,k_neighbors"],
    ["--trials", "3", "--models", "lightgbm,extra_trees", "--metric", "log_loss"],
    ["--budget", "2m"],
)
"""Options of the runs; the last is drawn, and Runs lists all."""
FONTS = ("Fira Code", "Fira Code:bold", "DejaVu Sans Mono", "DejaVu Sans Mono:bold", "DejaVu Sans:bold")
"""Fonts of the PNGs. Symbols that the first lacks come from the next: with all fonts of a system they would be of any width."""
PNG_COLORS = 64
TABLE, NEW_ROWS = "breast_cancer.csv", "new_patients.csv"


def copy_until(folder: RunFolder, moment: float | None, copies: Path) -> RunFolder:
    """Copy a run, up to a moment if given."""
    copy = RunFolder(copies / "runs" / folder.run)
    copy.path.mkdir(parents=True)
    data = copies / TABLE
    for name in (TABLE, NEW_ROWS):
        shutil.copyfile(Path(folder.config().data).with_name(name), copies / name)
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


def to_png(svg: Path, renderer: str) -> None:
    """Draw an SVG with resvg, which keeps the columns aligned, in few colors."""
    png = svg.with_suffix(".png")
    command = [
        renderer,
        "--quiet",
        "--skip-system-fonts",
        "--monospace-family",
        "DejaVu Sans Mono",
        "--sans-serif-family",
        "DejaVu Sans",
    ]
    for font in FONTS:
        found = subprocess.run(["fc-match", "-f", "%{file}", font], check=True, capture_output=True, text=True)
        command += ["--use-font-file", found.stdout]
    drawing = svg.read_text().replace("font-family: arial", "font-family: sans-serif")
    subprocess.run(
        [*command, f"--resources-dir={png.parent}", "-", png], input=drawing, text=True, check=True, timeout=60
    )
    drawn = Image.open(png).convert("RGB")
    drawn.quantize(PNG_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(png, optimize=True)
    print(png)


def fresh_run(place: Path) -> RunFolder:
    """Train on the demo table; the folder of the last run."""
    subprocess.run([sys.executable, "-m", "tools.demo_data", place], cwd=ROOT, check=True, capture_output=True)
    for options in RUNS:
        command = [sys.executable, "-m", "tabapp", "--auto", TABLE, "--target", "diagnosis", "--runs-dir", "runs"]
        subprocess.run([*command, *options], cwd=place, check=True, capture_output=True)
    return max(list_runs(place / "runs"), key=lambda folder: folder.run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    output: Path = parser.parse_args().output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tabapp-screenshots-") as place:
        draw_all(fresh_run(Path(place)), Path(place), output)


def draw_all(folder: RunFolder, place: Path, output: Path) -> None:
    """Draw every screen of a finished run."""
    renderer = shutil.which("resvg", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    state = folder.state()
    assert state.fitting_since is not None
    late = 0.3 * state.fitting_since + 0.7 * state.time
    for size in SIZES:
        name = f"{size[0]}x{size[1]}"
        for scene, moment, keys in scenes(state.fitting_since, late):
            # The plan is shown before the start, which is the moment before the first fit.
            until = moment - 0.001 if scene == "data" and moment is not None else moment
            copies = place / f"{scene}-{name}"
            copy = copy_until(folder, until, copies)
            if scene == "runs":
                for other in list_runs(folder.path.parent):
                    if other != folder:
                        copy_until(other, None, copies)
            # Paths are shown relative to the current folder.
            os.chdir(copies)
            target = output / f"{scene}-{name}.svg"
            asyncio.run(draw(copy, until or state.time, keys, size, target))
            if renderer is not None:
                to_png(target, renderer)


def scenes(started: float, late: float) -> tuple[tuple[str, float | None, list[str]], ...]:
    """Each picture: its name, the moment that it shows (none: the end), and the keys that lead to it."""
    return (
        ("data", started, ["2", "down", "down"]),
        ("table", None, ["2", "a", "down", "l"]),
        ("run", late, ["1", "down"]),
        ("models", None, ["1", "down", "3", "right", "right"]),
        ("compare", None, ["1", "down", "3", "space", "down", "space"]),
        ("tuning", None, ["1", "down", "4"]),
        ("explain", None, ["5", *["down"] * 4]),
        ("predict", None, ["6", "enter", "down", "enter", "ctrl+r"]),
        ("diagnose", None, ["9"]),
        ("runs", None, ["7"]),
        ("log", None, ["8"]),
        ("help", late, ["1", "question_mark"]),
    )


if __name__ == "__main__":
    main()
