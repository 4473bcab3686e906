"""AMFormer pre-trained on rows without a target."""

from __future__ import annotations

import msgspec

from tabapp.models.contract import Shape, Task, Trial
from tabapp.nn.pretraining import Pretrained

from .._shared.search import zero_or
from .network import MANY_FEATURES, AMFormerParams
from .plugin import AMFormer


class PretrainedAMFormerParams(AMFormerParams, frozen=True, kw_only=True):
    """Attributes:
    pretraining_steps: maximum number of steps of pre-training.
    """

    pretraining_steps: int = 5000


class PretrainedAMFormer(Pretrained, AMFormer):
    """AMF-A, whose last layer keeps the tokens of all features, with the pre-training of TabTransformer.

    NOTE[DIFF]: the paper of AMFormer pre-trains nothing. Its trials differ only in fine-tuning, so that all of them share one
    pre-training.
    """

    name = "amformer_pretrained"
    title = "AMFormer, pre-trained"
    paper = f"{AMFormer.paper}; pre-training: Huang et al. 2020, TabTransformer, section 2"
    params_type = PretrainedAMFormerParams
    max_features = MANY_FEATURES
    architecture = (
        "backbone",
        "prompts",
        "streams",
        "n_prompts",
        "n_layers",
        "d_token",
        "n_heads",
        "top_k",
        "ffn_factor",
    )
    task_parts = ("head.", "normalization.", "pool.")
    gained_with = (200, 1_000)

    def defaults(self, task: Task, shape: Shape, device: str) -> PretrainedAMFormerParams:
        """Those of AMF-A; on a CPU, 300 steps of pre-training, as each costs more than one of FT-Transformer."""
        params = msgspec.structs.asdict(super().defaults(task, shape, device))
        params |= {"backbone": "autoint", "d_token": 32, "batch_size": None}
        return PretrainedAMFormerParams(**params, pretraining_steps=300 if device == "cpu" else 5000)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[PretrainedAMFormerParams, ...]:
        """None: AMF-A is the default."""
        return ()

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> PretrainedAMFormerParams:
        """Dropout, learning rate and weight decay of AMFormer."""
        return msgspec.structs.replace(
            self.defaults(task, shape, device),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 5e-3, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )
