"""Hyperparameters that all networks share."""

from __future__ import annotations

from tabapp.models.contract import Params


class TrainingParams(Params, frozen=True, kw_only=True):
    """How a network is trained; the networks add their own sizes.

    Attributes:
        learning_rate, weight_decay: of AdamW.
        batch_size: rows per step, or None for `batch_size_for`.
        patience: epochs without improvement on the early-stopping rows that are allowed; None never stops early.
        max_epochs: a bound for the case that the score never stops improving.
        average_decay: decay per step of the running average of the weights that is evaluated and kept; 0 keeps the
            weights themselves.
        max_gradient_norm: the norm that the gradient of all weights is scaled down to; 0 leaves it as it is.
        unseen_rate: chance in training that a category is replaced by the one for unseen levels, which would stay
            untrained otherwise.
    """

    learning_rate: float
    weight_decay: float
    batch_size: int | None = None
    patience: int | None = 16
    max_epochs: int = 1000
    average_decay: float = 0.0
    max_gradient_norm: float = 0.0
    unseen_rate: float = 0.01


def batch_size_for(n_rows: int) -> int:
    """Rows per step by training rows: TabM's rule (Gorishniy et al. 2025).

    NOTE[DIFF]: the paper has 256 for all small tables, which leaves three steps an epoch to a table of a thousand rows.
    """
    for limit, size in ((2_800, 32), (4_500, 64), (6_400, 128), (32_000, 256), (108_000, 512)):
        if n_rows < limit:
            return size
    return 1024
