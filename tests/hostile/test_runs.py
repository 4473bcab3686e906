"""Damaged and malicious run folders: a resumed run repairs what it can, and no folder hangs a view or writes outside itself."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tabapp.cli.main import run_command_line
from tabapp.errors import DataError, ExitCode, TabappError, UsageError
from tabapp.run.lists.description import describe_run
from tabapp.run.record import events as ev
from tabapp.run.record.folder import CommandReader, EventLog, EventReader, RunFolder, find_run, list_runs
from tabapp.run.record.resuming import resumed_config
from tabapp.run.record.state import seconds_used
from tests.run.recording import write_run
from tests.tables import write_wine
from tests.waiting import HANG_SECONDS

DEEP = b"[" * 100_000 + b"]" * 100_000
RUN = "20260102-030405-wine-a1b2"
FIT = "fits/linear-0000-f0"
Damage = Callable[[Path], object]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\x00garbage" * 50)


def nest(path: Path) -> None:
    path.write_bytes(DEEP)


def remove(path: Path) -> None:
    path.unlink()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 0x55
    path.write_bytes(content)


def not_finite(path: Path) -> None:
    np.save(path, np.full_like(np.load(path), np.nan))


def shorten(path: Path) -> None:
    np.save(path, np.load(path)[:-1])


def pickled(path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.array([print], dtype=object), allow_pickle=True)
    path.write_bytes(content.getvalue())


def changed(**values: object) -> Damage:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


FILE_DAMAGE = (truncate, empty, garble, nest, make_fifo, make_folder)
REPAIRED: list[tuple[str, Damage]] = [
    *(
        (name, damage)
        for name in ("plan.json", "splits.npz", "data/sample.arrow", "data/fingerprint.json", "study.db")
        for damage in FILE_DAMAGE
    ),
    *((name, damage) for name in (f"{FIT}/metrics.json", f"{FIT}/oof.npy") for damage in (*FILE_DAMAGE, flip)),
    *((name, remove) for name in ("plan.json", "splits.npz", "data/sample.arrow", "data/fingerprint.json", "study.db")),
    *((name, damage) for name in ("data/table.arrow", "data/schema.json") for damage in (*FILE_DAMAGE, flip, remove)),
    *((f"{FIT}/oof.npy", damage) for damage in (not_finite, shorten, pickled)),
    (f"{FIT}/metrics.json", changed(model="../../elsewhere")),
    (f"{FIT}/metrics.json", changed(fold=1)),
    (f"{FIT}/metrics.json", changed(checksums={"../../run.json": "0"})),
    (f"{FIT}/metrics.json", changed(seconds=-1e9)),
    ("plan.json", changed(workers=10**9)),
    ("plan.json", changed(folds=10**6)),
    ("plan.json", changed(metric="nonsense")),
    ("plan.json", changed(target="alcohol")),
    ("plan.json", changed(n_classes=2**31)),
    ("plan.json", changed(new_field=1)),
]  # fmt: skip


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A small run, stopped before its last event, whose source file still exists."""
    root = tmp_path_factory.mktemp("finished")
    data = write_wine(root / "wine.csv")
    words = ["--auto", str(data), "--models", "linear", "--trials", "1", "--folds", "2", "--workers", "1"]
    done = tabapp(*words, "--runs-dir", str(root / "runs"), "--out", str(root / "wine.tabapp"), umask=0o022)
    assert done.returncode == 0, done.stderr
    (folder,) = list_runs(root / "runs")
    lines = folder.events.read_bytes().splitlines(keepends=True)
    folder.events.write_bytes(b"".join(lines[:-1]))
    return folder


def tabapp(*arguments: str, umask: int = -1) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-m", "tabapp", *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=HANG_SECONDS, stdin=subprocess.DEVNULL, umask=umask
    )


def copied(folder: RunFolder, place: Path) -> RunFolder:
    shutil.copytree(folder.path, place / RUN)
    return RunFolder(place / RUN)


