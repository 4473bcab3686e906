"""The process that loads the models of a bundle and predicts, without the rights of the user.

`python -m tabapp.bundle.confined.box_child` restricts itself before it reads the bundle. `tabapp.bundle.confined.box` starts it and
trusts nothing that it answers.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tabapp import protections
from tabapp.bundle.confined import sandbox
from tabapp.bundle.confined.call_filter import restrict_calls

if TYPE_CHECKING:
    from tabapp.bundle.confined.box_messages import Decompose, FindNeighbors, Impute, Load, Prepare, Reply
    from tabapp.bundle.prediction.local import LocalPredictor

CPU = "cpu"
MESSAGE_LENGTH = 500
"""Longest error message in characters."""
PROGRESS_SECONDS = 0.05
"""Least time between two reports of progress."""


class _Server:
    """Answers requests until their pipe closes."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO, held: list[str], device: str) -> None:
        self._requests = requests
        self._replies = replies
        self._protections = held
        self._predictor: LocalPredictor | None = None
        self._where = "the bundle"
        self._device = device
        self._no_device = ""

    def serve(self) -> None:
        try:
            import msgspec

            from tabapp.bundle.confined import box_messages as messages
            from tabapp.errors import DataError, TabappError, UsageError
        except ImportError:
            # The program that started this process says so; nothing has been read from the bundle. `sys.exit` would close the
            # pipes first, which the thread that waits for the end of the program takes for that end.
            os._exit(sandbox.NO_PACKAGES)

        with suppress(Exception):
            # While the program verifies the bundle. If it fails, the first request imports it again and reports why.
            importlib.import_module("tabapp.bundle.prediction.local")
        decoder = msgspec.msgpack.Decoder(messages.AnyRequest)
        while length := self._requests.read(messages.LENGTH_BYTES):
            request: messages.AnyRequest = decoder.decode(self._requests.read(int.from_bytes(length, "little")))
            kind = "bundle"
            try:
                match request:
                    case messages.Prepare():
                        self._prepare(request)
                        continue
                    case messages.Load():
                        reply = self._load_models(request)
                    case messages.Predict():
                        reply = self._predict(request.rows)
                    case messages.Decompose():
                        reply = self._decompose(request)
                    case messages.FindNeighbors():
                        reply = self._neighbors(request)
                    case messages.Impute():
                        reply = self._impute(request)
            except TabappError as error:
                kind = "data" if isinstance(error, DataError) else "usage" if isinstance(error, UsageError) else kind
                reply = messages.Failed(kind, str(error)[:MESSAGE_LENGTH])
            except MemoryError:
                reply = messages.Failed(kind, f"{self._where}: its models need more memory than they may use.")
            except Exception as error:
                first = (str(error).splitlines() or [""])[0][:160]
                reason = f"{type(error).__name__}: {first}"
                reply = messages.Failed(kind, f"{self._where}: its models do not predict ({reason}).")
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        from tabapp.bundle.confined.box_messages import encode

        self._replies.write(encode(reply))
        self._replies.flush()

    def _prepare(self, request: Prepare) -> None:
        """Import everything that loading and predicting need, while the process may still start and write."""
        from tabapp.models.lean_imports import import_for_prediction

        plugins = import_for_prediction(request.models, with_texts=request.with_texts)
        if self._device != CPU and any(plugin.uses_device for plugin in plugins):
            self._open_device()

    def _open_device(self) -> None:
        """Start to use the GPU, which opens its files for writing; that is denied before the bundle is read."""
        from tabapp.errors import UsageError
        from tabapp.models.devices import existing_gpu

        try:
            self._device = existing_gpu(self._device)
        except UsageError as error:
            # Loading reports it.
            self._no_device = str(error)
            return
        import torch

        # A product also opens the library of matrix products.
        ones = torch.ones(2, 2, device=self._device)
        (ones @ ones).sum().item()

    def _load_models(self, request: Load) -> Reply:
        from tabapp.bundle.confined import box_limits as limits
        from tabapp.bundle.confined.box_messages import Loading, Ready
        from tabapp.bundle.files.records import WEIGHTS
        from tabapp.bundle.prediction.local import load_predictor
        from tabapp.errors import UsageError
        from tabapp.weights.store import also_in

        self._where = request.where
        if self._no_device:
            raise UsageError(self._no_device)
        folder = Path(request.folder)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        size += sum(record.n_bytes for record in request.weights)
        sandbox.limit_resources(
            memory=limits.load_memory(size), cpu_seconds=limits.cpu_seconds(limits.load_seconds(size))
        )
        self._protections.append(protections.LIMITS)
        if restrict_calls(for_gpu=self._device != CPU):
            self._protections.append(protections.CALLS)

        def folder_of(member: str) -> Path:
            self._answer(Loading(member))
            return folder / member

        with also_in(folder / WEIGHTS):
            self._predictor = load_predictor(
                request.schema, request.ensemble, folder_of, request.where, device=self._device
            )
        if sys.platform != "linux":
            # The program cannot change the limits of this process for each request. It still measures and ends it.
            sandbox.limit_resources(memory=None, cpu_seconds=None)
        return Ready(tuple(self._protections))

    def _predict(self, rows: bytes) -> Reply:
        import numpy as np
        import polars as pl

        from tabapp.bundle.confined.box_messages import Progress, Values

        assert self._predictor is not None
        batch = pl.read_ipc_stream(BytesIO(rows))
        last = time.monotonic()

        def report(share: float) -> None:
            # A message wakes the program, which takes longer than a small model does to predict a row.
            nonlocal last
            if share < 1 and time.monotonic() - last >= PROGRESS_SECONDS:
                self._answer(Progress(share))
                last = time.monotonic()

        found = self._predictor.predict_batch(batch, report)
        return Values(np.ascontiguousarray(found, dtype="<f8").tobytes())

    def _decompose(self, request: Decompose) -> Reply:
        import polars as pl

        from tabapp.bundle.confined.box_messages import Decomposed

        assert self._predictor is not None
        batch = pl.read_ipc_stream(BytesIO(request.rows))
        reference = None if request.reference is None else pl.read_ipc_stream(BytesIO(request.reference))
        found = self._predictor.decompose(batch, request.model, request.code, reference)
        if found is None:
            return Decomposed(0.0, "target", {})
        return Decomposed(
            found.base,
            found.unit,
            {name: values.tolist() for name, values in found.columns.items()},
            "TreeSHAP" if found.method == "TreeSHAP" else "integrated gradients",
            found.errors.tolist(),
        )

    def _neighbors(self, request: FindNeighbors) -> Reply:
        import polars as pl

        from tabapp.bundle.confined.box_messages import Neighbors

        assert self._predictor is not None
        batch = pl.read_ipc_stream(BytesIO(request.rows))
        found = self._predictor.neighbors(batch, request.models)
        return Neighbors(
            {model: each.index.tolist() for model, each in found.items()},
            {model: each.weight.tolist() for model, each in found.items()},
        )

    def _impute(self, request: Impute) -> Reply:
        import polars as pl

        from tabapp.bundle.confined.box_messages import Cells
        from tabapp.bundle.prediction.impute import impute, imputers_of

        assert self._predictor is not None
        imputers = imputers_of(self._predictor)
        frame = pl.read_ipc_stream(BytesIO(request.rows))
        done = impute(
            frame,
            self._predictor.schema,
            imputers,
            as_numbers=request.as_numbers,
            with_uncertainty=request.with_uncertainty,
            strict=request.strict,
            decimal=request.decimal,
        )
        changed = {
            name: done.frame[name].to_list()
            for name in done.frame.columns
            if name in done.filled or name not in frame.columns or done.frame[name].dtype != frame[name].dtype
        }
        return Cells(changed, done.filled, done.left, done.notes)


def _end_with_the_program(requests: BinaryIO) -> None:
    """End this process when the program that started it has ended, even in the middle of a request."""
    import select

    poll = select.poll()
    poll.register(requests.fileno(), 0)  # reports only that the other end is closed

    def watch() -> None:
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> None:
    """Serve requests on stdin and answer on stdout.

    Args:
        arguments: the folder for the unpacked bundle, a folder for temporary files, and the device of the networks.
    """
    from tabapp.plugin_files import plugin_folder
    from tabapp.weights.place import folder as weights_folder

    unpacked, scratch, device = Path(arguments[0]), Path(arguments[1]), arguments[2]
    # Libraries that print must not write between the answers.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    held = [protections.NO_DUMPS]
    sandbox.limit_resources(memory=None, cpu_seconds=None, file_bytes=2**20)
    readable = [*sandbox.paths_of_libraries(for_gpu=device != CPU), plugin_folder(), weights_folder(), unpacked]
    if sandbox.restrict_files(readable, [scratch], () if device == CPU else sandbox.gpu_devices()):
        held.append(protections.FILES)
    _end_with_the_program(requests)
    _Server(requests, replies, held, device).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
