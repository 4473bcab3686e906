"""Retrieval networks, which predict a row from similar training rows: the stored rows, the method and the model."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.saved import demand
from tabapp.models.contract import FitContext, Floats, RowNeighbors, RowWeights, Shape, StoredRows, Task
from tabapp.nn.layers.embeddings import OneHotOrEmbedding
from tabapp.nn.layers.numeric import PeriodicEmbedding
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.training.cuda_graphs import is_recording
from tabapp.nn.training.memory import is_out_of_memory
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tabapp.nn.training.trainer import inputs

MOST_ROWS = {"cpu": 100_000, "cuda": 1_000_000}
"""Training rows at most, since every step compares each row of the batch with all of them: an epoch of 100,000 takes one
thread about two minutes."""
ENCODED_ROWS = 65_536
"""Candidates encoded at once, at most."""
ENCODED_BYTES = {"cpu": 2**27, "cuda": 2**30}
"""Memory of what is computed for the candidates that are encoded at once."""
NEIGHBOR_ROWS = 1024
MOST_ONE_HOT = 32


def too_many_rows(shape: Shape) -> str | None:
    """The reason to skip the model if the table has more rows than this machine can search in every step."""
    limit = MOST_ROWS["cuda" if torch.cuda.is_available() else "cpu"]
    if shape.n_rows <= limit:
        return None
    without = "" if torch.cuda.is_available() else " without a GPU"
    return (
        f"It compares each row with all training rows and supports at most {limit:,}{without}; "
        f"the table has {shape.n_rows:,}."
    )


class Candidates(nn.Module):
    """Training rows with targets and weights, which are part of a network's saved state, and their keys, which are not.

    Attributes:
        numeric: (n, n_numeric) float32.
        categorical: (n, n_categorical) int32 codes.
        target: (n,) float32, standardized in a regression, else the class code.
        weight: (n,) float32 row weights of mean one.
        encoded_rows: candidates to encode at once. A chunk that does not fit in memory is halved, also for later calls.
    """

    stores_rows = True

    def __init__(self, n_numeric: int, n_categorical: int) -> None:
        super().__init__()
        self.encoded_rows = ENCODED_ROWS
        self.register_buffer("numeric", torch.zeros(0, n_numeric))
        self.register_buffer("categorical", torch.zeros(0, n_categorical, dtype=torch.int32))
        self.register_buffer("target", torch.zeros(0))
        self.register_buffer("weight", torch.zeros(0))
        self.numeric: Tensor
        self.categorical: Tensor
        self.target: Tensor
        self.weight: Tensor
        self._keys: Tensor | None = None
        self.register_load_state_dict_pre_hook(lambda _, state, prefix, *__: self._resize(state, prefix))

    def __len__(self) -> int:
        return len(self.target)

    @torch.no_grad()
    def put(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        """Replace the stored rows. The numeric ones are shared with the caller, who must not change them."""
        self.numeric, self.categorical = numeric, categorical.int()
        self.target = target.float()
        self.weight = torch.ones_like(self.target) if weight is None else weight.float()
        self._keys = None

    def add(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        """Append rows to the stored ones; shapes are those of the attributes."""
        weight = torch.ones_like(target, dtype=torch.float32) if weight is None else weight
        self.put(
            torch.cat([self.numeric, numeric]),
            torch.cat([self.categorical, categorical.int()]),
            torch.cat([self.target, target.float()]),
            torch.cat([self.weight, weight.float()]),
        )

    def take(self, rows: Tensor) -> Candidates:
        """A copy with some of the rows, and with their keys if they are known."""
        found = Candidates(self.numeric.shape[1], self.categorical.shape[1]).train(self.training)
        found.put(self.numeric[rows], self.categorical[rows], self.target[rows], self.weight[rows])
        found._keys = None if self._keys is None else self._keys[rows]
        return found

    def permuted(self, seed: int) -> Candidates:
        """A copy with each column and the target permuted independently. Row weights keep their places."""
        generator = torch.Generator().manual_seed(seed)

        def shuffled(values: Tensor) -> Tensor:
            order = torch.argsort(torch.rand(values.shape, generator=generator), dim=0).to(values.device)
            return values.gather(0, order)

        found = Candidates(self.numeric.shape[1], self.categorical.shape[1]).train(self.training)
        found.put(shuffled(self.numeric), shuffled(self.categorical), shuffled(self.target), self.weight)
        return found

    def check(self, n_numeric: int, cardinalities: tuple[int, ...], n_classes: int) -> None:
        """Check loaded rows.

        Args:
            n_numeric, cardinalities: columns of the table.
            n_classes: number of classes; 1 for regression.

        Raises:
            ValueError: the rows have wrong columns or codes out of range.
        """
        n = len(self.target)
        shapes = {self.target.shape, self.weight.shape}
        demand(shapes == {(n,)} and len(self.numeric) == len(self.categorical) == n, "its stored rows differ in length")
        columns = (self.numeric.shape[1:], self.categorical.shape[1:])
        demand(columns == ((n_numeric,), (len(cardinalities),)), "its stored rows have other columns")
        ends = torch.tensor(cardinalities, dtype=torch.int32)
        demand(((self.categorical >= 0) & (self.categorical < ends)).all(), "a code of a stored row is out of range")
        codes = (self.target >= 0) & (self.target < n_classes) & (self.target == self.target.floor())
        demand(n_classes == 1 or codes.all(), "the class of a stored row is out of range")

    def keys(self, network: RetrievalNetwork) -> Tensor:
        """The keys of all rows, cached until the network is trained or loaded again."""
        keys = self._keys
        if keys is None or keys.device != self.target.device:
            # An inference tensor could not be used outside inference mode later.
            with torch.inference_mode(False), torch.no_grad():
                keys = self._keys = self.encode(network)
        return keys

    def encode(self, network: RetrievalNetwork) -> Tensor:
        """The keys of all rows with the current weights, by chunks."""
        n_bytes = network.key_bytes()
        bound = max(1, ENCODED_BYTES[self.target.device.type] // n_bytes) if n_bytes else ENCODED_ROWS
        while True:
            n_rows = min(self.encoded_rows, bound)
            try:
                parts = zip(self.numeric.split(n_rows), self.categorical.split(n_rows), strict=True)
                return torch.cat([network.key(x, codes.long()) for x, codes in parts])
            except Exception as error:
                if n_rows == 1 or not is_out_of_memory(error) or is_recording(self.target.device):
                    raise
                self.encoded_rows = n_rows // 2

    def forget(self) -> None:
        """Drop the cached keys after a change of the weights."""
        self._keys = None

    def train(self, mode: bool = True) -> Self:
        if mode != self.training:
            self.forget()
        return super().train(mode)

    def _resize(self, state_dict: dict[str, Tensor], prefix: str) -> None:
        """Resize the buffers to the number of saved rows before loading."""
        for name, buffer in list(self._buffers.items()):
            saved = state_dict.get(prefix + name)
            if buffer is not None and saved is not None and saved.shape != buffer.shape:
                setattr(self, name, torch.empty_like(saved, dtype=buffer.dtype, device=buffer.device))
        self.forget()


class RetrievalNetwork(nn.Module):
    """A network whose output depends on stored training rows, the candidates. Without candidates, the output is zero."""

    numeric: nn.Module
    categorical: OneHotOrEmbedding
    d_embedded: int
    candidates: Candidates
    d_out: int
    limits_its_memory = True

    def make_inputs(self, sizes: Sizes, params: RetrievalParams) -> int:
        """Create the embeddings of the columns; returns the size of a row in `inputs`. `d_embedded` also counts the sines and
        cosines that are computed for it."""
        embedded = sizes.n_numeric > 0 and params.n_frequencies > 0
        self.numeric = (
            PeriodicEmbedding(
                sizes.n_numeric,
                n_frequencies=params.n_frequencies,
                frequency_scale=params.frequency_scale,
                d_embedding=params.d_embedding,
                lite=True,
            )
            if embedded
            else nn.Identity()
        )
        self.categorical = OneHotOrEmbedding(sizes.cardinalities, most_one_hot=MOST_ONE_HOT)
        d_in = sizes.n_numeric * (params.d_embedding if embedded else 1) + self.categorical.d_out
        self.d_embedded = d_in + 2 * params.n_frequencies * sizes.n_numeric
        return d_in

    def inputs(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, d_in) values and embeddings of all columns, side by side."""
        return torch.cat([self.numeric(numeric).flatten(1), self.categorical(categorical)], dim=1)

    def key_bytes(self) -> int:
        """Memory that `key` takes for each row, in bytes; 0 if it is negligible."""
        return 0

    @abstractmethod
    def key(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, d) keys, whose distances define the neighbors."""

    @abstractmethod
    def training_output(self, rows: Tensor, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(batch, d_out) for training rows with these indices, each excluded from its own candidates."""

    @abstractmethod
    def prediction_output(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, d_out) for rows that are not candidates."""

    @abstractmethod
    def neighbors(self, numeric: Tensor, categorical: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The (rows, n) candidates with the largest weights in each prediction, in descending order, and their weights."""

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        if not len(self.candidates):
            return numeric.new_zeros(len(numeric), self.d_out)
        return self.prediction_output(numeric, categorical)