@contextmanager
def copies(folder: RunFolder, place: Path) -> Generator[RunFolder]:
    """A copy that is deleted at the end."""
    copy = copied(folder, place)
    yield copy
    shutil.rmtree(copy.path)


@contextmanager
def hang_guard() -> Generator[None]:
    """End the process when a call does not return."""
    timer = threading.Timer(HANG_SECONDS, lambda: os._exit(99))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def repair(folder: RunFolder) -> list[str]:
    """What a resumed engine does before its first fit; returns its warnings."""
    from tabapp.engine.loop.recovery import recover
    from tabapp.engine.loop.studies import known_trials, open_study

    warnings: list[str] = []
    recover(folder, folder.config(), warnings.append)
    known_trials(folder, EventReader(folder.events).read_new())
    open_study(folder, warnings.append).engine.dispose()
    return warnings


def test_every_file_of_a_run_is_private_but_not_the_exported_bundle(finished_run: RunFolder) -> None:
    engine_files = list(finished_run.path.rglob("*"))
    assert len(engine_files) > 15
    assert [path for path in engine_files if path.stat().st_mode & 0o077] == []
    out = finished_run.path.parent.parent / "wine.tabapp"
    assert stat.S_IMODE(out.stat().st_mode) == 0o644


def test_an_intact_run_is_not_changed(finished_run: RunFolder, tmp_path: Path) -> None:
    folder = copied(finished_run, tmp_path)
    assert repair(folder) == []
    assert not list(folder.path.rglob("*.damaged*"))


def one_of_each(cases: list[tuple[str, Damage]]) -> list[tuple[str, Damage]]:
    """Cases that have every file and every kind of damage."""
    chosen: list[tuple[str, Damage]] = []
    files: set[str] = set()
    kinds: set[str] = set()
    for name, damage in cases:
        if name not in files or damage.__qualname__ not in kinds:
            chosen.append((name, damage))
            files.add(name)
            kinds.add(damage.__qualname__)
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("cases", [one_of_each(REPAIRED), REPAIRED], ids=["some", "all"])
def test_damaged_parts_are_set_aside_and_made_again(
    finished_run: RunFolder, tmp_path: Path, cases: list[tuple[str, Damage]]
) -> None:
    assert len(REPAIRED) >= 60
    assert {name for name, _ in cases} == {name for name, _ in REPAIRED}
    for name, damage in cases:
        with copies(finished_run, tmp_path) as folder, hang_guard():
            damage(folder.path / name)
            warnings = repair(folder)
            case = f"{damage} of {name}: {warnings}"
            # A missing file is made again silently, unless the whole table is read again; an empty file is a valid database.
            silent = damage is remove and name not in ("data/table.arrow", "data/schema.json")
            assert len(warnings) == (not silent and (name, damage) != ("study.db", empty)), case
            assert repair(folder) == [], case
            for path in ("data/table.arrow", "data/sample.arrow", "data/fingerprint.json", "plan.json", "splits.npz"):
                same = (folder.path / path).read_bytes() == (finished_run.path / path).read_bytes()
                assert same or path in ("plan.json", "splits.npz"), case
            assert (folder.path / "study.db").is_file(), case


def test_remade_folds_are_the_same(finished_run: RunFolder, tmp_path: Path) -> None:
    folder = copied(finished_run, tmp_path)
    (folder.path / "splits.npz").unlink()
    repair(folder)
    before, after = (np.load(run.path / "splits.npz") for run in (finished_run, folder))
    assert {name: before[name].tolist() for name in before} == {name: after[name].tolist() for name in after}


