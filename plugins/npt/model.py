"""A trained NPT: the network, the rows it predicts from, and its saved form (Kossen et al. 2021, sections 2.6 and C.4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN, FeatureSpec, Table
from tabapp.features.saved import demand
from tabapp.models.contract import (
    AttentionMap,
    FeatureContributions,
    FittedModel,
    Float32,
    Floats,
    RowNeighbors,
    Task,
    Uncertainty,
)
from tabapp.nn.layers.attention import TARGET
from tabapp.nn.loading import MOST, WEIGHTS, check_integers, check_tensors, load_network, read_tensors
from tabapp.nn.training.memory import is_out_of_memory
from tabapp.nn.training.objective import Objective

from .explaining import FromEmbedded, attention_of_target, gradients_of_attributes, maps_between_attributes
from .network import Attributes, Entries, Memory, NPTNetwork, Predicted
from .params import NPTParams
from .stored_rows import NPTRows
from .uncertainty import uncertainty_of

LIMIT = 10.0
"""Standardized numbers are clipped at this many standard deviations."""
CHUNK_ROWS = 512
"""Rows predicted at a time."""
CONTEXT = "context.safetensors"
MOST_DRAWN = 2**20
"""Rows of all contexts together: more than a hundred times the default."""
_STORED = {
    "numeric": (torch.float32, 2),
    "categorical": (torch.int64, 2),
    "hidden": (torch.bool, 2),
    "source": (torch.int64, 1),
    "draws": (torch.int64, 2),
}


class OtherScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another target of the run: its number of classes, or 1 and the mean and standard deviation of its training values."""

    name: str
    n_classes: int
    mean: float = 0.0
    std: float = 1.0