class RetrievalMethod(TrainingMethod):
    """Training in which all training rows are candidates."""

    def start(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        super().start(numeric, categorical, target, weight)
        assert isinstance(self.network, RetrievalNetwork)
        self.network.candidates.put(numeric, categorical, target, weight)

    def loss(self, rows: Tensor, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        assert isinstance(self.network, RetrievalNetwork)
        with self.precision():
            output = self.network.training_output(rows, numeric, categorical)
        return self.objective.loss(output, target, weight)


class RetrievedRows(StoredRows):
    """The candidates of a retrieval network.

    Args:
        model: a private copy, which takes the candidates of each call.
    """

    def __init__(self, model: RetrievalModel, candidates: Candidates, source: npt.NDArray[np.int64]) -> None:
        self.source = source
        self._model, self._candidates = model, candidates

    def _network(self) -> RetrievalNetwork:
        network = self._model.network
        assert isinstance(network, RetrievalNetwork)
        network.candidates = self._candidates
        return network

    def predict(self, table: Table) -> Floats:
        self._network()
        return self._model.predict(table)

    def weights(self, table: Table) -> list[RowWeights]:
        self._network()
        found = self._model.row_neighbors(table, len(self))
        assert found is not None
        shares = np.zeros((1, len(table), len(self)), dtype=np.float32)
        np.put_along_axis(shares[0], found.index, found.weight, axis=1)
        return [RowWeights("", shares)]

    def take(self, rows: npt.NDArray[np.int64]) -> RetrievedRows:
        self._candidates.keys(self._network())
        places = torch.from_numpy(rows).to(self._candidates.target.device)
        return RetrievedRows(self._model, self._candidates.take(places), self.source[rows])

    def permuted(self, seed: int) -> RetrievedRows:
        return RetrievedRows(self._model, self._candidates.permuted(seed), np.arange(len(self)))


class RetrievalModel(DeepModel):
    """A trained retrieval network."""

    def stored_rows(self) -> StoredRows | None:
        network = self.network
        assert isinstance(network, RetrievalNetwork)
        if not len(network.candidates):
            return None
        model = copy.copy(self)
        model.network = copy.deepcopy(network)
        assert isinstance(model.network, RetrievalNetwork)
        return RetrievedRows(model, model.network.candidates, np.arange(len(network.candidates)))

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        super().check(features, task, n_classes)
        assert isinstance(self.network, RetrievalNetwork)
        self.network.candidates.check(len(features.numeric), features.cardinalities, n_classes)

    def row_neighbors(self, table: Table, n: int) -> RowNeighbors | None:
        network = self.network
        assert isinstance(network, RetrievalNetwork)
        if not len(network.candidates):
            return None
        numeric, categorical = inputs(table, self.device)
        n = min(n, len(network.candidates))
        with torch.inference_mode():
            parts = [
                network.neighbors(x, codes, n)
                for x, codes in zip(numeric.split(NEIGHBOR_ROWS), categorical.split(NEIGHBOR_ROWS), strict=True)
            ]
        index, share = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
        return RowNeighbors(index=index, weight=share)


class RetrievalParams(TrainingParams, frozen=True, kw_only=True):
    """Hyperparameters of all retrieval networks.

    Attributes:
        stopping_rows: whether predictions also retrieve neighbors from the early-stopping rows.
        n_frequencies, frequency_scale, d_embedding: number, initial scale and output size of the periodic embeddings of
            numeric columns; 0 frequencies disable them.
    """

    stopping_rows: bool = True
    n_frequencies: int = 0
    frequency_scale: float = 0.1
    d_embedding: int = 24


class RetrievalPlugin(DeepPlugin):
    """Base class of plugins with a retrieval network.

    NOTE[DIFF]: after training, predictions also retrieve neighbors from the early-stopping rows, which reduced TabR's
    out-of-fold RMSE on California housing by 1 %. The authors retrieve training rows only (`stopping_rows=False`).
    """

    contains_training_rows = True
    predicts_from_rows = True
    repeats_steps = True
    model_type = RetrievalModel

    def method(
        self, network: nn.Module, params: TrainingParams, objective: Objective, context: FitContext
    ) -> RetrievalMethod:
        return RetrievalMethod(network, params, objective, repeats_steps=self.repeats_steps)

    def add_stopping_rows(
        self, network: nn.Module, train: Table, valid: Table, objective: Objective, params: TrainingParams
    ) -> None:
        """Append the early-stopping rows to the candidates, with row weights on the scale of the training rows."""
        assert isinstance(network, RetrievalNetwork)
        assert isinstance(params, RetrievalParams)
        if not params.stopping_rows or not len(network.candidates):
            return
        device = network.candidates.target.device
        weight = None
        if train.weight is not None and valid.weight is not None:
            weight = torch.tensor(valid.weight / train.weight.mean(), device=device)
        network.candidates.add(*inputs(valid, device), objective.target(valid, device), weight)

    def supports(self, task: Task, shape: Shape) -> str | None:
        return super().supports(task, shape) or too_many_rows(shape)