@pytest.mark.parametrize("name", ["table.arrow", "schema.json"])
def test_a_damaged_table_without_its_source_is_named(finished_run: RunFolder, tmp_path: Path, name: str) -> None:
    folder = copied(finished_run, tmp_path)
    folder.save_config(msgspec.structs.replace(folder.config(), data=str(tmp_path / "gone.csv")))
    truncate(folder.data / name)
    with pytest.raises(DataError, match=r"stored table .* is damaged .* start a new one") as caught:
        repair(folder)
    assert "\n" not in str(caught.value)


def test_a_lost_fingerprint_and_sample_need_no_source(finished_run: RunFolder, tmp_path: Path) -> None:
    folder = copied(finished_run, tmp_path)
    folder.save_config(msgspec.structs.replace(folder.config(), data=str(tmp_path / "gone.csv")))
    garble(folder.data / "fingerprint.json")
    garble(folder.data / "sample.arrow")
    assert len(repair(folder)) == 2
    assert repair(folder) == []


def test_damaged_features_are_set_aside_with_the_fits_that_use_them(finished_run: RunFolder, tmp_path: Path) -> None:
    for name, damage in (("numeric.npy", truncate), ("categorical.npy", make_fifo), ("state/features.json", nest)):
        with copies(finished_run, tmp_path) as folder:
            (cache,) = folder.features.glob("*-f0")
            path = cache / name if (cache / name).exists() else next((cache / "state").glob("*.json"))
            damage(path)
            warnings = repair(folder)
            assert [words.split()[0].split("/")[0] for words in warnings] == ["features", "fits"]


@dataclass(frozen=True)
class Resumed:
    """A run that was resumed with damaged parts, and whose place for the bundle has vanished meanwhile."""

    folder: RunFolder
    done: subprocess.CompletedProcess[str]
    out: Path


