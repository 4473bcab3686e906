"""The base of all events of a run."""

from __future__ import annotations

from typing import Literal

import msgspec

VERSION = 1
ENSEMBLE = "ensemble"
"""The name of the ensemble where a model is named."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="ev"):
    """The base of all events. `EventLog.append` sets `seq`, `t` and `elapsed`: seconds since the engine opened the log, which a
    change of the system's clock does not affect."""

    v: int = VERSION
    seq: int = 0
    t: float = 0.0
    elapsed: float = 0.0


class Described(Event, frozen=True, kw_only=True):
    """The base of events that describe the predictions of a model or of the ensemble.

    Attributes:
        trial: the trial of the model; None for the ensemble, and where it is unknown.
        identity: `LeaderboardRow.identity` of what is described; empty in runs of earlier versions.
    """

    model: str = ENSEMBLE
    trial: int | None = None
    identity: str = ""


class AnalysisEvent(Described, frozen=True, kw_only=True):
    """The base of results of analyses: those that the engine adds while time is left, and those that a user requests later.

    The latter follow `run.finished` and take no time of the budget. All are cleared when the run is resumed.
    """

    @property
    def part(self) -> str:
        """The part of the run that it is about, such as a column; a later result on the same part replaces it."""
        return ""

    @property
    def withdraws(self) -> bool:
        """Whether it only takes back the earlier result."""
        return False


class AnalysisStep(Event, frozen=True, kw_only=True):
    """The base of events on an analysis in progress, which another process than the engine runs.

    Attributes:
        option, value: of `tabapp diagnose`, without dashes; the value is None for a flag.
    """

    option: str
    value: str | None = None


class AnalysisStarted(AnalysisStep, tag="analysis.started", frozen=True, kw_only=True):
    """An analysis has begun; `model` is the one that it trains again, None for the best."""

    model: str | None = None


class AnalysisProgress(AnalysisStep, tag="analysis.progress", frozen=True, kw_only=True):
    """The share of the work that is done, in [0, 1]."""

    share: float


class AnalysisEnded(AnalysisStep, tag="analysis.ended", frozen=True, kw_only=True):
    """An analysis has ended: `message` says why there is no result, empty if there is one."""

    status: Literal["done", "failed", "canceled"]
    message: str = ""
