"""Loads and uses a bundle in a process of its own, which may not write, start programs or use the network.

Native libraries parse the models of a bundle, and a checksum does not prove who made it. If their process crashes, hangs or runs
out of memory, the caller gets a `BundleError`. Bundles made on this machine take the same way: a file does not prove where it was
made.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tabapp.bundle.confined import box_limits as limits
from tabapp.bundle.confined import box_messages as messages
from tabapp.bundle.confined.box_process import SMALL_REPLY, BoxProcess
from tabapp.bundle.files.archive import open_archive
from tabapp.bundle.files.contents import decode_contents
from tabapp.bundle.files.records import Ensemble
from tabapp.bundle.files.unpack import extract, temporary_folder
from tabapp.bundle.prediction.load import TOLERANCE, LoadedBundle, self_tested
from tabapp.bundle.prediction.neighbors import MOST_NEIGHBORS, is_valid
from tabapp.bundle.prediction.predict import Decomposition, Float64, Predictor
from tabapp.data.schema import Schema
from tabapp.models.contract import RowNeighbors
from tabapp.protections import warn_about

if TYPE_CHECKING:
    from tabapp.bundle.confined.early_start import EarlyProcess
    from tabapp.bundle.prediction.impute import Imputed

_BYTES_PER_NEIGHBOR = 32
_BYTES_PER_CELL = 2**10
"""Bound of the filled cells of a reply, on average."""


class BoxedPredictor(Predictor):
    """An ensemble whose models are in another process, which ends with this object. Thread-safe.

    Attributes:
        protections: the restrictions of the process that the system enforces.

    Args:
        pretrained: models of the ensemble that refer to pre-trained weights.
    """

    def __init__(
        self,
        schema: Schema,
        ensemble: Ensemble,
        process: BoxProcess,
        protections: tuple[str, ...],
        pretrained: Collection[str] = (),
    ) -> None:
        super().__init__(schema, ensemble, process.where)
        self.protections = protections
        self._process = process
        self._n_models = sum(len(candidate.folds) for candidate in ensemble.candidates)
        self._n_pretrained = sum(len(each.folds) for each in ensemble.candidates if each.model in pretrained)
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, process.close)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process can answer."""
        return self._process.is_running

    def kill(self) -> None:
        """Kill the process. A thread that waits for its answer gets the error of a process that has ended."""
        self._process.kill()

    def close(self) -> None:
        """End the process, which must not be predicting. It otherwise ends with this object."""
        self._end()

    def predict_batch(self, batch: pl.DataFrame, progress: Callable[[float], None]) -> Float64:
        n_classes = len(self.schema.classes)
        shape = (batch.height, n_classes) if n_classes else (batch.height,)
        n_bytes = 8 * batch.height * max(n_classes, 1)
        rows = _ipc(batch)
        with self._lock:
            allowed = limits.to_predict(batch.height, len(rows), self._n_models)
            self._process.start(messages.Predict(rows), limits.with_pretrained(allowed, self._n_pretrained))
            reply = self._process.answer(messages.Values, limit=SMALL_REPLY + n_bytes, progress=progress)
        if len(reply.content) != n_bytes:
            raise self._process.violation()
        progress(1.0)
        return np.frombuffer(reply.content, dtype="<f8").astype(np.float64).reshape(shape)

    def decompose(
        self, batch: pl.DataFrame, model: str, code: int, reference: pl.DataFrame | None = None
    ) -> Decomposition | None:
        names = [column.name for column in self.schema.inputs]
        rows, origin = _ipc(batch), None if reference is None else _ipc(reference)
        n_reference = 0 if reference is None else reference.height
        allowed = limits.to_explain(batch.height, n_reference, len(rows) + len(origin or b""), self._n_models)
        with self._lock:
            self._process.start(
                messages.Decompose(rows, model, code, origin), limits.with_pretrained(allowed, self._n_pretrained)
            )
            limit = SMALL_REPLY + 16 * batch.height + sum(16 * batch.height + 4 * len(name) + 16 for name in names)
            reply = self._process.answer(messages.Decomposed, limit=limit)
        if not reply.columns:
            return None
        columns = {name: np.array(values, dtype=np.float64) for name, values in reply.columns.items()}
        sizes = {len(values) for values in columns.values()}
        if list(columns) != names or sizes != {batch.height} or not np.isfinite([reply.base]).all():
            raise self._process.violation()
        errors = np.array(reply.errors, dtype=np.float64)
        if len(errors) != batch.height or not all(np.isfinite(values).all() for values in [errors, *columns.values()]):
            raise self._process.violation()
        return Decomposition(reply.base, reply.unit, columns, reply.method, errors)

    def neighbors(self, batch: pl.DataFrame, models: Mapping[str, int]) -> dict[str, RowNeighbors]:
        rows = _ipc(batch)
        allowed = limits.to_find_neighbors(batch.height, len(rows), self._n_models)
        with self._lock:
            self._process.start(
                messages.FindNeighbors(rows, dict(models)), limits.with_pretrained(allowed, self._n_pretrained)
            )
            limit = SMALL_REPLY + len(models) * batch.height * MOST_NEIGHBORS * _BYTES_PER_NEIGHBOR
            reply = self._process.answer(messages.Neighbors, limit=limit)
        if not set(reply.index) == set(reply.weight) <= set(models):
            raise self._process.violation()
        found: dict[str, RowNeighbors] = {}
        for model, index in reply.index.items():
            try:
                each = RowNeighbors(np.array(index, dtype=np.int64), np.array(reply.weight[model], dtype=np.float32))
            except (ValueError, OverflowError):
                raise self._process.violation() from None
            if not is_valid(each, batch.height, models[model]):
                raise self._process.violation()
            found[model] = each
        return found