@pytest.fixture(scope="module")
def resumed(finished_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    runs = tmp_path_factory.mktemp("resumed")
    folder, out = copied(finished_run, runs), runs / "vanished" / "wine.tabapp"
    folder.save_config(msgspec.structs.replace(folder.config(), out=str(out)))
    folder.bundle.unlink()
    for name in ("study.db", f"{FIT}/metrics.json", "plan.json", "data/fingerprint.json"):
        garble(folder.path / name)
    with folder.events.open("ab") as events:
        events.write(DEEP + b"\nnot an event\n")
    folder.commands.write_bytes(DEEP + b"\n{\n" + b'{"command": ' + DEEP + b"}\n")
    return Resumed(folder, tabapp("resume", str(folder.path), "--plain", "--runs-dir", str(runs)), out)


def test_a_resumed_run_with_damaged_parts_finishes(resumed: Resumed) -> None:
    folder = resumed.folder
    assert "Traceback" not in resumed.done.stderr
    messages = [event.message for event in EventReader(folder.events).read_new() if isinstance(event, ev.Log)]
    assert "2 damaged lines of events.jsonl are skipped." in messages
    assert sum("is damaged" in message for message in messages) == 4, messages
    trials = [event for event in EventReader(folder.events).read_new() if isinstance(event, ev.TrialFinished)]
    assert {(event.model, event.trial) for event in trials} == {("linear", 0)}
    assert {event.score for event in trials} == {trials[0].score}
    finished = folder.state().finished
    assert finished is not None
    assert finished.status == "ok"
    assert folder.bundle.is_file()


def test_a_bundle_that_cannot_be_copied_stays_in_its_run(resumed: Resumed, tmp_path: Path) -> None:
    assert resumed.done.returncode == ExitCode.NO_MODEL
    sentence = resumed.done.stderr.splitlines()[-1]
    assert f"{resumed.out} cannot be written (No such file or directory)." in sentence
    command = re.search(r"`tabapp (export .*) -o FILE.tabapp`", sentence)
    assert command is not None
    copy = tmp_path / "copy.tabapp"
    assert run_command_line([*command[1].split(), "-o", str(copy)]) == 0
    assert copy.read_bytes() == resumed.folder.bundle.read_bytes()


def mutate(path: Path, generator: random.Random) -> None:
    """Change, remove, insert or repeat bytes at a random place."""
    content = bytearray(path.read_bytes())
    for _ in range(generator.choice((1, 1, 1, 8, 64))):
        at = generator.randrange(len(content) + 1)
        match generator.randrange(4):
            case 0:
                content[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                del content[at : at + generator.randrange(1, 64)]
            case 2:
                content[at:at] = generator.randbytes(generator.randrange(1, 16))
            case _:
                content[at:at] = content[at : at + generator.randrange(1, 64)]
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_mutations_are_repaired_or_named(finished_run: RunFolder, tmp_path: Path) -> None:
    generator = random.Random(0)
    names = [path.relative_to(finished_run.path) for path in sorted(finished_run.path.rglob("*")) if path.is_file()]
    for case in range(int(os.environ.get("TABAPP_FUZZ_CASES", "1000"))):
        name = generator.choice(names)
        with copies(finished_run, tmp_path) as folder, hang_guard():
            mutate(folder.path / name, generator)
            describe_run(folder)
            sentence = ""
            try:
                repair(folder)
            except TabappError as error:
                sentence = str(error)
            assert "\n" not in sentence, f"case {case}: {name}"
            assert sentence or repair(folder) == [], f"case {case}: {name}"


# -- views ------------------------------------------------------------------------------------------------------------------

VIEW_DAMAGE: list[tuple[str, Damage]] = [
    *((name, damage) for name in ("run.json", "events.jsonl") for damage in FILE_DAMAGE),
    ("run.json", changed(color="red")),
    ("run.json", changed(data=3)),
    ("run.json", changed(budget="x" * 10_000)),
]


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


def refusal(folder: RunFolder, runs_dir: Path) -> str:
    """Why a run cannot be resumed; empty if it can."""
    try:
        resumed_config(find_run(folder.run, runs_dir), 60.0, None)
    except TabappError as error:
        return str(error)
    return ""


def test_an_unreadable_run_affects_no_other(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_run(runs_dir, "20260102-030405-shop-a1b2")
    good.bundle.write_bytes(b"a bundle")
    for name, damage in VIEW_DAMAGE:
        bad = write_run(runs_dir, "20260103-030405-cars-c3d4")
        with hang_guard():
            damage(bad.path / name)
            case = f"{damage} of {name}"
            assert find_run("shop", runs_dir).run == good.run, case
            assert describe_run(good).status == "ok", case
            assert describe_run(bad).status in ("unreadable", "stopped"), case
            assert run_command_line(["runs", "--json"]) == 0, case
            assert run_command_line(["attach", "a1b2", "--plain"]) == 0, case
            assert run_command_line(["export", "a1b2", "-o", str(runs_dir.parent / "out.tabapp")]) == 0, case
            capsys.readouterr()
            sentence = refusal(bad, runs_dir)
            assert "\n" not in sentence, case
            assert sentence or name == "events.jsonl", case
        shutil.rmtree(bad.path)


def test_a_fifo_never_hangs(runs_dir: Path) -> None:
    folder = write_run(runs_dir)
    for name in ("lock", "commands.jsonl", "log.txt", "model.tabapp", "events.jsonl"):
        (folder.path / name).unlink(missing_ok=True)
        os.mkfifo(folder.path / name)
        with hang_guard():
            assert not folder.is_running()
            describe_run(folder)
            assert run_command_line(["attach", folder.run, "--plain"]) in (0, 1, 2)
            assert run_command_line(["export", folder.run, "-o", str(runs_dir / "x")]) == 2
            assert run_command_line(["resume", folder.run, "--plain", "--trials", "1"]) in (1, 2)


def test_damaged_lines_are_skipped(runs_dir: Path) -> None:
    folder = write_run(runs_dir)
    n_events = len(EventReader(folder.events).read_new())
    for line in (DEEP, b"\xff\xfe", b"{", b"[]", b"1", b'{"ev":1}', b'{"ev":"log","x":' + DEEP + b"}", b"null"):
        with folder.events.open("ab") as file:
            file.write(line + b"\n")
    assert len(EventReader(folder.events).read_new()) == n_events
    rejected: list[str] = []
    folder.commands.write_bytes(DEEP + b"\n" + b'{"command":"plan","options":' + DEEP + b"}\n{}\n\xff\n")
    assert CommandReader(folder.commands, resumed=False, reject=rejected.append).read_new() == []
    assert len(rejected) == 4
    assert not any("\n" in sentence for sentence in rejected)


def test_new_events_are_numbered_after_the_last_one(runs_dir: Path) -> None:
    folder = write_run(runs_dir)
    lines = folder.events.read_bytes().splitlines(keepends=True)
    folder.events.write_bytes(b"".join(lines[:3] + lines[6:]))
    log = EventLog(folder.events)
    assert log.append(ev.Log(level="info", message="new")).seq == len(lines) + 1
    log.close()


# -- folders of others ------------------------------------------------------------------------------------------------------


def test_nothing_is_written_through_a_link(tmp_path: Path, finished_run: RunFolder) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("events.jsonl", "commands.jsonl", "log.txt", "lock", "study.db", "plan.json", "model.tabapp", "fits",
                 "features", "data", "checkpoints", "splits.npz", "data/sample.arrow", f"{FIT}/oof.npy", "run.json"):  # fmt: skip
        with copies(finished_run, tmp_path) as folder:
            path = folder.path / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.symlink_to(elsewhere if "." not in name and name != "lock" else precious)
            if name == "fits":
                done = tabapp("resume", str(folder.path), "--plain", "--runs-dir", str(tmp_path))
                assert done.returncode == 2
                assert "is a symbolic link" in done.stderr
            else:
                from tabapp.run.record.folder import reject_links

                with pytest.raises(UsageError, match="is a symbolic link"):
                    reject_links(folder.path)
            if name == "events.jsonl":
                with pytest.raises(OSError, match="symbolic link"):
                    EventLog(folder.events)
            if name == "lock":
                with pytest.raises(OSError, match="symbolic link"), folder.lock():
                    pass
        assert precious.read_bytes() == b"precious"
        assert list(elsewhere.iterdir()) == []


def test_last_is_the_newest_run_and_a_slash_makes_a_path(
    runs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = write_run(runs_dir)
    write_run(tmp_path, "last")
    monkeypatch.chdir(tmp_path)
    assert find_run("last", runs_dir) == ours
    assert find_run("./last", runs_dir).path == tmp_path / "last"
    monkeypatch.chdir(tmp_path / "last")
    assert find_run(".", runs_dir).path == tmp_path / "last"
    write_run(tmp_path / "last", "other")
    with pytest.raises(UsageError, match=r"write \./other"):
        find_run("other", runs_dir)
    with pytest.raises(UsageError, match="is not a run folder"):
        find_run("./nothing", runs_dir)


def test_a_clock_set_forward_uses_no_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("tabapp.run.record.folder.time.time", lambda: now)
    log = EventLog(tmp_path / "events.jsonl")
    log.append(ev.RunStarted(run="r", name="r", data="d", pid=1, seed=0, budget=60.0, version="0"))
    now += 1e6
    log.append(ev.StageChanged(stage="fitting"))
    log.append(ev.Log(level="info", message="end"))
    log.close()
    assert seconds_used(EventReader(tmp_path / "events.jsonl").read_new()) < HANG_SECONDS


def test_out_that_is_not_a_file_is_rejected_before_training(
    runs_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_wine(tmp_path / "wine.csv")
    for out in ("/dev/null", str(tmp_path), str(tmp_path / "no" / "folder")):
        assert run_command_line(["--auto", str(data), "--out", out]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert list_runs(runs_dir) == []
