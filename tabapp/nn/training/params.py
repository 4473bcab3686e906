"""Hyperparameters that all networks share."""

from __future__ import annotations

from typing import Literal

from tabapp.models.contract import Params

OTHERS_SHARE = 0.5
"""Weight of the mean loss of the other targets in trials that learn them."""


class TrainingParams(Params, frozen=True, kw_only=True):
    """Hyperparameters of the training loop. Each network adds its own.

    NOTE[DIFF]: no paper has `unseen_rate`. Without it, levels that training rows lack would have an untrained embedding.

    Attributes:
        learning_rate: learning rate of AdamW.
        weight_decay: weight decay of AdamW.
        batch_size: rows per training step; None derives it from the number of rows (`batch_size_for`).
        patience: maximum epochs without improvement on the early-stopping rows; None disables early stopping.
        max_epochs: maximum number of epochs.
        average_decay: decay per step of the exponential moving average of the weights, which is evaluated and saved; 0
            disables averaging.
        max_gradient_norm: maximum norm of the gradient, which is clipped above it; 0 disables clipping.
        unseen_rate: probability of replacing a category by the code for unseen levels during training, so that its
            embedding is trained.
        hidden_rate: probability of hiding a cell during training, so that predictions suffer less from missing cells: a
            category becomes the code for missing ones, a number the center of its transformed column.
        numeric: transformation of the numbers: "quantile", "standard" or "robust", as `FeatureRecipe` has them; None means that of
            the model. FT-Transformer's paper standardizes two of its tables (Gorishniy et al. 2021, supplement), AMFormer's paper
            all of them.
    """

    learning_rate: float
    weight_decay: float
    batch_size: int | None = None
    patience: int | None = 16
    max_epochs: int = 1000
    average_decay: float = 0.0
    max_gradient_norm: float = 0.0
    unseen_rate: float = 0.01
    hidden_rate: float = 0.0
    numeric: Literal["quantile", "standard", "robust"] | None = None


class SharingParams(TrainingParams, frozen=True, kw_only=True):
    """Hyperparameters of networks that can learn the other targets of a run with several.

    Attributes:
        others_share: weight of the mean loss of the other targets, which share all layers but the last; 0 leaves them out.
    """

    others_share: float = 0.0


def batch_size_for(n_rows: int) -> int:
    """Rows per training step for a number of training rows, by TabM's rule (Gorishniy et al. 2025).

    NOTE[DIFF]: Gorishniy et al. 2021 use 256 for all small tables, which leaves three steps per epoch on a table of a
    thousand rows.
    """
    for limit, size in ((2_800, 32), (4_500, 64), (6_400, 128), (32_000, 256), (108_000, 512)):
        if n_rows < limit:
            return size
    return 1024