class Box:
    """A bundle that another process loads while this one does something else, such as reading the table to predict.

    Use it as a context manager, which removes the unpacked bundle. A predictor keeps working after that.

    Args:
        path: the bundle. Its archive and checksums are verified before this returns.
        trust: file of the public key that must have signed the bundle.
        device: the device of the networks: "cpu", "cuda" or "cuda:N".
        early: has perhaps started the process.

    Raises:
        BundleError: the bundle is not valid, or is not signed by that key.
        UsageError: the key cannot be used.
    """

    def __init__(
        self, path: Path, *, trust: Path | None = None, device: str = "cpu", early: EarlyProcess | None = None
    ) -> None:
        self.path = path
        with ExitStack() as stack:
            started = None if early is None else early.take(path, device, stack)
            self._process = started or BoxProcess(str(path), stack.enter_context(temporary_folder()), device)
            stack.callback(self._end_unless_in_use)
            self._in_use = False
            self._archive = stack.enter_context(open_archive(path, trust=trust))
            self.contents = decode_contents(self._archive)
            ensemble = self.contents.ensemble
            models = tuple(dict.fromkeys(candidate.model for candidate in ensemble.candidates))
            with_texts = any(column.kind == "text" for column in self.contents.schema.features)
            self._process.start(messages.Prepare(models, with_texts), limits.IMPORT_SECONDS)
            extract(self._archive, self._process.unpacked)
            request = messages.Load(
                folder=str(self._process.unpacked),
                where=str(path),
                schema=self.contents.schema,
                ensemble=ensemble,
                weights=tuple({each.weights.name: each.weights for each in self.contents.manifest.pretrained}.values()),
            )
            self._process.start(request, limits.IMPORT_SECONDS)
            self._stack = stack.pop_all()

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _end_unless_in_use(self) -> None:
        if not self._in_use:
            self._process.close()

    def _ready(self) -> tuple[str, ...]:
        """Wait until the models are loaded; returns the protections that hold."""
        folders: dict[str, int] = {}
        for member in self.contents.manifest.members:
            parts = member.path.split("/")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                folders[folder] = folders.get(folder, 0) + member.bytes
        weights = {each.model: each.weights.n_bytes for each in self.contents.manifest.pretrained}
        for candidate in self.contents.ensemble.candidates:
            for fold in candidate.folds:
                folders[fold.model] = folders.get(fold.model, 0) + weights.get(candidate.model, 0)
        protections = self._process.answer(messages.Ready, members=folders).protections
        warn_about(protections)
        return protections

    def load(self, *, tolerance: float = TOLERANCE) -> LoadedBundle:
        """Wait until the models are loaded, and compare their predictions for the sample with the stored ones.

        Raises:
            BundleError: the models do not load, or predict differently here.
            UsageError: the device does not exist.
        """
        protections = self._ready()
        predictor = BoxedPredictor(
            self.contents.schema,
            self.contents.ensemble,
            self._process,
            protections,
            {each.model for each in self.contents.manifest.pretrained},
        )
        loaded = self_tested(self._archive, self.contents, predictor, tolerance)
        self._in_use = True
        return loaded

    def impute(
        self,
        frame: pl.DataFrame,
        *,
        as_numbers: bool,
        with_uncertainty: bool = False,
        strict: bool = False,
        decimal: str | None = None,
    ) -> Imputed:
        """Load the models as `load` does, and fill the missing cells of a table of text; see `tabapp.bundle.prediction.impute`.

        Raises:
            BundleError: the models do not load, predict differently here, or do not impute.
            DataError: columns are absent or mistyped, or the table differs from training and `strict` is set.
            UsageError: no model of the bundle imputes.
        """
        from tabapp.bundle.prediction.impute import Imputed
        from tabapp.bundle.prediction.uncertainty import uncertainty_name

        # Its process ends with the predictor.
        predictor = self.load().predictor
        n_models = sum(len(candidate.folds) for candidate in predictor.ensemble.candidates)
        rows = _ipc(frame)
        request = messages.Impute(rows, as_numbers, with_uncertainty, strict, decimal)
        self._process.start(request, limits.to_impute(frame.height, len(rows), n_models))
        limit = SMALL_REPLY + _BYTES_PER_CELL * max((1 + with_uncertainty) * frame.height * frame.width, 1)
        reply = self._process.answer(messages.Cells, limit=limit)
        doubts = {uncertainty_name(name, frame.columns) for name in frame.columns} if with_uncertainty else set[str]()
        columns: list[pl.Series] = []
        for name, cells in reply.columns.items():
            is_doubt = name in doubts
            is_text = not is_doubt and all(cell is None or isinstance(cell, str) for cell in cells)
            is_numbers = (as_numbers or is_doubt) and all(cell is None or isinstance(cell, float) for cell in cells)
            is_known = name in frame.columns or is_doubt
            if not is_known or len(cells) != frame.height or not (is_text or is_numbers):
                raise self._process.violation()
            columns.append(pl.Series(name, cells, dtype=pl.Float64 if is_numbers else pl.String))
        return Imputed(frame.with_columns(columns), reply.filled, reply.left, reply.notes)


def load_boxed(
    path: Path, *, trust: Path | None = None, device: str = "cpu", early: EarlyProcess | None = None
) -> LoadedBundle:
    """Load a bundle in a process of its own, which ends with the predictor.

    Args:
        trust: file of the public key that must have signed the bundle.
        device: the device of the networks: "cpu", "cuda" or "cuda:N".
        early: has perhaps started the process.

    Raises:
        BundleError: the bundle is not valid, is not signed by that key, does not load, or predicts differently here.
        UsageError: the key cannot be used, or the device does not exist.
    """
    with Box(path, trust=trust, device=device, early=early) as box:
        return box.load()


def _ipc(frame: pl.DataFrame) -> bytes:
    content = BytesIO()
    # Without the thread pool of polars, which would take most of the time of one row.
    frame.write_ipc_stream(content)
    return content.getvalue()
