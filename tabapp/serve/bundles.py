"""The bundles of a server: loaded in confined processes, replaced when their file changes, restarted when a process ends."""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tabapp import files
from tabapp.bundle.confined.box import BoxedPredictor, load_boxed
from tabapp.bundle.files.archive_checks import MAX_BYTES, chosen_limit
from tabapp.bundle.files.contents import Contents
from tabapp.bundle.files.targets import file_of, target_files
from tabapp.bundle.prediction.drift import WINDOW_ROWS, DriftMonitor
from tabapp.bundle.prediction.load import neighbors_of
from tabapp.bundle.prediction.predict import Prediction, Predictor
from tabapp.errors import BundleError, TabappError, spelled_in_addresses
from tabapp.explain.rows import Explainer, explanations_json
from tabapp.serve.acceptance import Acceptance
from tabapp.serve.limits import busy
from tabapp.serve.watching import WatchingPredictor
from tabapp.temporary import TemporaryFolder

POLL_SECONDS = 1.0
LONGEST_PAUSE = 60.0
"""Longest pause between two attempts to restart a model process."""

Log = Callable[[str], None]
Signature = tuple[int, int, int, int]


@dataclass
class Version:
    """One content of a bundle file, with its model processes.

    Attributes:
        digest: SHA-256 of the file.
        sample: the sample rows of the bundle, typed, with which explanations compare a row.
        copy: a private copy of the file, from which processes are restarted; the file itself may have been replaced.
        processes: all model processes, including busy ones.
        idle: those without a request.
        is_retired: another version has replaced this one.
    """

    contents: Contents
    digest: str
    copy: Path
    drift: DriftMonitor
    sample: pl.DataFrame
    processes: list[BoxedPredictor] = field(default_factory=list[BoxedPredictor])
    idle: queue.SimpleQueue[BoxedPredictor] = field(default_factory=queue.SimpleQueue[BoxedPredictor])
    is_retired: bool = False


@dataclass(frozen=True)
class Health:
    """The state of a bundle: whether it predicts, and the last problem as a sentence without the path of the file."""

    predicts: bool
    problem: str
    digest: str


