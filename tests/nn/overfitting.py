"""Training on random labels: a network that cannot memorize 64 rows has a broken layer, gradient or optimizer."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import torch

from tabapp.features.arrays import Table
from tabapp.models.contract import FitStopped
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tabapp.nn.training.trainer import train_network
from tests.plugins.tables import make_context, make_table

N_ROWS = 64
SIZES = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1)


def lowest_training_loss(
    plugin: DeepPlugin, params: TrainingParams, folder: Path, *, goal: float, max_epochs: int
) -> float:
    """The lowest log loss that a network reaches on 64 rows with random binary labels; 0.69 is random guessing.

    Training stops as soon as the loss is below `goal`, so `max_epochs` can leave a wide margin at no cost.
    """
    torch.manual_seed(0)
    table, spec, _ = make_table("binary", n_rows=N_ROWS)
    table = Table(table.numeric, table.categorical, np.random.default_rng(0).integers(0, 2, N_ROWS))
    losses: list[float] = []

    def stop_below_goal(step: int, loss: float) -> None:
        losses.append(loss)
        if loss < goal:
            raise FitStopped

    context = make_context("binary", spec, 2, folder, metric="log_loss", on_report=stop_below_goal)
    params = msgspec.structs.replace(
        params, batch_size=N_ROWS, max_epochs=max_epochs, patience=None, unseen_rate=0.0, average_decay=0.0
    )
    network = plugin.build(SIZES, params)
    plugin.initialize(network, table)
    objective = Objective.fit(table, context)
    method = plugin.method(network, params, objective, context)
    with suppress(FitStopped):
        train_network(network, table, table, params, objective, context, method)
    return min(losses)
