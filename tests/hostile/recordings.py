"""A recorded run whose column names, classes, file name and messages attack the terminal."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.record.folder import RunFolder
from tests.hostile import texts
from tests.recordings import events_of, lines_of
from tests.recordings.replay import make_run
from tests.tables import write_wine

RECORDING = "wine"
TARGET = f"cultivar{texts.CURSOR} [red]"
NAMES = {
    "alcohol": texts.TITLE + " [red]",
    "malic_acid": texts.CLIPBOARD,
    "ash": "mass [kg]",
    "alcalinity_of_ash": texts.LINK,
    "magnesium": "[/b]",
    "total_phenols": texts.C1,
    "flavanoids": texts.BIDI,
    "nonflavanoid_phenols": "[red]",
    "proanthocyanins": texts.ZERO_WIDTH,
    "color_intensity": texts.BACKSPACE,
    "hue": "price [$]",
    "proline": "two\nlines\tand a tab",
    "cultivar": TARGET,
    "cultivar_0": f"class 0{texts.TITLE}",
    "cultivar_1": "[/b] class 1",
    "cultivar_2": f"class 2{texts.BIDI}",
}
_KNOWN = re.compile(r"\b(" + "|".join(sorted(NAMES, key=len, reverse=True)) + r")\b")


def _attack(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if key in ("ev", "model", "command") else _attack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_attack(item) for item in value]
    return _KNOWN.sub(lambda found: NAMES[found[0]], value) if isinstance(value, str) else value


def hostile_events() -> list[ev.AnyEvent]:
    """The events of a recording with hostile names, and a hostile message of the engine before the last event."""
    decoded = [decode(json.dumps(_attack(json.loads(line)))) for line in lines_of(RECORDING)]
    events = [event for event in decoded if event is not None]
    assert len(events) == len(events_of(RECORDING))
    *before, last = events
    warning = ev.Log(level="warning", message=f"A library says {texts.TITLE} {texts.CURSOR} [/b]")
    return [*before, msgspec.structs.replace(warning, t=last.t), last]


def write_table(path: Path) -> Path:
    """The table of the recording, with its hostile names and classes."""
    plain = write_wine(path.parent / "plain.csv")
    with plain.open(newline="") as source, path.open("w", newline="", encoding="utf-8") as target:
        csv.writer(target).writerows([NAMES.get(cell, cell) for cell in row] for row in csv.reader(source))
    plain.unlink()
    return path


def make_hostile_run(folder: Path) -> RunFolder:
    """The folder of a finished run."""
    run = make_run(folder, RECORDING, str(texts.file_name(folder, ".csv")))
    with run.events.open("wb") as file:
        for number, event in enumerate(hostile_events(), 1):
            file.write(encode(msgspec.structs.replace(event, seq=number)))
    run.log.write_text(f"{texts.TITLE}\n{texts.CURSOR} [/b]\n", encoding="utf-8")
    return run