class ServedBundle:
    """A bundle file and its loaded version.

    Args:
        name: its name in addresses.
        path: the file.
        folder: a private folder for copies.
        n_processes: number of model processes.
        trust: file of the public key that must have signed every version.
        device: the device of the networks.
        log: receives sentences about reloads and restarts.
        target: the target to serve, of a file with several.

    Attributes:
        counts: number of events by name: reloaded, refused, restarted.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        folder: Path,
        *,
        n_processes: int,
        trust: Path | None,
        device: str,
        log: Log,
        target: str | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.counts = {"reloaded": 0, "refused": 0, "restarted": 0}
        self._folder = folder
        self._n_processes = n_processes
        self._target, self._file_trust = target, trust
        # The signature of a file with several targets covers the bundles in it.
        self._trust, self._device = trust if target is None else None, device
        self._log = log
        self._lock = threading.Lock()
        self._refused = ""
        self._failed = ""
        self._pause = 0.0
        self._next_attempt = 0.0
        self._pending: Signature | None = None
        self._seen = self._signature()
        self._version = self._load()

    @property
    def version(self) -> Version:
        """The loaded version."""
        return self._version

    @property
    def target(self) -> str | None:
        """The target, of a file with several; None where the file has a single target."""
        return self._target

    def health(self) -> Health:
        """The state of the bundle."""
        with self._lock:
            predicts = any(process.is_running for process in self._version.processes)
            problem = (self._failed or self._refused).replace(str(self.path), repr(self.name))
            return Health(predicts, problem, self._version.digest)

    def predict(self, frame: pl.DataFrame, acceptance: Acceptance) -> tuple[Prediction, Version]:
        """Predict rows of text with an idle process, waiting for one if all are busy.

        Raises:
            RequestError: no process is running, or a model fails.
            DataError: the rows are rejected, as by `Predictor.predict_frame`.
        """
        with self._process() as (process, version):
            predictor = WatchingPredictor(process, version.drift)
            with self._failures(process, version):
                found = predictor.predict_frame(
                    frame,
                    fill_missing_columns=acceptance.fill,
                    strict=acceptance.strict,
                    decimal=acceptance.decimal,
                )
                return found, version

    def explain(self, frame: pl.DataFrame, label: str | None, acceptance: Acceptance) -> tuple[dict[str, Any], str]:
        """Explain rows of text as `tabapp explain --json`; returns the digest of the bundle, too.

        Args:
            label: the class whose probability is explained; by default the one predicted for the first row.

        Raises:
            RequestError, DataError: as `predict`.
            UsageError: there is no such class.
        """
        with self._process() as (process, version):
            with self._failures(process, version):
                typed, notes = process.typed_rows(
                    frame,
                    fill_missing_columns=acceptance.fill,
                    strict=acceptance.strict,
                    decimal=acceptance.decimal,
                )
                explainer = Explainer(
                    process.predict_typed,
                    process.schema,
                    version.sample,
                    lambda rows: neighbors_of(process, version.contents, rows),
                    process.decompose_exactly,
                    process.labels,
                )
                found = explainer.explain(typed, range(typed.height), label=label)
            return {**explanations_json(found, process.schema.target), "notes": notes}, version.digest

    @contextmanager
    def _failures(self, process: BoxedPredictor, version: Version) -> Generator[None]:
        """Log failures of the models, and answer without the path of the file.

        Raises:
            RequestError: the models failed.
        """
        try:
            with spelled_in_addresses():
                yield
        except BundleError as error:
            self._log(f"{self.name}: {self._renamed(error, version.copy)}")
            if not process.is_running:
                raise busy(
                    f"The request ended the model process of {self.name!r}, which is being restarted. Send fewer rows or "
                    "shorter texts at once."
                ) from None
            raise busy(str(error).replace(str(version.copy), repr(self.name))) from None

    @contextmanager
    def _process(self) -> Generator[tuple[BoxedPredictor, Version]]:
        while True:
            with self._lock:
                version = self._version
                if not any(process.is_running for process in version.processes):
                    raise busy(f"The models of {self.name!r} are being restarted. Try again in a few seconds.")
            with suppress(queue.Empty):
                process = version.idle.get(timeout=POLL_SECONDS)
                # One that has ended while it was idle is left to `check`.
                if process.is_running:
                    break
        try:
            yield process, version
        finally:
            with self._lock:
                if version.is_retired:
                    process.close()
                elif process.is_running:
                    version.idle.put(process)

    def check(self) -> None:
        """Load the file if it was replaced, and restart model processes that have ended. Only one thread may call it."""
        self._reload_if_replaced()
        self._restart_ended()

    def close(self) -> None:
        """End the model processes, also those that are predicting."""
        self._retire(self._version)
        for process in self._version.processes:
            process.kill()

    def _signature(self) -> Signature | None:
        """Facts that change when the file is replaced or written; None without the file. It is not opened."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _load(self) -> Version:
        """Load the file completely, including the predictions for its sample.

        Raises:
            TabappError: the file cannot be read, is not a bundle, is not trusted, or does not predict what it should.
        """
        copy = self._folder / f"{time.monotonic_ns()}.tabapp"
        try:
            files.copy_regular(self.path, copy, most_bytes=chosen_limit() or MAX_BYTES)
            with copy.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if self._target is not None:
                self._keep_target(copy, self._target)
            loaded = load_boxed(copy, trust=self._trust, device=self._device)
            version = Version(
                loaded.contents,
                digest,
                copy,
                DriftMonitor(loaded.contents.schema, window=WINDOW_ROWS),
                loaded.reference_rows(),
            )
            self._add(version, loaded.predictor)
            for _ in range(self._n_processes - 1):
                self._add(version, load_boxed(copy, trust=self._trust, device=self._device).predictor)
        except OSError as error:
            copy.unlink(missing_ok=True)
            reason = (error.strerror or "unknown").removeprefix("It is ")
            raise BundleError(f"{self.path} cannot be read ({reason}). Check the path.") from None
        except TabappError as error:
            copy.unlink(missing_ok=True)
            raise self._renamed(error, copy) from None
        return version

    def _keep_target(self, copy: Path, target: str) -> None:
        """Replace the copy of a file with several targets by the verified bundle of one."""
        one = copy.with_suffix(".one")
        with target_files(copy, trust=self._file_trust) as found:
            shutil.copyfile(file_of(found, target, self.path).path, one)
        one.replace(copy)

    def _renamed(self, error: TabappError, copy: Path) -> TabappError:
        """The error with the path of the file in place of that of its copy."""
        return type(error)(str(error).replace(str(copy), str(self.path)))

    def _add(self, version: Version, predictor: Predictor) -> None:
        assert isinstance(predictor, BoxedPredictor)
        version.processes.append(predictor)
        version.idle.put(predictor)

    def _reload_if_replaced(self) -> None:
        signature = self._signature()
        if signature is None or signature == self._seen:
            self._pending = None
            return
        if signature != self._pending:
            # Somebody may still be writing it: wait until it stays the same.
            self._pending = signature
            return
        self._seen, self._pending = signature, None
        try:
            version = self._load()
        except TabappError as error:
            self.counts["refused"] += 1
            self._refused = f"The new file was refused: {error}"
            self._log(f"{self.name}: the replaced file is refused, and the loaded version stays. {error}")
            return
        old = self._version
        with self._lock:
            self._version = version
            self._refused = self._failed = ""
        self.counts["reloaded"] += 1
        self._retire(old)
        changed = "" if _columns(old) == _columns(version) else " Its columns, target or classes differ from before."
        self._log(f"{self.name}: loaded the replaced file {self.path}.{changed}")

    def _restart_ended(self) -> None:
        version = self._version
        with self._lock:
            ended = [process for process in version.processes if not process.is_running]
        if not ended or time.monotonic() < self._next_attempt:
            return
        try:
            predictor = load_boxed(version.copy, trust=self._trust, device=self._device).predictor
        except TabappError as raised:
            error = self._renamed(raised, version.copy)
            self._pause = min(max(2 * self._pause, POLL_SECONDS), LONGEST_PAUSE)
            self._next_attempt = time.monotonic() + self._pause
            self._failed = f"The models cannot be restarted: {error}"
            self._log(f"{self.name}: the models cannot be restarted; next attempt in {self._pause:.0f} s. {error}")
            return
        self._pause, self._failed = 0.0, ""
        self.counts["restarted"] += 1
        with self._lock:
            version.processes.remove(ended[0])
            ended[0].close()
            self._add(version, predictor)
        self._log(f"{self.name}: a model process ended and was restarted.")

    def _retire(self, version: Version) -> None:
        """End the idle processes of a version; busy ones end with their request."""
        with self._lock:
            version.is_retired = True
            with suppress(queue.Empty):
                while True:
                    version.idle.get_nowait().close()
        version.copy.unlink(missing_ok=True)


