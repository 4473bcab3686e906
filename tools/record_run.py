"""Record real runs for the tests: an engine works on a small table while commands and failures occur.

    python -m tools.record_run [SCENE …]

Paths of this machine are replaced, times start at a fixed moment, and frequent events are thinned; nothing else is changed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tabapp.run.options.config import RunConfig
from tabapp.run.protocol.client import start_engine
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import EventReader, RunFolder, create_run
from tests.recordings import FOLDER, START
from tests.tables import write_breast_cancer, write_mixed, write_noise, write_wine

POLL_SECONDS = 0.05
RESOURCES_EVERY_SECONDS = 2.0
PREVIEW_ROWS = 20


@dataclass(frozen=True)
class Deed:
    """A command sent after a number of complete fits, and some seconds after the previous one.

    Without a command, the engine is killed and started again.
    """

    fits: int
    command: AnyCommand | None
    seconds: float = 0.0


@dataclass(frozen=True)
class Scene:
    """A table, options, commands before and after the start, and a model whose fits are all killed."""

    write: Callable[[Path], Path]
    options: dict[str, Any]
    plans: tuple[dict[str, Any], ...] = ()
    deeds: tuple[Deed, ...] = ()
    kill_fits_of: str | None = None
    progress: int = 6
    """Points that are kept of each learning curve."""


SCENES = {
    # Two classes; every fit of one model is killed, as when memory runs out.
    "cancer": Scene(
        write_breast_cancer,
        {"budget": 60.0, "models": ("lightgbm", "linear", "mlp", "ft_transformer", "random_forest")},
        kill_fits_of="mlp",
    ),
    # A regression: replanned before the start, rejected once, paused, one model stopped, and finished early.
    "prices": Scene(
        write_mixed,
        {"budget": 600.0, "models": ("lightgbm", "xgboost", "linear", "k_neighbors")},
        plans=({"target": "area"}, {"target": "city", "metric": "rmse"}, {"target": "price", "budget": 300.0}),
        deeds=(
            Deed(4, cmd.Pause()),
            Deed(4, cmd.Resume(), seconds=2.0),
            Deed(16, cmd.StopModel(model="xgboost")),
            Deed(40, cmd.Finish()),
        ),
    ),
    # Three classes; the engine is killed during the run and resumed.
    "wine": Scene(
        write_wine,
        {"budget": 300.0, "trials": 4, "models": ("lightgbm", "linear", "mlp")},
        deeds=(Deed(12, None),),
    ),
    # Two classes, many trials of few models on a sample of the rows; the user extends the budget, changes a share, pauses, and
    # excludes a model from the ensemble.
    "tuned": Scene(
        write_breast_cancer,
        {"budget": 120.0, "trials": 14, "models": ("lightgbm", "linear"), "validation": "holdout"},
        deeds=(
            Deed(3, cmd.Extend(seconds=60)),
            Deed(5, cmd.ShareModel(model="linear", share=2.0)),
            Deed(7, cmd.PauseModel(model="lightgbm")),
            Deed(10, cmd.ResumeModel(model="lightgbm")),
            Deed(12, cmd.IncludeModel(model="linear", include=False)),
            Deed(16, cmd.IncludeModel(model="linear", include=True)),
        ),
    ),
    # A target that no column explains.
    "noise": Scene(
        write_noise, {"budget": 25.0, "models": ("lightgbm", "linear", "mlp"), "target": "chance"}, progress=1
    ),
}


class Recording:
    """Plays a scene and collects its events."""

    def __init__(self, scene: Scene, folder: RunFolder) -> None:
        self._scene = scene
        self._folder = folder
        self._reader = EventReader(folder.events)
        self._engine = start_engine(folder)
        self.events: list[ev.AnyEvent] = []

    def _look(self) -> list[ev.AnyEvent]:
        new = self._reader.read_new()
        for event in new:
            if isinstance(event, ev.FitStarted) and event.model == self._scene.kill_fits_of:
                with suppress(ProcessLookupError):
                    os.kill(event.pid, signal.SIGKILL)
        self.events += new
        return new

    def _wait_for(self, *kinds: type[ev.Event]) -> None:
        while not any(isinstance(event, kinds) for event in self._look()):
            if self._engine.poll() is not None:
                raise RuntimeError(f"the engine ended; {self._folder.log} says why")
            time.sleep(POLL_SECONDS)

    def play(self) -> None:
        """Plan, start, and play the scene until the run ends."""
        self._wait_for(ev.PlanMade)
        for options in self._scene.plans:
            self._folder.send(cmd.ChangePlan(options=options))
            self._wait_for(ev.PlanMade, ev.PlanRefused)
        self._folder.send(cmd.Start())
        deeds = list(self._scene.deeds)
        last_deed = time.monotonic()
        while not any(isinstance(event, ev.RunFinished) for event in self.events):
            self._look()
            fits = sum(isinstance(event, ev.FitFinished) for event in self.events)
            if deeds and fits >= deeds[0].fits and time.monotonic() - last_deed >= deeds[0].seconds:
                self._do(deeds.pop(0))
                last_deed = time.monotonic()
            elif self._engine.poll() is not None and not self._look():
                break
            time.sleep(POLL_SECONDS)
        self._engine.wait(timeout=30)
        self._look()

    def _do(self, deed: Deed) -> None:
        if deed.command is not None:
            self._folder.send(deed.command)
            return
        self._engine.kill()
        self._engine.wait()
        self._folder.save_config(msgspec.structs.replace(self._folder.config(), start=True))
        self._engine = start_engine(self._folder)


def thinned(events: list[ev.AnyEvent], progress: int) -> list[ev.AnyEvent]:
    """Drop most resources, the middle of learning curves, the end of the preview, and unchanged leaderboards."""
    totals = Counter(event.fit for event in events if isinstance(event, ev.FitProgress))
    seen = Counter[str]()
    kept: list[ev.AnyEvent] = []
    last_use = 0.0
    board: list[object] = []
    for event in events:
        if isinstance(event, ev.Resources):
            if event.t - last_use < RESOURCES_EVERY_SECONDS:
                continue
            last_use = event.t
        elif isinstance(event, ev.FitProgress):
            seen[event.fit] += 1
            stride = -(-totals[event.fit] // progress)
            if seen[event.fit] % stride and seen[event.fit] != totals[event.fit]:
                continue
        elif isinstance(event, ev.LeaderboardChanged):
            news: list[object] = [
                (row.model, row.score, row.status == "failed", row.held, row.left_out) for row in event.rows
            ]
            if news == board:
                continue
            board = news
        elif isinstance(event, ev.AnalysisEvent):
            # Tests of the reducer read a state back from JSON, which knows no kinds of analyses.
            continue
        elif isinstance(event, ev.DataRead):
            event = msgspec.structs.replace(event, preview=event.preview[:PREVIEW_ROWS])
        kept.append(event)
    return kept


def neutral(events: list[ev.AnyEvent], folder: RunFolder, name: str) -> bytes:
    """The events as lines, renumbered, starting at a fixed moment, without paths of this machine."""
    shift = START - events[0].t
    run = f"20260921-120000-{name}-a3f9"
    lines: list[bytes] = []
    for number, event in enumerate(events, 1):
        changes: dict[str, Any] = {"seq": number, "t": round(event.t + shift, 3)}
        if isinstance(event, ev.StageChanged) and event.deadline is not None:
            changes["deadline"] = round(event.deadline + shift, 3)
        if isinstance(event, ev.RunStarted | ev.FitStarted):
            changes["pid"] = 4000 + number
        lines.append(encode(msgspec.structs.replace(event, **changes)))
    text = b"".join(lines).decode()
    # The longest first, because one may contain another.
    for path, word in (
        (str(folder.path), f"runs/{run}"),
        (str(folder.path.parent) + "/", "runs/"),
        (str(folder.path.parent.parent) + "/", ""),
        (sysconfig.get_paths()["purelib"] + "/", "site-packages/"),
        (sysconfig.get_paths()["stdlib"] + "/", "python/"),
        (str(Path(__file__).parent.parent) + "/", ""),
        (str(Path.home()) + "/", "~/"),
        (folder.run, run),
    ):
        text = text.replace(path, word)
    left = re.search(r'[^\w."]/\w+/\w+', text)
    if left is not None:
        raise RuntimeError(f"a path of this machine is left: {text[left.start() : left.end() + 60]}")
    return text.encode()


def record(name: str) -> None:
    """Play one scene and write its recording."""
    scene = SCENES[name]
    with tempfile.TemporaryDirectory() as place:
        data = scene.write(Path(place) / f"{name}.csv")
        folder = create_run(RunConfig(data=str(data), start=False, workers=2, **scene.options), Path(place) / "runs")
        recording = Recording(scene, folder)
        recording.play()
        events = thinned(recording.events, scene.progress)
        target = FOLDER / f"{name}.jsonl"
        target.write_bytes(neutral(events, folder, name))
    kinds = Counter(type(event).__name__ for event in events)
    print(f"{target}: {len(events)} events of {len(recording.events)}, {target.stat().st_size / 1000:.0f} kB")
    print("  " + ", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", help=f"which of {', '.join(SCENES)}; all when none is named")
    arguments = parser.parse_args()
    for name in arguments.scenes or SCENES:
        record(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
