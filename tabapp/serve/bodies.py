"""Request bodies as tables of text, and predictions as response bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tabapp.bundle.files.targets import prefixed
from tabapp.data.columns import as_in_training, renamed_as_in_training
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.limits import MemoryLimit
from tabapp.data.reading.columnar import StoredSize, count_rows, read_columnar, require_text
from tabapp.data.reading.read import ReadOptions, read_text
from tabapp.data.schema import Column, Schema
from tabapp.data.stored import spelled_number
from tabapp.errors import DataError, TooLargeError
from tabapp.printable import escape_json
from tabapp.serve.limits import Limits, RequestError
from tabapp.warning_text import sentences

JSON = "application/json"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.file"
PARQUET = "application/vnd.apache.parquet"
FORMATS = (JSON, CSV, ARROW, PARQUET)

TEXT_COPIES = 8
"""Bytes of memory per byte of text, from the body to the answer: read, sent to the server, parsed, and sent to the models."""
SHORT_JSON = 2**20
"""Longest JSON that is decoded in the server. It needs at most 32 times its size."""

_WHERE = "The body"
_NAMED = 5
_LONGEST_HEADER = 4_000
_MOST_DIGITS = 400
_BYTES_OF_CELL = 64


class _Rows(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON request."""

    rows: list[dict[str, Any]]


class _Fraction(str):
    """A JSON number with a fraction or an exponent, as it is written: cells of a CSV file keep their digits, too."""


_ROWS = msgspec.json.Decoder(_Rows, float_hook=_Fraction)


@dataclass(frozen=True)
class Body:
    """A table of text as `tabapp.data.reading.read` gives it, and sentences about repairs."""

    frame: pl.DataFrame
    notes: tuple[str, ...] = ()


def media_type(header: str | None) -> str:
    """The format of a request body by its Content-Type.

    Raises:
        RequestError: the format is not known.
    """
    name = (header or JSON).partition(";")[0].strip().lower()
    if name not in FORMATS:
        raise RequestError(
            415, f"Content-Type {name!r} is not supported. Use one of {', '.join(FORMATS)}.", closes=True
        )
    return name


def accepted_type(header: str | None, sent: str) -> str:
    """The format of the answer: the first known one of the Accept header; without a preference, that of the request.

    Raises:
        RequestError: the client accepts none of the formats.
    """
    names = [part.partition(";")[0].strip().lower() for part in (header or "*/*").split(",")]
    for name in names:
        if name in FORMATS:
            return name
        if name in ("*/*", "application/*") or (name == "text/*" and sent == CSV):
            return sent
    raise RequestError(
        406, f"None of the formats in Accept is supported. Use one of {', '.join(FORMATS)}.", closes=True
    )


def is_short(content: bytes, kind: str) -> bool:
    """Whether a body is decoded in the server."""
    return kind == JSON and len(content) <= SHORT_JSON


def decode_file(path: Path, kind: str, schema: Schema, limits: Limits) -> Body:
    """Decode a body in a file.

    Raises:
        RequestError: the body is not valid, or is too large.
    """
    try:
        if kind == JSON:
            return decode_json(path.read_bytes(), schema, limits)
        return _decode_csv(path, schema, limits) if kind == CSV else _decode_columnar(path, kind, schema, limits)
    except DataError as error:
        status = 413 if isinstance(error, TooLargeError) else 422
        raise RequestError(status, str(error).replace(str(path), _WHERE)) from None
    except MemoryError:
        raise too_large() from None


def too_large() -> RequestError:
    """The error of a body whose size only shows when it is read."""
    return RequestError(
        413, "The body needs more memory than reading one request may use. Send fewer rows or shorter texts."
    )


def _check_rows(n_rows: int, limits: Limits) -> None:
    if n_rows > limits.max_rows:
        raise RequestError(
            413, f"The body has {n_rows:,} rows; at most {limits.max_rows:,} are accepted. Send several requests."
        )


def _decode_csv(path: Path, schema: Schema, limits: Limits) -> Body:
    memory = MemoryLimit(path, limits.max_memory, TEXT_COPIES)
    reading = read_text(path.read_bytes(), path, ReadOptions(), memory, allow_no_rows=True, columns=schema.columns)
    _check_rows(reading.frame.height, limits)
    require_text(reading.frame, memory, StoredSize(0, 0))
    frame, renamed = renamed_as_in_training(reading.frame, schema.columns)
    return Body(frame, tuple(sentences((*reading.warnings, *renamed))))


def _decode_columnar(path: Path, kind: str, schema: Schema, limits: Limits) -> Body:
    memory = MemoryLimit(path, limits.max_memory, TEXT_COPIES)
    file_kind = "arrow" if kind == ARROW else "parquet"
    _check_rows(count_rows(path, file_kind), limits)
    found = read_columnar(path, file_kind, memory, allow_no_rows=True, columns=schema.columns)
    _check_rows(found.frame.height, limits)
    return Body(found.frame, tuple(sentences(found.warnings)))


