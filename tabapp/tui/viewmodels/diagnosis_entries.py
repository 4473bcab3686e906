"""The list of the Diagnose screen: every analysis with its result, its progress, or why it is not possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from tabapp.printable import one_line
from tabapp.run.protocol.analyses import Diagnose
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Analysis, Request, all_analyses, analysis_of
from tabapp.run.record.state import RunState

Status = Literal["done", "running", "queued", "failed", "open", "impossible"]
CALIBRATION = "calibration"
A_MODEL = " a model"


class Asked(Protocol):
    """An analysis that was asked for."""

    @property
    def number(self) -> int: ...
    @property
    def request(self) -> Diagnose: ...
    @property
    def status(self) -> Literal["queued", "running", "failed"]: ...
    @property
    def trouble(self) -> str: ...


@dataclass(frozen=True)
class Entry:
    """A row of the list.

    Attributes:
        note: the result in a few words, the progress, or why the analysis is not possible.
        text: what the analysis shows, or the reason of a failure; empty with a result.
        result: the result, which stays while the analysis runs again.
        job: the number of the job in the queue of this view.
        share: of the work that is done; None if it is unknown.
    """

    key: str
    title: str
    status: Status
    note: str = ""
    text: str = ""
    request: Request | None = None
    result: ev.AnalysisEvent | None = None
    job: int | None = None
    share: float | None = None


def entries(state: RunState, asked: Sequence[Asked], *, is_busy: bool) -> list[Entry]:
    """The rows in the order of the analyses.

    Args:
        asked: the analyses that this view has asked for and that are not done.
        is_busy: another process works on the run, so that an analysis in progress that this view did not ask for is alive.
    """
    known: list[Entry] = []
    queued = [each.number for each in asked if each.status == "queued"]
    for analysis in all_analyses():
        known += _of_analysis(analysis, state, asked, queued, is_busy=is_busy)
    evaluation = state.evaluations.get(ev.ENSEMBLE)
    if evaluation is not None and evaluation.calibration:
        known.append(Entry(CALIBRATION, "Calibration", "done"))
    return known


def _of_analysis(
    analysis: Analysis[Any], state: RunState, asked: Sequence[Asked], queued: Sequence[int], *, is_busy: bool
) -> list[Entry]:
    tag = str(analysis.event.__struct_config__.tag)
    request = analysis.request
    found = {
        event.part: Entry(
            f"{tag} {event.part}", _title(event, state), "done", _headline(event, state), "", request, event
        )
        for event in state.results(analysis.event)
    }
    if request is None:
        return list(found.values()) or [_missing(analysis, tag, state)]
    for each in asked:
        if each.request.option == request.option:
            part = _part(found, each.request.value)
            own = found.get(part) or Entry(
                f"{tag} {part}", _asked_title(request, each.request.value, state), "open", "", "", request
            )
            found[part] = _in_progress(own, each, state, queued)
    other = state.underway
    if is_busy and other is not None and other.option == request.option and not _is_running(asked):
        part = _part(found, other.value)
        own = found.get(part) or Entry(
            f"{tag} {part}", _asked_title(request, other.value, state), "open", "", "", request
        )
        note = f"{other.share:.0%}" if other.share is not None else "elsewhere"
        found[part] = replace(own, status="running", note=note, share=other.share)
    return list(found.values()) or [_open(request, tag, state)]


def _is_running(asked: Sequence[Asked]) -> bool:
    return any(each.status == "running" for each in asked)


def _part(found: dict[str, Entry], value: str | None) -> str:
    """The part of the run that the result of a request will be about: that of a single earlier result, or the value."""
    if value is None or value in found:
        return value or ""
    return "" if "" in found and found[""].status == "done" else value


def _in_progress(own: Entry, each: Asked, state: RunState, queued: Sequence[int]) -> Entry:
    """The entry of an analysis that was asked for, with its earlier result if there is one."""
    match each.status:
        case "running":
            underway = state.underway
            share = underway.share if underway is not None else None
            note = f"{share:.0%}" if share is not None else "starting" if underway is None else "running"
            text = "It runs now, and its result appears here. x cancels it."
            return replace(own, status="running", note=note, text=text, job=each.number, share=share)
        case "queued":
            place = queued.index(each.number) + 1
            waits = state.finished is None
            note = "after the run" if waits else "next" if place == 1 else f"queued, {place}"
            text = "It waits for the end of the run." if waits else "It waits for the analyses before it."
            return replace(own, status="queued", note=note, text=f"{text} x removes it.", job=each.number)
        case "failed":
            return replace(own, status="failed", note="no result", text=each.trouble, job=each.number)


def _open(request: Request, tag: str, state: RunState) -> Entry:
    """The entry of an analysis without a result."""
    if state.plan is None:
        return Entry(f"{tag} ", request.title, "impossible", "no plan yet", "There is no plan yet.", request)
    if not request.is_offered(state):
        needs = request.needs or "another kind of run"
        return Entry(f"{tag} ", request.title, "impossible", "", f"Not possible: it needs {needs}.", request)
    return Entry(f"{tag} ", request.title, "open", "", _sentence(request.note), request)


def _missing(analysis: Analysis[Any], tag: str, state: RunState) -> Entry:
    """The entry of an analysis that the engine adds by itself, and has not added."""
    if state.finished is None:
        text = "The run adds it at its end, while time is left."
    else:
        text = "None: no time was left at the end of the run, or nothing of this kind was found."
    return Entry(f"{tag} ", analysis.name, "impossible", "", text)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}".rstrip(".") + ("" if note.endswith("?") else ".")


def _title(event: ev.AnalysisEvent, state: RunState) -> str:
    analysis = analysis_of(event)
    name = analysis.request.title if analysis.request is not None and event.part else analysis.name
    return _with_part(name, event.part, state) if event.part else name


def _asked_title(request: Request, value: str | None, state: RunState) -> str:
    return request.title if value is None else _with_part(request.title, value, state)


def _with_part(title: str, part: str, state: RunState) -> str:
    """The title of an analysis of a part of the run, such as "Attention of FT-Transformer" for "Attention of a model"."""
    models = {row.model: row.title for row in state.leaderboard}
    if title.endswith(A_MODEL) and part in models:
        return f"{title.removesuffix(A_MODEL)} {models[part]}"
    return f"{title}: {models.get(part, one_line(part))}"


def _headline(event: ev.AnalysisEvent, state: RunState) -> str:
    """What the line of a result says after its colon."""
    line = analysis_of(event).line
    return line(event, state).partition(": ")[2] if line is not None else ""
