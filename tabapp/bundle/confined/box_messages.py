"""Messages between a program and the process that reads a bundle for it, as MessagePack with an 8-byte length before each."""

from __future__ import annotations

from typing import Literal

import msgspec

from tabapp.bundle.files.records import Ensemble
from tabapp.data.schema import Schema
from tabapp.weights.pretrained import UsedWeights

LENGTH_BYTES = 8


class Request(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base of what the program asks for; each request has one answer, after any number of `Loading` and `Progress`."""


class Prepare(Request, frozen=True):
    """Import the plugins of these models, while the bundle is still being verified. Has no answer.

    `with_texts` says that the features include those of texts.
    """

    models: tuple[str, ...]
    with_texts: bool = False


class Load(Request, frozen=True):
    """Load the models of a verified bundle, unpacked to a folder; the answer is `Ready`.

    `where` names the bundle in sentences, and `weights` are what its models refer to.
    """

    folder: str
    where: str
    schema: Schema
    ensemble: Ensemble
    weights: tuple[UsedWeights, ...] = ()


class Predict(Request, frozen=True):
    """Predict typed rows, an Arrow IPC file; the answer is `Values`."""

    rows: bytes


class Decompose(Request, frozen=True):
    """Decompose the output of one model for typed rows, an Arrow IPC file; the answer is `Decomposed`.

    `reference` has the reference rows in the same form; without it, only exact contributions are computed.
    """

    rows: bytes
    model: str
    code: int
    reference: bytes | None = None


class FindNeighbors(Request, frozen=True):
    """Find the stored rows with the largest weights in the predictions of typed rows, an Arrow IPC file; the answer is
    `Neighbors`.

    `models` are folders of fold models, each with its number of stored rows.
    """

    rows: bytes
    models: dict[str, int]


class Impute(Request, frozen=True):
    """Fill the missing cells of rows of text, an Arrow IPC file; the answer is `Cells`."""

    rows: bytes
    as_numbers: bool
    with_uncertainty: bool = False
    strict: bool = False
    decimal: str | None = None


class Reply(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base of what the process answers. Nothing in a reply is trusted."""


class Loading(Reply, frozen=True):
    """The process starts to load a folder of the bundle."""

    member: str


class Progress(Reply, frozen=True):
    """Share of the request that is done."""

    share: float


class Ready(Reply, frozen=True):
    """The models are loaded. `protections` names the restrictions of the process that the system enforces."""

    protections: tuple[str, ...]


class Values(Reply, frozen=True):
    """Predictions as little-endian float64, (rows, classes) or (rows,) in row-major order."""

    content: bytes


class Decomposed(Reply, frozen=True):
    """Contributions by column, and their completeness errors, (rows,) each; no columns if the model does not decompose its
    output."""

    base: float
    unit: Literal["target", "log-target", "log-odds"]
    columns: dict[str, list[float]]
    method: Literal["TreeSHAP", "integrated gradients"] = "TreeSHAP"
    errors: list[float] = []


class Neighbors(Reply, frozen=True):
    """Positions and weights of stored rows, (rows, n) by folder of the fold model; models without an answer are left out."""

    index: dict[str, list[list[int]]]
    weight: dict[str, list[list[float]]]


class Cells(Reply, frozen=True):
    """A table with filled cells: the changed columns, and the counts and notes of `Imputed`."""

    columns: dict[str, list[float | str | None]]
    filled: dict[str, int]
    left: dict[str, int]
    notes: tuple[str, ...]


class Failed(Reply, frozen=True):
    """An error in a sentence."""

    error: Literal["bundle", "data", "usage"]
    message: str


AnyRequest = Prepare | Load | Predict | Decompose | FindNeighbors | Impute
AnyReply = Loading | Progress | Ready | Values | Decomposed | Neighbors | Cells | Failed


def encode(message: Request | Reply) -> bytes:
    """A message with its length."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "little") + content