def _columns(version: Version) -> tuple[object, ...]:
    schema = version.contents.schema
    return schema.target, schema.task, schema.classes, {(column.name, column.kind) for column in schema.features}


class Bundles:
    """All bundles of a server, and the thread that watches them. A context manager, which ends their processes.

    Args:
        paths: the bundles by name; the first is the default.

    Raises:
        TabappError: one of them does not load.
    """

    def __init__(
        self, paths: dict[str, Path], *, n_processes: int, trust: Path | None, device: str = "cpu", log: Log
    ) -> None:
        self._stop = threading.Event()
        self._folder = TemporaryFolder("serve")
        self._by_name: dict[str, ServedBundle] = {}
        self._by_file: dict[str, list[ServedBundle]] = {}
        self._log = log
        try:
            for name, path in paths.items():
                for target, own in _served_names(name, path, trust).items():
                    folder = Path(self._folder.name) / str(len(self._by_name))
                    folder.mkdir()
                    self._by_name[own] = ServedBundle(
                        own,
                        path,
                        folder,
                        n_processes=n_processes,
                        trust=trust,
                        device=device,
                        log=log,
                        target=target,
                    )
                    self._by_file.setdefault(name, []).append(self._by_name[own])
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self._watch, name="bundles", daemon=True)
        self._thread.start()

    def __iter__(self) -> Generator[ServedBundle]:
        yield from self._by_name.values()

    def get(self, name: str | None) -> ServedBundle | None:
        """The bundle of a name; the first one without a name."""
        return next(iter(self)) if name is None else self._by_name.get(name)

    def of_file(self, name: str | None) -> list[ServedBundle]:
        """The bundles that predict together: those of all targets of a file, or the one of a name; the first file without a name.
        Empty if there is no such name."""
        if name is None:
            return next(iter(self._by_file.values()))
        if name in self._by_name:
            return [self._by_name[name]]
        return self._by_file.get(name, [])

    @property
    def with_targets(self) -> dict[str, list[ServedBundle]]:
        """The bundles of each file with several targets, by the name of the file."""
        return {name: served for name, served in self._by_file.items() if served[0].name != name}

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            for bundle in self:
                try:
                    bundle.check()
                except Exception as error:
                    # The thread must survive whatever one file causes.
                    self._log(f"{bundle.name}: cannot be checked ({type(error).__name__}: {error}).")

    def close(self) -> None:
        """End all model processes and remove the copies."""
        self._stop.set()
        for bundle in self:
            bundle.close()
        self._folder.cleanup()


def _served_names(name: str, path: Path, trust: Path | None) -> dict[str | None, str]:
    """The names in addresses by target: NAME for a bundle of one target, NAME.TARGET for each of several.

    Raises:
        BundleError: the file is not a bundle, or is not trusted.
    """
    if not path.is_file():
        # Loading reports it.
        return {None: name}
    with target_files(path, trust=trust) as found:
        return {
            each.target: name if each.target is None else f"{name}.{each.target.replace('/', '_')}" for each in found
        }
