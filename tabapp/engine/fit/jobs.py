"""Messages between the engine and its fit processes: a job in, small messages out. Nothing large goes through a pipe."""

from __future__ import annotations

from typing import Any

import msgspec

from tabapp.features.arrays import FeatureRecipe
from tabapp.models.stated import Libraries
from tabapp.run.record.undefined import Decoder, OptionalScore
from tabapp.task import Task


class Companion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another fit that a job trains in the same stacked network: another fold of the candidate, or the same of another one."""

    fit: str
    trial: int
    fold: int
    params: dict[str, Any]


class FitJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fit: the hyperparameters of a candidate on one fold, with others that are trained in the same stacked network.

    Attributes:
        fit: its id, and the name of its folder.
        run: path of the run folder.
        fold: the fold that is scored; all other rows are training rows.
        run_seed: of the run; the seeds of the fit and of what fits of several models share are derived from it.
        libraries: which fit server has what the model needs.
        seed: number of the seed, from 0, of a candidate that is averaged over several.
        pilots: `FittedModel.summary` of the folds whose numbers of steps the fit reuses; empty if it stops early itself.
        n_bytes: memory that the fit is expected to need; 0 if it is not known.
        soft_deadline: `time.monotonic()` (one clock for all processes of a machine) at which the fit returns its best model so far.
        latest_end: `time.monotonic()` that `soft_deadline` may be put off to if the fit waits for a node before it begins.
        most_step_rows: as in `FitContext`.
        companions: the other fits of a group; the executor knows the group by the id of the first fit.
    """

    fit: str
    run: str
    model: str
    trial: int
    fold: int
    params: dict[str, Any]
    recipe: FeatureRecipe
    task: Task
    n_classes: int
    metric: str
    run_seed: int
    device: str
    libraries: Libraries
    n_threads: int
    soft_deadline: float | None
    n_bytes: int = 0
    latest_end: float | None = None
    pilots: tuple[dict[str, Any], ...] = ()
    most_step_rows: int | None = None
    seed: int = 0
    companions: tuple[Companion, ...] = ()

    def each(self) -> list[FitJob]:
        """A job for every fit of a group."""
        alone = msgspec.structs.replace(self, companions=())
        return [alone, *(msgspec.structs.replace(alone, **msgspec.structs.asdict(other)) for other in self.companions)]


class FitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a complete fit's `metrics.json`.

    `score` is on the held-out rows of its fold, None if the metric is undefined there; seconds are wall time of training and of
    predicting `n_rows` rows. `checksums` are the SHA-256 of the other files of the fit by their path; empty in runs of earlier
    versions. `n_bytes` is the peak memory of training and predicting on the fit's device, beyond what the process used before; 0 if
    it was not measured.
    `seed` is that of its job. `slowdown` is how many times as long its training and predicting took as they had without other
    programs, because they waited for a processor; 1 if it was not measured.
    `pretrain_seconds` is wall time of the pre-training that the first fit of a pre-trained model does for all of them.
    """

    fit: str
    model: str
    trial: int
    fold: int
    score: OptionalScore
    seconds: float
    predict_seconds: float
    n_rows: int
    recipe: FeatureRecipe
    summary: dict[str, Any]
    checksums: dict[str, str] = {}
    n_bytes: int = 0
    pretrain_seconds: float = 0.0
    seed: int = 0
    slowdown: float = 1.0

    @property
    def quiet_seconds(self) -> float:
        """Seconds of training and predicting, those of waiting for a processor not counted."""
        return (self.seconds + self.predict_seconds) / self.slowdown

    @property
    def used_seconds(self) -> float:
        """Seconds of pre-training, training and predicting."""
        return self.pretrain_seconds + self.seconds + self.predict_seconds


class Started(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A fit that waited for resources has begun, on a node of a cluster."""

    fit: str
    node: str
    pid: int


class Progress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A score on the early-stopping rows."""

    fit: str
    step: int
    value: float


class Done(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The fit's folder is complete, and those of its companions, whose results are `others`."""

    fit: str
    result: FitResult
    others: tuple[FitResult, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The fit ended without a model: `stopped` if the engine asked for it, `died` if its process was killed, `out_of_memory` if
    it needed more memory than it got, `lost` if its node was lost, whatever the fit."""

    fit: str
    reason: str
    detail: str = ""
    stopped: bool = False
    died: bool = False
    out_of_memory: bool = False
    lost: bool = False


Message = Started | Progress | Done | Failed

_encoder = msgspec.json.Encoder()
_decoder: Decoder[Message] = Decoder(Message)
_results: Decoder[FitResult] = Decoder(FitResult)


def encode(message: Message) -> bytes:
    """Encode a message as JSON, NaN as null; no pickle is read from a fit process."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Decode a message.

    Raises:
        msgspec.DecodeError: the bytes are not a message.
    """
    return _decoder.decode(data)


def decode_result(data: bytes) -> FitResult:
    """Read the `metrics.json` of a fit.

    Raises:
        msgspec.DecodeError: the bytes are not a result.
    """
    return _results.decode(data)
