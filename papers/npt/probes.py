"""The lookup tasks of Kossen et al. 2021 (section 4.2, appendix B.1). Corruption and deletion of rows are in
`tabapp.explain.between_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tabapp_plugins.npt.network import Attributes, Entries, NPTNetwork
from torch import Tensor

from tabapp.nn.training.optimizers import Lamb, Lookahead, clamp_gradients, flat_then_anneal


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
