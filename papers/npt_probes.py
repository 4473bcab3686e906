"""The experiments of Kossen et al. 2021 on how NPT uses other rows: lookup tasks (section 4.2, appendix B.1), data corruption
(section
4.3, Algorithm 1) and data deletion (section 4.4, Algorithm 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.network import Attributes, Entries, NPTNetwork
from torch import Tensor

from tabapp.features.arrays import Table
from tabapp.models.contract import Float32
from tabapp.nn.training.optimizers import Lamb, Lookahead, clamp_gradients, flat_then_anneal

MOST_CHANGE = 0.1
"""Δ_max of Algorithm 2."""
FIRST_CHANGE, MORE_CHANGE, MOST_RETRIES = 0.01, 1.1, 50
"""Δ_it, its factor after repeated failures, and N_max-retry."""
LEAST_LEFT = 0.02
"""ε: the share of rows at which deletion ends."""


@dataclass(frozen=True)
class Lookup:
    """Rows whose target is hidden, and copies of them that show it, in random order.

    Attributes:
        entries: (2 n rows) numeric attributes, the target last.
        originals, copies: (n,) their indices; copy k corresponds to original k.
        truth: (n,) targets of the originals.
    """

    entries: Entries
    originals: Tensor
    copies: Tensor
    truth: Tensor

    def with_targets(self, shown: Tensor) -> Lookup:
        """The intervention of section 4.2: change the targets of the copies."""
        numeric = self.entries.numeric.clone()
        numeric[self.copies, -1] = shown
        entries = Entries(numeric, self.entries.categorical, self.entries.hidden)
        return Lookup(entries, self.originals, self.copies, self.truth)


@dataclass(frozen=True)
class LookupTask:
    """The semi-synthetic task and its variants (Table 3).

    NOTE[DIFF]: features and targets are noise, independent of each other, instead of the Protein table. Only the copies determine
    the target, so a model that ignores other rows has a correlation of 0.

    Attributes:
        n_features: features that originals and copies share.
        n_random: additional features, drawn from N(1, 1) independently for originals and copies ("Random Features").
        added: difference between the targets of copies and originals ("Add One").
    """

    n_features: int = 4
    n_random: int = 0
    added: float = 0.0

    @property
    def attributes(self) -> Attributes:
        """Attributes of the network."""
        n_numeric = self.n_features + self.n_random + 1
        return Attributes(n_numeric=n_numeric, targets=(n_numeric - 1,))

    def draw(self, n_rows: int, generator: torch.Generator) -> Lookup:
        """Draw new originals and copies."""
        features = torch.randn(n_rows, self.n_features, generator=generator).repeat(2, 1)
        noise = 1 + torch.randn(2 * n_rows, self.n_random, generator=generator)
        truth = torch.randn(n_rows, generator=generator)
        target = torch.cat([torch.zeros(n_rows), truth + self.added])
        order = torch.randperm(2 * n_rows, generator=generator)
        numeric = torch.cat([features, noise, target[:, None]], dim=1)[order]
        hidden = torch.zeros_like(numeric, dtype=torch.bool)
        hidden[:, -1] = order < n_rows
        place = torch.argsort(order)
        entries = Entries(numeric, torch.zeros(2 * n_rows, 0, dtype=torch.int64), hidden)
        return Lookup(entries, place[:n_rows], place[n_rows:], truth)


def train_lookup(
    network: NPTNetwork, task: LookupTask, *, n_steps: int, n_rows: int, n_sets: int, learning_rate: float, seed: int
) -> None:
    """Train on `n_sets` new tables in every step, so that only the relation between rows can be learned."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = Lookahead(Lamb(network.parameters(), learning_rate))
    network.train()
    for step in range(n_steps):
        sets = [task.draw(n_rows, generator) for _ in range(n_sets)]
        predicted = network(Entries.joined([drawn.entries for drawn in sets]), n_sets).numeric[:, -1].split(2 * n_rows)
        errors = [said[drawn.originals] - drawn.truth for said, drawn in zip(predicted, sets, strict=True)]
        loss = torch.cat(errors).square().mean()
        optimizer.zero_grad()
        loss.backward()
        clamp_gradients(optimizer.fast.parameters, 1.0)
        optimizer.fast.learning_rate = learning_rate * flat_then_anneal(step / n_steps, 0.6)
        optimizer.step()
    network.eval()