class SavedNPT(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`model.json`; weights and the context's rows are in `weights.safetensors` and `context.safetensors`.

    Attributes:
        objective: objective of the run's target; None for a model without a target.
        attributes: attributes of the network, in this order: numeric features, other numeric targets, a numeric target, categorical
            features, other class targets, a class target.
        n_features: number of numeric and of categorical features.
        also_predict: indices of the features that are additional targets, as in a `FeatureSpec`.
        known_unseen: for each categorical feature, whether training rows had the code for unseen levels; it is then
            treated like a level.
        others: other targets, in the order of `Table.others`.
    """

    objective: Objective | None
    attributes: Attributes
    n_features: tuple[int, int]
    also_predict: tuple[int, ...]
    known_unseen: tuple[bool, ...]
    params: NPTParams
    facts: dict[str, Any]
    others: tuple[OtherScale, ...] = ()

    def attribute(self, feature: int) -> int:
        """The attribute of a feature, whose index is that of a `FeatureSpec`."""
        return feature if feature < self.n_features[0] else feature - self.n_features[0] + self.attributes.n_numeric

    @property
    def target(self) -> int:
        """The attribute of the run's target."""
        assert self.objective is not None
        return self.attributes.n_numeric - 1 if self.objective.task == "regression" else len(self.attributes) - 1

    @property
    def other_attributes(self) -> tuple[int, ...]:
        """The attribute of each other target."""
        number, level = self.n_features[0], self.attributes.n_numeric + self.n_features[1]
        found: list[int] = []
        for other in self.others:
            if other.n_classes == 1:
                found.append(number)
                number += 1
            else:
                found.append(level)
                level += 1
        return tuple(found)

    def check(self) -> None:
        """Check saved sizes and indices.

        Raises:
            ValueError: one is out of range.
        """
        n_attributes, n_features = len(self.attributes), sum(self.n_features)
        p = self.params
        demand(
            0 <= self.attributes.n_numeric <= MOST and min(self.n_features) >= 0 and n_features > 0,
            "a size is out of range",
        )
        demand(all(n >= 1 for n in self.attributes.n_levels), "a categorical column has no levels")
        n_targets = len(self.others) + (self.objective is not None)
        demand(n_attributes == n_features + n_targets, "its columns differ in number")
        n_numbers = sum(other.n_classes == 1 for other in self.others)
        n_numbers += self.objective is not None and self.objective.task == "regression"
        demand(self.attributes.n_numeric == self.n_features[0] + n_numbers, "its columns differ in number")
        demand(
            all(np.isfinite([each.mean, each.std]).all() and each.std > 0 for each in self.others),
            "the scale of another target is not usable",
        )
        demand(p.n_heads > 0 and p.d_embedding > 0 and p.d_embedding % p.n_heads == 0, "its heads do not fit its width")
        demand(len(self.known_unseen) == self.n_features[1], "its known levels do not fit its columns")
        demand(all(0 <= i < n_features for i in self.also_predict), "an index in 'also_predict' is out of range")
        demand(all(0 <= i < n_attributes for i in self.attributes.targets), "the index of a target is out of range")

    def check_context(self, context: Entries, source: Tensor, draws: Tensor) -> None:
        """Check the stored rows and the contexts, whose number and size the parameters limit.

        Raises:
            ValueError: they have another shape, or an index or a level is out of range.
        """
        n_rows, levels = len(source), torch.tensor(self.attributes.n_levels, dtype=torch.int64)
        demand(n_rows > 0 and draws.numel() > 0, "it has no stored rows")
        shapes = tuple(tuple(part.shape) for part in (context.numeric, context.categorical, context.hidden))
        n_numeric, n_attributes = self.attributes.n_numeric, len(self.attributes)
        expected = (n_rows, n_numeric), (n_rows, n_attributes - n_numeric), (n_rows, n_attributes)
        demand(shapes == expected, f"{CONTEXT}: the rows have the shapes {shapes}")
        demand(
            ((context.categorical >= 0) & (context.categorical < levels)).all(), f"{CONTEXT}: a level is out of range"
        )
        demand(int(draws.min()) >= 0 and int(draws.max()) < n_rows, f"{CONTEXT}: an index in 'draws' is out of range")
        fits = draws.shape[1] <= max(n_rows, 1) and len(draws) <= max(1, self.params.n_contexts)
        demand(fits and draws.numel() <= MOST_DRAWN, f"{CONTEXT}: it has more contexts than its parameters say")

    def entries(self, table: Table, *, with_target: bool) -> Entries:
        """Convert a table's rows to the input of the network. Missing cells are hidden, and the target too unless
        `with_target`. A target that is NaN or a negative code is missing.
        """
        numeric = np.asarray(table.numeric, dtype=np.float32)
        codes = np.asarray(table.categorical, dtype=np.int64)
        hidden = [
            np.isnan(numeric),
            (codes == MISSING) | ((codes == UNSEEN) & ~np.array(self.known_unseen, dtype=bool)),
        ]
        values, levels = [np.nan_to_num(numeric.clip(-LIMIT, LIMIT))], [np.where(codes >= FIRST_LEVEL, codes - 1, 0)]
        n_numbers = 0
        for i, other in enumerate(self.others):
            shown = with_target and table.others is not None
            y = table.others[:, i] if shown and table.others is not None else np.full(len(table), np.nan)
            unknown = ~np.isfinite(y)
            y = np.where(unknown, 0.0, (y - other.mean) / other.std)[:, None]
            if other.n_classes == 1:
                hidden.insert(1 + n_numbers, unknown[:, None])
                values.append(y.clip(-LIMIT, LIMIT))
                n_numbers += 1
            else:
                hidden.append(unknown[:, None])
                levels.append(y.astype(np.int64))
        if self.objective is not None:
            y = np.asarray(table.target, dtype=np.float64) if with_target else np.full(len(table), np.nan)
            regression = self.objective.task == "regression"
            unknown = ~np.isfinite(y) if regression else ~(y >= 0)
            hidden.insert(1 + n_numbers if regression else len(hidden), unknown[:, None])
            y = np.where(unknown, 0.0, y)
            if regression:
                values.append(np.where(unknown, 0.0, (y - self.objective.mean) / (self.objective.std or 1.0))[:, None])
            else:
                levels.append(y[:, None].astype(np.int64))
        return Entries(
            torch.from_numpy(np.hstack(values).astype(np.float32)),
            torch.from_numpy(np.hstack(levels).astype(np.int64)),
            torch.from_numpy(np.hstack(hidden)),
        )

    def build(self) -> NPTNetwork:
        """Create the network with initial weights from torch's global generator."""
        p = self.params
        return NPTNetwork(
            self.attributes,
            d_embedding=p.d_embedding,
            n_layers=p.n_layers,
            n_heads=p.n_heads,
            dropout=p.dropout,
            normalize_keys=p.normalize_keys,
            attention=p.attention,
        )


class NPTModel(FittedModel):
    """A trained network and the rows it predicts from.

    Attributes:
        context: stored rows, with their targets.
        source: (stored rows,) index of each stored row in the fit: training rows first, then early-stopping rows.
        draws: (contexts, rows) indices into the stored rows.
    """

    thread_safe = True

    def __init__(
        self,
        network: NPTNetwork,
        saved: SavedNPT,
        context: Entries,
        source: Tensor,
        draws: Tensor,
        device: torch.device,
    ) -> None:
        self.network = network.to(device).eval()
        self.saved, self.device = saved, device
        self.context, self.source, self.draws = context, source, draws
        self._memories: list[Memory] = []
        self._chunk = CHUNK_ROWS

    def to(self, device: str) -> None:
        self.device = torch.device(device)
        self.network.to(self.device)
        self._memories = []

    def memories(self) -> list[Memory]:
        """Keys and values of each context, computed once."""
        memories = self._memories
        if not memories:
            with torch.inference_mode():
                memories = [self.network.remember(self.context.take(draw).to(self.device)) for draw in self.draws]
            # Only when complete: another thread may read it.
            self._memories = memories
        return memories

    def recall(self, entries: Entries, memories: list[Memory] | None = None) -> list[Predicted]:
        """Predict every entry of some rows from each context. Chunks of rows are halved until they fit in memory."""
        predicted: list[Predicted] = []
        with torch.inference_mode():
            for memory in self.memories() if memories is None else memories:
                parts = self._recall_in_chunks(entries, memory)
                logits = zip(*(part.logits for part in parts), strict=True)
                predicted.append(
                    Predicted(torch.cat([p.numeric for p in parts]), [torch.cat(list(each)) for each in logits])
                )
        return predicted

    def _recall_in_chunks(self, entries: Entries, memory: Memory) -> list[Predicted]:
        while True:
            # Another thread may halve it meanwhile.
            chunk = self._chunk
            try:
                return [
                    self.network.recall(entries.take(slice(i, i + chunk)).to(self.device), memory)
                    for i in range(0, max(1, len(entries)), chunk)
                ]
            except Exception as error:
                if chunk == 1 or not is_out_of_memory(error):
                    raise
                self._chunk = chunk // 2

    def predict(self, table: Table) -> Floats:
        return self.prediction(self.recall(self.queries(table)))

    def queries(self, table: Table) -> Entries:
        """Rows to predict, with all targets hidden."""
        return self.saved.entries(table, with_target=False).hiding(self.saved.attributes.targets)

    def prediction(self, predicted: list[Predicted]) -> Floats:
        """Average the predictions of the target over contexts.

        Raises:
            ValueError: the model has no target.
        """
        return self._objective().prediction(self.target_output(predicted))

    def target_output(self, predicted: list[Predicted]) -> Tensor:
        """(rows, contexts, d_out) outputs for the target.

        Raises:
            ValueError: the model has no target.
        """
        objective = self._objective()
        if objective.task == "regression":
            outputs = [each.numeric[:, self.saved.target, None] for each in predicted]
        else:
            outputs = [each.logits[-1] for each in predicted]
            if objective.task == "binary":
                outputs = [logits[:, 1:] - logits[:, :1] for logits in outputs]
        return torch.stack(outputs, dim=1)

    def _objective(self) -> Objective:
        if self.saved.objective is None:
            raise ValueError("this NPT was trained without a target; it can only impute")
        return self.saved.objective

    def predict_features(self, table: Table) -> dict[int, Float32]:
        """Predictions of the features in `also_predict` by feature index: (rows,) in the table's units, or (rows,
        codes) probabilities.
        """
        predicted = self.recall(self.queries(table))
        return {feature: self.feature(predicted, feature) for feature in self.saved.also_predict}

    def predict_others(self, table: Table) -> list[Floats]:
        """Predictions of the other targets, in the order of `SavedNPT.others`: (rows,) in their units, or (rows, classes)
        probabilities."""
        predicted = self.recall(self.queries(table))
        found: list[Floats] = []
        for other, attribute in zip(self.saved.others, self.saved.other_attributes, strict=True):
            if other.n_classes == 1:
                mean = torch.stack([each.numeric[:, attribute].double() for each in predicted]).mean(0)
                found.append((mean * other.std + other.mean).cpu().numpy())
            else:
                logits = [each.logits[attribute - self.saved.attributes.n_numeric].double() for each in predicted]
                found.append(torch.stack(logits).softmax(2).mean(0).float().cpu().numpy())
        return found

    def feature(self, predicted: list[Predicted], feature: int) -> Float32:
        """Predictions of a feature: (rows,) in the table's units, or (rows, codes) probabilities."""
        n_numeric = self.saved.n_features[0]
        if feature < n_numeric:
            return torch.stack([each.numeric[:, feature] for each in predicted]).mean(0).cpu().numpy()
        logits = torch.stack([each.logits[feature - n_numeric] for each in predicted])
        levels = torch.softmax(logits.double(), dim=2).mean(0)
        # Levels are all codes except the one for missing cells.
        codes = torch.cat([levels[:, :1], torch.zeros_like(levels[:, :1]), levels[:, 1:]], dim=1)
        return codes.float().cpu().numpy()

    def impute(self, table: Table) -> Table:
        """Fill missing cells from the other features of their row and from the context, without the row's target."""
        predicted = self.recall(self.saved.entries(table, with_target=False))
        numeric, categorical = np.array(table.numeric), np.array(table.categorical)
        for feature in range(numeric.shape[1]):
            missing = np.isnan(numeric[:, feature])
            numeric[missing, feature] = self.feature(predicted, feature)[missing]
        for j in range(categorical.shape[1]):
            missing = categorical[:, j] == MISSING
            codes = self.feature(predicted, numeric.shape[1] + j)[missing, FIRST_LEVEL:]
            if codes.shape[1]:
                categorical[missing, j] = codes.argmax(axis=1) + FIRST_LEVEL
        return replace(table, numeric=numeric, categorical=categorical)

    def imputation_uncertainty(self, table: Table) -> Uncertainty:
        return uncertainty_of(self, table, self.saved.entries(table, with_target=False))

    def stored_rows(self) -> NPTRows | None:
        """The rows of the contexts; None without attention between rows."""
        if self.saved.objective is None or self.saved.params.attention == "attributes":
            return None
        return NPTRows(self, self.context, self.source.numpy(), list(self.draws), self.memories())

    def row_neighbors(self, table: Table, n: int) -> RowNeighbors | None:
        stored = self.stored_rows()
        return None if stored is None else stored.neighbors(table, n)

    def contributions(self, table: Table, code: int, reference: Table | None = None) -> FeatureContributions | None:
        objective = self.saved.objective
        if reference is None or not len(reference) or objective is None or objective.is_constant:
            return None
        network = FromEmbedded(self.network, self.memories(), self.target_output)
        rows = [self.queries(each).to(self.device) for each in (table, reference)]
        base, values, errors = gradients_of_attributes(network, lambda out: objective.explained(out, code), *rows)
        unit = "target" if objective.task == "regression" else "log-odds"
        features = [self.saved.attribute(feature) for feature in range(sum(self.saved.n_features))]
        return FeatureContributions(base, values[:, features], unit, "integrated gradients", errors)

    def attention(self, table: Table) -> Float32 | None:
        """The attention of the target to each feature, rescaled, mean over heads and blocks between attributes (eq. 7).

        NOTE[DIFF]: the paper defines no importance of features. Its blocks between rows mix the attributes of a row before, so that
        this attention is nearly equal, and says less than that of models that attend to features only.
        """
        saved = self.saved
        if saved.objective is None or saved.params.attention == "rows" or not len(table):
            return None
        features = [saved.attribute(feature) for feature in range(sum(saved.n_features))]
        context, rows = self.memories()[0], self.queries(table)
        return attention_of_target(self.network, context, rows, saved.target, features, self.device)

    def attention_maps(self, table: Table) -> list[AttentionMap]:
        """Attention between the attributes of a row, for the first context."""
        places = [TARGET] * len(self.saved.attributes)
        for feature in range(sum(self.saved.n_features)):
            places[self.saved.attribute(feature)] = feature
        return maps_between_attributes(self.network, self.memories()[0], self.queries(table), places, self.device)

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        weights = {name: t.detach().cpu().contiguous() for name, t in self.network.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
        context = {
            "numeric": self.context.numeric,
            "categorical": self.context.categorical,
            "hidden": self.context.hidden,
        }
        context |= {"source": self.source, "draws": self.draws}
        save_file({name: t.contiguous() for name, t in context.items()}, folder / CONTEXT)
        (folder / "model.json").write_bytes(msgspec.json.encode(self.saved))

    @classmethod
    def load(cls, folder: Path) -> NPTModel:
        """Read what `save` wrote. Predictions are bit-identical."""
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=SavedNPT)
        saved.check()
        check_integers(saved.params)
        network = load_network(folder, saved.build)
        _, stored = read_tensors(folder / CONTEXT)
        check_tensors(stored, _STORED, CONTEXT)
        context = Entries(stored["numeric"], stored["categorical"], stored["hidden"])
        source, draws = stored["source"], stored["draws"]
        saved.check_context(context, source, draws)
        return cls(network, saved, context, source, draws, torch.device("cpu"))

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        saved = self.saved
        if saved.objective is None:
            raise ValueError("it was trained without a target")
        saved.objective.check(task, n_classes)
        is_number = task == "regression"
        levels = tuple(cardinality - 1 for cardinality in features.cardinalities)
        levels += tuple(other.n_classes for other in saved.others if other.n_classes > 1)
        n_numbers = sum(other.n_classes == 1 for other in saved.others)
        same = (
            saved.n_features == (len(features.numeric), len(features.categorical))
            and saved.attributes.n_numeric == len(features.numeric) + n_numbers + is_number
            and saved.attributes.n_levels == levels + (() if is_number else (n_classes,))
        )
        demand(same, "it was trained on other columns")

    def summary(self) -> dict[str, Any]:
        return self.saved.facts
