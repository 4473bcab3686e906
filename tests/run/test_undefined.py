"""Undefined numbers in messages: every struct with a number is read again when the number is NaN."""

from __future__ import annotations

import json
import math
import typing
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from tabapp.engine.fit import jobs
from tabapp.run.protocol import comparing, exporting
from tabapp.run.protocol import row_requests as rows
from tabapp.run.record import commands
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.state import FinishedFit, RunState, format_score
from tabapp.run.record.undefined import Decoder, defined


def filled(kind: inspect.Type) -> Any:
    """JSON of a type in which every number that may be fractional is undefined."""
    match kind:
        case inspect.Metadata():
            return filled(kind.type)
        case inspect.FloatType() | inspect.NoneType():
            return None
        case inspect.UnionType():
            may_be_null = any(isinstance(each, inspect.FloatType | inspect.NoneType) for each in kind.types)
            return None if may_be_null else filled(kind.types[0])
        case inspect.StructType():
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            return tag | {field.encode_name: filled(field.type) for field in kind.fields}
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            return [filled(kind.item_type)]
        case inspect.TupleType():
            return [filled(item) for item in kind.item_types]
        case inspect.DictType():
            return {"x": filled(kind.value_type)}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.IntType():
            return 1
        case inspect.BoolType():
            return True
        case _:
            return "x"


def has_number(kind: Any) -> bool:
    return "FloatType" in repr(inspect.type_info(kind))


def union_members(union: Any) -> list[type]:
    return list(typing.get_args(union)) or [union]


UNIONS = {
    "event": ev.AnyEvent,
    "message of a fit": jobs.Message,
    "command": commands.AnyCommand,
    "message of an export": exporting.AnyExportMessage,
    "reply about a row": rows.AnyReply,
    "result of a fit": jobs.FitResult,
    "comparison": comparing.Comparison,
}
KINDS = [(union, kind) for union in UNIONS.values() for kind in union_members(union) if has_number(kind)]


@pytest.mark.parametrize(("union", "kind"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_message_with_undefined_numbers_is_read_as_it_was_written(union: Any, kind: type) -> None:
    content = json.dumps(filled(inspect.type_info(kind))).encode()
    found = Decoder[Any](union).decode(content)
    assert type(found) is kind
    again = Decoder[Any](union).decode(msgspec.json.encode(found))
    assert repr(again) == repr(found)
    assert "nan" in repr(found) or "None" in repr(found)
    assert "NaN" not in msgspec.json.encode(found).decode()


def test_an_undefined_number_ends_neither_the_engine_nor_a_view() -> None:
    progress = jobs.Progress(fit="a-0000-f0", step=3, value=math.nan)
    read = jobs.decode(jobs.encode(progress))
    assert isinstance(read, jobs.Progress)
    assert math.isnan(read.value)
    event = decode(encode(ev.FitFinished(fit="a-0000-f0", model="a", trial=0, fold=0, score=math.nan, seconds=1.0)))
    assert isinstance(event, ev.FitFinished)
    state = reduce(RunState(), msgspec.structs.replace(event, seq=1))
    assert state.fits["a-0000-f0"] == FinishedFit(model="a", trial=0, fold=0, score=None, seconds=1.0)
    assert state.feed[-1].text.endswith("fold 1 — in 1s")


def test_a_diverged_step_is_no_point_of_a_curve() -> None:
    fit = {"fit": "a-0000-f0", "model": "a", "trial": 0, "fold": 0}
    state = reduce(RunState(), ev.FitStarted(**fit, folds=3, pid=1, seq=1))
    for seq, value in enumerate((0.7, math.nan, math.inf, 0.6), start=2):
        read = decode(encode(ev.FitProgress(**fit, step=seq, value=value, seq=seq)))
        assert read is not None
        state = reduce(state, read)
    assert state.active["a-0000-f0"].curve == ((2, 0.7), (5, 0.6))


@pytest.mark.parametrize(
    "damage",
    [
        '{"ev":"fit.finished"}',
        '{"ev":"log","level":null,"message":""}',
        '{"ev":"fit.progress","fit":null}',
    ],
)
def test_null_stays_an_error_where_no_number_is_expected(damage: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        Decoder[Any](ev.AnyEvent).decode(damage)


def test_an_undefined_score_is_a_dash() -> None:
    assert [format_score(value) for value in (None, math.nan, 0.5)] == ["—", "—", "0.5000"]
    assert defined(math.nan) is None
    assert defined(0.5) == 0.5


def test_the_events_are_described_once_for_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Any] = []
    type_info = inspect.type_info
    monkeypatch.setattr(inspect, "type_info", lambda kind: (described.append(kind), type_info(kind))[1])
    decoder = Decoder(ev.StageChanged | ev.Log)
    for _ in range(3):
        with pytest.raises(msgspec.ValidationError):
            decoder.decode(b'{"ev":"of a later version","seq":1,"t":1.0}')
    assert len(described) == 1