def looked_up(network: NPTNetwork, drawn: Lookup) -> Tensor:
    """(n,) the prediction for each original."""
    with torch.inference_mode():
        return network(drawn.entries).numeric[drawn.originals, -1]


@torch.inference_mode()
def corrupted_predictions(model: NPTModel, table: Table, seed: int) -> Float32:
    """Predictions from uninformative contexts: Algorithm 1.

    For every row, each attribute of all other rows is permuted independently, together with its mask bits. Predictions of a model
    that uses other rows get worse.

    NOTE[DIFF]: the other rows are the model's context; other predicted rows are never seen (see
    `NPTNetwork.recall`).
    """
    generator = torch.Generator().manual_seed(seed)
    queries = model.queries(table)
    parts: list[Float32] = []
    for i in range(len(table)):
        memories = [
            model.network.remember(_permuted(model.context.take(draw), generator).to(model.device))
            for draw in model.draws
        ]
        parts.append(model.prediction(model.recall(queries.take(slice(i, i + 1)), memories)))
    return np.concatenate(parts)


def _permuted(context: Entries, generator: torch.Generator) -> Entries:
    orders = torch.argsort(torch.rand(context.hidden.shape, generator=generator), dim=0)
    n_numeric = context.numeric.shape[1]
    return Entries(
        context.numeric.gather(0, orders[:, :n_numeric]),
        context.categorical.gather(0, orders[:, n_numeric:]),
        context.hidden.gather(0, orders),
    )


@dataclass(frozen=True)
class Deletion:
    """The rows kept for one prediction, and their distances.

    Attributes:
        kept: (k,) indices of the context's rows that were not deleted.
        kept_distance, random_distance, deleted_distance: mean squared distance over features of the row to the rows that were
            kept, to as many random ones, and to those that were deleted.
    """

    kept: npt.NDArray[np.int64]
    kept_distance: float
    random_distance: float
    deleted_distance: float


@torch.inference_mode()
def deletion(model: NPTModel, row: Table, seed: int) -> Deletion:
    """Delete rows that hardly change a prediction: Algorithm 2, from the model's first context.

    NOTE[DIFF]: changes are relative to |ŷ|, or to a twentieth of the target's standard deviation if that is larger; the paper
    divides by ŷ, which may be negative or zero.

    Args:
        row: one row.

    Raises:
        ValueError: the target is not a number.
    """
    objective = model.saved.objective
    if objective is None or objective.task != "regression":
        raise ValueError("data deletion needs a numeric target: it goes by relative changes of the prediction")
    query, context = model.queries(row), model.context.take(model.draws[0])
    generator = torch.Generator().manual_seed(seed)

    def predict(rows: Tensor) -> float:
        memory = model.network.remember(context.take(rows).to(model.device))
        return float(model.prediction(model.recall(query, [memory]))[0])

    remaining = torch.arange(len(context))
    original = predict(remaining)
    scale = max(abs(original), 0.05 * objective.std)
    allowed, retries = FIRST_CHANGE, 0
    while len(remaining) > max(1, LEAST_LEFT * len(context)):
        candidate = int(torch.randint(len(remaining), (1,), generator=generator))
        proposal = torch.cat([remaining[:candidate], remaining[candidate + 1 :]])
        change = abs(predict(proposal) - original) / scale
        if change < allowed:
            if change >= MOST_CHANGE:
                break
            remaining, retries = proposal, 0
        else:
            retries += 1
        if retries >= MOST_RETRIES:
            allowed, retries = allowed * MORE_CHANGE, 0
    distance = _distances(model, query, context)
    is_kept = np.zeros(len(context), dtype=bool)
    is_kept[remaining.numpy()] = True
    chosen = torch.randperm(len(context), generator=generator)[: len(remaining)].numpy()
    deleted = distance[~is_kept].mean() if not is_kept.all() else float("nan")
    return Deletion(remaining.numpy(), float(distance[is_kept].mean()), float(distance[chosen].mean()), float(deleted))


def _distances(model: NPTModel, query: Entries, context: Entries) -> npt.NDArray[np.float64]:
    """(context,) sum over features known in both rows of (x - x')², or of 1 for different levels."""
    both = ~(query.hidden | context.hidden)
    both[:, list(model.saved.attributes.targets)] = False
    numeric = (query.numeric - context.numeric).double().square()
    differ = (query.categorical != context.categorical).double()
    return (torch.cat([numeric, differ], dim=1) * both).sum(dim=1).numpy()
