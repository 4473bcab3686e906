"""The explainer process of a screen: `python -m tabapp.processes.explainer BUNDLE DATA [--fill] [--trust KEY] [--training FILE]`.

It reads the file and loads the bundle once, then answers on stdout the requests of `tabapp.run.protocol.row_requests` that
arrive on stdin. Of several waiting requests of one kind only the last is answered in full; the others get the reply `stale`. It
exits when stdin ends.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tabapp.errors import ExitCode, TabappError, UsageError
from tabapp.run.protocol import row_requests as messages

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.prediction.load import LoadedBundle
    from tabapp.bundle.prediction.predict import Float64
    from tabapp.explain.rows import Explainer, NeighborLike
    from tabapp.explain.what_if import Goal

REPLACEABLE = (messages.ExplainRow, messages.DrawCurve)


class RowExplainer:
    """Explains the rows of one file.

    Args:
        loaded: the bundle.
        text: the file as text.
        fill: treat absent and mistyped columns as missing.
        decimal: as in `NewRows`.
        training: the training file, which has the values of the rows that answers rest on.

    Raises:
        DataError: feature columns are absent or mistyped.
    """

    def __init__(
        self,
        loaded: LoadedBundle,
        text: pl.DataFrame,
        *,
        fill: bool,
        decimal: str | None = None,
        training: Path | None = None,
    ) -> None:
        from tabapp.data.new_rows.rows import NewRows

        self._loaded = loaded
        self._predictor = loaded.predictor
        self._text = text
        self._rows = NewRows(loaded.predictor.schema, text.columns, fill=fill, decimal=decimal)
        self._rows.add(text)
        # The screen that opens the rows shows the notes.
        self._rows.notes()
        self._schema = self._rows.schema
        self._reference = loaded.reference_rows()
        self._explainer: Explainer | None = None
        self._training_file = training
        self._training: pl.DataFrame | None = None

    def answer(self, request: messages.AnyRequest) -> messages.AnyReply:
        """Answer a request.

        Raises:
            TabappError: a sentence for the user.
        """
        if not 0 <= request.row < self._text.height:
            raise UsageError(f"There is no row {request.row:,}.")
        cells = self._cells(request)
        row = self._typed(cells)
        match request:
            case messages.PredictRow():
                return self._predicted(row)
            case messages.ExplainRow():
                return self._explained(request, row, cells)
            case messages.DrawCurve():
                return self._curve(request, row, cells)
            case messages.FindChanges():
                return self._changes(request, row)

    def _cells(self, request: messages.AnyRequest) -> dict[str, str | None]:
        """The cells of the features of a row, with the changes of a request."""
        import polars as pl

        from tabapp.explain.what_if import changed_rows

        own = self._text.row(request.row, named=True)
        cells = {column.name: own.get(column.name) for column in self._schema.inputs}
        frame = pl.DataFrame({name: pl.Series([cell], dtype=pl.String) for name, cell in cells.items()})
        return changed_rows(frame, range(1), request.values, self._schema)[0].row(0, named=True)

    def _typed(self, cells: dict[str, str | None]) -> pl.DataFrame:
        import polars as pl

        frame = pl.DataFrame({name: pl.Series([cell], dtype=pl.String) for name, cell in cells.items()})
        return self._rows.typed(frame)

    def _predicted(self, row: pl.DataFrame) -> messages.RowPredicted:
        predicted = self._predictor.predict_typed(row)[0]
        classes = self._schema.classes
        if classes:
            probabilities = dict(zip(classes, predicted.tolist(), strict=True))
            code = int(self._predictor.labels(predicted[None])[0])
            threshold = self._predictor.ensemble.threshold
            return messages.RowPredicted(
                prediction=classes[code],
                probabilities=probabilities,
                positive="" if threshold is None else classes[1],
                threshold=threshold,
            )
        low = high = None
        if self._predictor.ensemble.residual_quantile is not None:
            low, high = (float(end[0]) for end in self._predictor.interval(predicted[None]))
        return messages.RowPredicted(
            prediction=f"{predicted:.6g}",
            probabilities={},
            low=low,
            high=high,
        )

    def _explained(
        self, request: messages.ExplainRow, row: pl.DataFrame, cells: dict[str, str | None]
    ) -> messages.RowExplained:
        from tabapp.explain.rows import Explainer

        if self._explainer is None:
            self._explainer = Explainer(
                self._predictor.predict_typed,
                self._schema,
                self._reference,
                self._loaded.neighbors,
                self._predictor.decompose_exactly,
                self._predictor.labels,
            )
        found = self._explainer.explain(row, [request.row], label=request.label)
        (each,) = found.rows
        return messages.RowExplained(
            label=found.label,
            prediction=each.prediction if isinstance(each.prediction, str) else f"{each.prediction:.6g}",
            base=found.base,
            output=each.output,
            cells=cells,
            contributions=each.contributions,
            errors=each.errors,
            neighbors=[
                messages.NeighborRow(
                    row=near.row, weight=near.weight, target=_number_text(near.target), cells=self._training_cells(near)
                )
                for near in each.neighbors
            ],
        )

    def _training_cells(self, neighbor: NeighborLike) -> dict[str, str | None]:
        """The values of a training row; empty without its file, which is read for the first of them."""
        from tabapp.data.reading.read import read_table
        from tabapp.explain.training_rows import training_cells

        if self._training is None and self._training_file is not None:
            try:
                self._training = read_table(self._training_file).frame
            except (TabappError, OSError):
                self._training_file = None
        return {} if self._training is None else training_cells(neighbor, self._training, self._schema) or {}

    def _curve(
        self, request: messages.DrawCurve, row: pl.DataFrame, cells: dict[str, str | None]
    ) -> messages.CurveDrawn:
        from tabapp.explain.what_if import curve

        classes = self._schema.classes
        code = 0
        if classes:
            known = request.label in classes
            code = classes.index(request.label or "") if known else int(self._predictor.labels(self._predict(row))[0])
        column = self._schema.column(request.column)
        found = curve(self._predict, row, column, self._reference[request.column], code, self._schema.companions)
        return messages.CurveDrawn(
            column=request.column,
            label=classes[code] if classes else None,
            places=found.places if found else (),
            labels=found.labels if found else (),
            outputs=found.outputs if found else (),
            current=cells[request.column],
        )

    def _changes(self, request: messages.FindChanges, row: pl.DataFrame) -> messages.ChangesFound:
        from tabapp.explain.what_if import counterfactuals

        goal = self._goal(request.goal, self._predict(row))
        if float(goal.score(self._predict(row))[0]) >= 0:
            return messages.ChangesFound(changes=(), note="The row reaches this already.")
        found = counterfactuals(self._predict, self._schema, row, self._reference, goal, fixed=request.fixed)
        classes = self._schema.classes
        changes = [
            messages.FoundChange(
                values=each.values,
                prediction=classes[goal.code] if goal.code is not None else f"{each.predicted[0]:.6g}",
                output=each.predicted[goal.code or 0],
            )
            for each in found
        ]
        note = "" if changes else "No change of up to three free columns to plausible values reaches it."
        return messages.ChangesFound(changes=changes, note=note)

    def _goal(self, text: str, predicted: Float64) -> Goal:
        from tabapp.explain.what_if import Goal

        classes = self._schema.classes
        if classes:
            if text not in classes:
                raise UsageError(f"There is no class {text!r}; use one of {', '.join(classes[:10])}.")
            return Goal(code=classes.index(text), threshold=self._predictor.ensemble.threshold)
        try:
            number = float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number.") from None
        return Goal(number=number, above=number >= float(predicted[0]))

    def _predict(self, typed: pl.DataFrame) -> Float64:
        return self._predictor.predict_typed(typed)


def _number_text(target: str | float) -> str:
    return target if isinstance(target, str) else f"{target:.6g}"


def _load(bundle: Path, data: Path, *, fill: bool, trust: Path | None, training: Path | None) -> RowExplainer:
    from tabapp.bundle.confined.box import Box
    from tabapp.data.reading.read import ReadOptions, read_table

    with Box(bundle, trust=trust) as box:
        read = read_table(data, ReadOptions(), allow_no_rows=True, columns=box.contents.schema.columns)
        return RowExplainer(box.load(), read.frame, fill=fill, decimal=read.decimal, training=training)


def _serve(explainer: RowExplainer, lines: queue.Queue[bytes]) -> None:
    """Answer requests until the process ends."""
    while True:
        requests = _requests([lines.get(), *_waiting(lines)])
        for index, request in enumerate(requests):
            later = [*requests[index + 1 :], *_requests(_waiting(lines))]
            requests[index + 1 :] = later
            if isinstance(request, REPLACEABLE) and any(type(each) is type(request) for each in later):
                _answer(request.id, messages.Stale())
                continue
            try:
                _answer(request.id, explainer.answer(request))
            except TabappError as error:
                _answer(request.id, messages.Failed(message=str(error)))


def _waiting(lines: queue.Queue[bytes]) -> list[bytes]:
    found: list[bytes] = []
    while not lines.empty():
        found.append(lines.get())
    return found


def _requests(lines: Sequence[bytes]) -> list[messages.AnyRequest]:
    return [messages.REQUESTS.decode(line) for line in lines]


def _answer(request_id: int, reply: messages.AnyReply) -> None:
    sys.stdout.buffer.write(messages.REPLIES.encode(msgspec.structs.replace(reply, id=request_id)))
    sys.stdout.buffer.flush()


def main(arguments: Sequence[str]) -> int:
    """Serve requests on stdin. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tabapp.processes.explainer", description="Explains rows over stdin and stdout."
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--fill", action="store_true", help="treat absent and mistyped columns as missing")
    parser.add_argument("--trust", type=Path, help="file of the public key that must have signed the bundle")
    parser.add_argument("--training", type=Path, help="file that the models were trained on")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(ExitCode.OK)

    threading.Thread(target=listen, daemon=True).start()
    try:
        options = parser.parse_args(arguments)
        explainer = _load(
            options.bundle, options.data, fill=options.fill, trust=options.trust, training=options.training
        )
    except TabappError as error:
        _answer(0, messages.Failed(message=str(error), fatal=True))
        return error.exit_code
    _serve(explainer, lines)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
