"""AMFormer: Cheng et al. 2024, Arithmetic Feature Interaction Is Necessary for Deep Tabular Learning, section 4."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec
import torch
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, FeatureCombination, FitContext, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.arithmetic import MANY_TOKENS
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.trainer import TrainingParams, batch_size_for, inputs

from .._shared.search import zero_or
from .network import AMFormerNetwork, AMFormerParams, bytes_per_row, layer_sizes

SUMMARY_ROWS = 512
SUMMARY_PROMPTS = 16
FACTORS = 3
"""Features of a prompt that are named; it selects more of them, by other heads and in other rows."""


class AMFormerTraining(TrainingMethod):
    """Adam with a linear warm-up; the learning rate is divided by ten every `decay_steps` steps (section 5.1,
    "Implementation").

    NOTE[DIFF]: gradients are clipped at a norm of 1, which neither the paper nor the authors' code does.
    """

    steps_per_run = 1

    def start(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        super().start(numeric, categorical, target, weight)
        size = self.params.batch_size or batch_size_for(len(numeric))
        self.steps_per_run = self.params.max_epochs * max(1, ceil((len(numeric) - 1) / size))

    def schedule(self, optimizer: torch.optim.Optimizer, progress: float) -> None:
        params = self.params
        assert isinstance(params, AMFormerParams)
        step = round(progress * self.steps_per_run)
        rate = params.learning_rate * min(1.0, (step + 1) / max(1, params.warmup_steps))
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.1 ** (step // params.decay_steps)


class AMFormerModel(DeepModel):
    def combinations(self, table: Table) -> list[FeatureCombination]:
        """The factors of the products of the first layer: what each of its prompts selects most often (section 4.2)."""
        network = self.network
        assert isinstance(network, AMFormerNetwork)
        if not network.has_product_prompts or not len(table):
            return []
        with torch.inference_mode():
            selection = selection_of_features(network, table, self.device)
        frequencies, features = selection.topk(min(FACTORS, selection.shape[1]), dim=1)
        order = frequencies.mean(1).argsort(descending=True, stable=True)
        return [
            FeatureCombination(
                tuple(features[prompt].tolist()), tuple(round(each, 4) for each in frequencies[prompt].tolist())
            )
            for prompt in order.tolist()
        ]


class AMFormer(DeepPlugin):
    """Sums and products attend to nearly all features alike. On California housing, the rank correlation of plain attention with
    permutation importance was 0.2 to 0.5, and 0.8 weighted by the norms of the values, although a column of noise ranked above a
    relevant one. How often prompts select a feature is a frequency and not an importance.
    """

    name = "amformer"
    title = "AMFormer"
    model_type = AMFormerModel
    has_attention = True
    has_attention_maps = True
    paper = "Cheng et al. 2024, Arithmetic Feature Interaction Is Necessary for Deep Tabular Learning"
    params_type = AMFormerParams
    low_precision = True
    min_rows = 200
    max_rows = 2_000_000
    max_features = 5_000

    def build(self, sizes: Sizes, params: AMFormerParams) -> AMFormerNetwork:
        return AMFormerNetwork(sizes, params)

    def undecayed(self, network: nn.Module) -> set[str]:
        """All parameters except the weights of linear layers inside the layers and the head, as in the
        FT-Transformer.
        """
        return {
            name
            for name, _ in network.named_parameters()
            if not name.startswith(("layers.", "head.", "pool."))
            or name.endswith((".bias", ".prompts"))
            or "normalization." in name
        }

    def method(
        self, network: nn.Module, params: TrainingParams, objective: Objective, context: FitContext
    ) -> TrainingMethod:
        undecayed = self.undecayed(network)
        return AMFormerTraining(
            network, params, objective, undecayed=undecayed, low_precision=self.low_precision, repeats_steps=True
        )

    def describe(
        self, network: nn.Module, train: Table, params: AMFormerParams, context: FitContext
    ) -> dict[str, object]:
        """The features that prompts select."""
        assert isinstance(network, AMFormerNetwork)
        if not network.has_product_prompts:
            return {}
        rows = train.take(slice(0, SUMMARY_ROWS))
        with torch.inference_mode():
            selection = selection_of_features(network, rows, torch.device(context.device))
        return {"prompt_selection": described(selection, context.features.sources, params.top_k)}

    def defaults(self, task: Task, shape: Shape, device: str) -> AMFormerParams:
        """The paper's AMF-F on a GPU (Table 7), with batches that fit in memory, as in the paper for its widest table.

        NOTE[DIFF]: on a CPU, smaller tokens, fewer layers and heads, a higher learning rate after a short warm-up, weight
        averaging and no dropout, because minutes on a CPU allow only a few epochs. In 25 s, one thread reached an RMSE of
        49,400 on California housing, against 51,000 with the paper's learning rate and 8 heads. On all devices, numbers are
        mapped to a normal distribution by quantiles; standardized as in the paper (`numeric="standard"`), the RMSE was 53,400.
        """
        params = AMFormerParams()
        if device == "cpu":
            params = AMFormerParams(
                n_layers=2,
                d_token=64,
                n_heads=4,
                attention_dropout=0.0,
                ffn_dropout=0.0,
                learning_rate=3e-3,
                average_decay=0.99,
                warmup_steps=100,
            )
        size = batch_size_for(shape.n_rows)
        while size > 8 and size * bytes_per_row(shape.n_features, params) > (1e9 if device == "cpu" else 1e10):
            size //= 2
        return msgspec.structs.replace(params, batch_size=None if size == batch_size_for(shape.n_rows) else size)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[AMFormerParams, ...]:
        """AMF-A, with the token size of Table 7."""
        params = self.defaults(task, shape, device)
        return (msgspec.structs.replace(params, backbone="autoint", d_token=32),)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> AMFormerParams:
        """Ranges around the values of section 5.4, because the paper tunes nothing. Learning rate and dropout are as for
        the FT-Transformer.
        """
        params = self.defaults(task, shape, device)
        return msgspec.structs.replace(
            params,
            backbone=trial.suggest_categorical("backbone", ["ft_transformer", "autoint"]),
            n_layers=trial.suggest_int("n_layers", 1, 4),
            d_token=trial.suggest_categorical("d_token", [32, 64, 96, 128, 192]),
            top_k=trial.suggest_int("top_k", 2, 16),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 5e-3, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        """Measurements show that elementwise operations dominate, so the estimate includes them."""
        assert isinstance(params, AMFormerParams)
        d = params.d_token
        flops = n_weights = 0
        for layer in layer_sizes(shape.n_features, params):
            n_tokens, n_kept = layer.n_tokens, layer.n_kept
            reach = n_tokens if n_tokens <= MANY_TOKENS else params.top_k
            flops += n_tokens * 7 * d * d + n_kept * 4 * d * d + (n_tokens + n_kept) * 1000 * d
            flops += layer.n_queries * (3 * n_tokens * d + 400 * params.n_heads * reach)
            n_weights += 11 * d * d + layer.n_queries * d + (layer.n_queries + n_tokens) * n_kept
        n_bytes = network_bytes(
            shape,
            n_weights,
            device,
            values=48 * params.n_layers * shape.n_features * d,
            peak=10 * params.n_layers * shape.n_features * d,
            batch_size=params.batch_size,
            # Sums over the prompts that each token selects are not kept.
            kept=0.5,
        )
        return training_cost(shape, 6 * shape.n_rows * flops, n_weights, device, n_epochs=40, n_bytes=n_bytes)


def selection_of_features(network: AMFormerNetwork, rows: Table, device: torch.device) -> Tensor:
    """(n_prompts, n_features): how often each prompt of the products selects each feature."""
    selection = network.selection(*inputs(rows, device)).cpu()
    return selection if network.cls is None else selection[:, 1:]


def described(selection: Tensor, columns: Sequence[str], top_k: int) -> list[dict[str, float]]:
    """For each of the first prompts, the columns that it selects most often, with the frequency of their most frequent feature."""
    described: list[dict[str, float]] = []
    for frequencies in selection[:SUMMARY_PROMPTS]:
        highest = frequencies.topk(min(top_k, len(columns)))
        found: dict[str, float] = {}
        for i, frequency in zip(highest.indices.tolist(), highest.values.tolist(), strict=True):
            if frequency > 0:
                found.setdefault(columns[int(i)], round(frequency, 3))
        described.append(found)
    return described