def decode_json(content: bytes, schema: Schema, limits: Limits) -> Body:
    """Decode rows of JSON.

    Raises:
        RequestError: the body is not valid, or is too large.
    """
    try:
        rows = _ROWS.decode(content).rows
    except msgspec.ValidationError as error:
        raise RequestError(
            422, f'The body is not of the form {{"rows": [{{COLUMN: value, …}}, …]}}: {str(error).rstrip(".")}.'
        ) from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RequestError(400, f"The body is not valid JSON: {str(error).rstrip('.')}.") from None
    _check_rows(len(rows), limits)
    known = {column.name: column for column in schema.columns_of_file}
    ignored = {name for name, column in known.items() if column.role == "ignore"}
    names: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for row in rows:
        for name in row:
            if name not in ignored:
                (names if name in known else unknown)[name] = None
    if not rows:
        names = dict.fromkeys(column.name for column in schema.inputs)
    # Columns that one row names are cells of all rows.
    if _BYTES_OF_CELL * len(rows) * len(names) > limits.max_memory:
        raise too_large()
    same = as_in_training([*names, *unknown], schema.columns)
    columns = [pl.Series(name, _cells(rows, name, known[name]), dtype=pl.String) for name in names]
    columns += [pl.Series(name, _cells(rows, name, known[same[name]]), dtype=pl.String) for name in same]
    # A frame without columns has no rows; an unknown column keeps their number.
    frame = pl.DataFrame(columns or [pl.Series(_free_name(known), [None] * len(rows), dtype=pl.String)])
    frame, renamed = renamed_as_in_training(frame, schema.columns)
    notes = tuple(sentences(renamed))
    unknown = {name: None for name in unknown if name not in same}
    if not unknown:
        return Body(frame, notes)
    shown = ", ".join(repr(name) for name in list(unknown)[:_NAMED]) + (" …" if len(unknown) > _NAMED else "")
    return Body(frame, (*notes, f"{len(unknown)} columns are unknown from training and are ignored: {shown}"))


def _free_name(known: Mapping[str, Column]) -> str:
    name = "_"
    while name in known:
        name += "_"
    return name


def _cells(rows: list[dict[str, Any]], name: str, column: Column) -> list[str | None]:
    cells: list[str | None] = []
    for number, row in enumerate(rows):
        value = row.get(name)
        if isinstance(value, bool):
            cells.append("true" if value else "false")
        elif isinstance(value, int | _Fraction):
            cells.append(_number(str(value), column))
        elif value is None or isinstance(value, str):
            cells.append(value or None)
        else:
            kind = "list" if isinstance(value, list) else "object"
            raise RequestError(
                422, f"Row {number}: {name!r} is a JSON {kind}. Send a number, a text, true, false or null."
            )
    return cells


def _number(digits: str, column: Column) -> str:
    """A JSON number as a cell of a column."""
    if column.kind != "numeric" or (column.unit not in CLOCKS and column.decimal == "."):
        return digits
    return spelled_number(_fixed(digits), column)


def _fixed(digits: str) -> str:
    """A number without an exponent; unchanged if it would have hundreds of digits."""
    if "e" not in digits and "E" not in digits:
        return digits
    try:
        number = Decimal(digits)
        return format(number, "f") if abs(number.adjusted()) < _MOST_DIGITS else digits
    except InvalidOperation:
        return digits


def encode_predictions(predictions: pl.DataFrame, kind: str, schema: Schema, notes: tuple[str, ...]) -> bytes:
    """Predictions as a response body.

    Args:
        kind: media type of the body.
        predictions: the columns of `Predictor.to_frame`, the same in every format.
        notes: sentences about the input. Only JSON has a place for them; `notes_header` is for the others.
    """
    content = BytesIO()
    if kind == CSV:
        predictions.write_csv(content)
    elif kind == ARROW:
        predictions.write_ipc(content)
    elif kind == PARQUET:
        predictions.write_parquet(content)
    else:
        return encode_json({"predictions": _as_objects(predictions, schema), "notes": list(notes)})
    return content.getvalue()


@dataclass(frozen=True)
class TargetPart:
    """Predictions of one target, as `Predictor.to_frame` gives them; `target` is None where a file has a single one."""

    target: str | None
    frame: pl.DataFrame
    schema: Schema


def encode_targets(parts: Sequence[TargetPart], kind: str, notes: tuple[str, ...]) -> bytes:
    """Predictions of several targets as a response body: in JSON, each row has an object for each target; in tables, columns start
    with the name of their target, as those of `tabapp predict`.

    Args:
        kind, notes: as for `encode_predictions`.
    """
    if kind != JSON:
        named = [part.frame.rename(lambda name, part=part: prefixed(part.target, name)) for part in parts]
        return encode_predictions(pl.concat(named, how="horizontal"), kind, parts[0].schema, notes)
    objects = [_as_objects(part.frame, part.schema) for part in parts]
    names = [part.target for part in parts]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*objects, strict=True)]
    return encode_json({"predictions": rows, "notes": list(notes)})


def notes_header(notes: Sequence[str]) -> dict[str, str]:
    """The header with sentences about the input as a JSON array in ASCII, without the last ones where it would be long; empty
    without any."""
    shown: list[str] = []
    for note in notes:
        if len(json.dumps([*shown, note])) > _LONGEST_HEADER:
            break
        shown.append(note)
    return {"X-Tabapp-Notes": json.dumps(shown)} if shown else {}


def encode_json(document: Any) -> bytes:
    """JSON without raw control and invisible characters; NaN becomes null."""
    return escape_json(msgspec.json.encode(document).decode()).encode()


def _as_objects(predictions: pl.DataFrame, schema: Schema) -> list[dict[str, Any]]:
    if not schema.classes:
        return predictions.rows(named=True)
    labels = predictions["prediction"].to_list()
    probabilities = predictions.drop("prediction").rows()
    return [
        {"prediction": label, "probabilities": dict(zip(schema.classes, row, strict=True))}
        for label, row in zip(labels, probabilities, strict=True)
    ]
