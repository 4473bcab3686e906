"""GrowNet: Badirli et al. 2020, Gradient Boosting Neural Networks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp import metrics
from tabapp.features.arrays import UNSEEN, Table
from tabapp.models.contract import Cost, FitContext, FittedModel, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes
from tabapp.nn.layers.batch_norm import BatchNorm
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.layers.gather import one_hot
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, SavedModel, Sizes
from tabapp.nn.training.checkpoint import Progress, Saving, load_checkpoint, save_checkpoint
from tabapp.nn.training.objective import Objective, target_of
from tabapp.nn.training.params import batch_size_for
from tabapp.nn.training.stopping import criterion
from tabapp.nn.training.trainer import (
    Training,
    batches,
    inputs,
    predict_output,
    seed_everything,
)

from ._shared.search import zero_or

LARGEST_MARGIN = 10.0
"""Bound of |y F| in functional gradients, which are exponential in it."""
LEAST_SHARE = torch.tensor(-LARGEST_MARGIN).sigmoid().item()
"""Bound of a class's probability, so that a logit is within the margin."""
STAGES_PER_RATE = 15
"""Number of stages after which the learning rate and the penalty are halved."""


class GrowNetParams(Params, frozen=True, kw_only=True):
    """Attributes:
    n_learners: maximum number of stages, each with one weak learner.
    width: size of the two hidden layers of a learner.
    stage_epochs: epochs that train only the new learner.
    corrective_epochs: epochs after each stage that train all learners together.
    learning_rate: learning rate of Adam; corrective steps use half of it in classification and a third in regression.
    l2_penalty: L2 penalty of Adam, added to the gradient.
    batch_size: rows per training step; None derives it from the number of rows (`batch_size_for`).
    patience: maximum stages without improvement on the early-stopping rows.
    unseen_rate: probability of replacing a category by the code for unseen levels in corrective steps.
    """

    n_learners: int = 40
    width: int = 32
    stage_epochs: int = 1
    corrective_epochs: int = 1
    learning_rate: float = 5e-3
    l2_penalty: float = 0.0
    batch_size: int | None = None
    patience: int = 16
    unseen_rate: float = 0.01


class WeakLearner(nn.Module):
    """Linear(ReLU(m)), where m = Linear(BatchNorm(LeakyReLU(Linear(x)))) is passed to the next learner.

    Shape: (rows, d_in) and the (rows, width) features of the previous learner, None for the first one, to (rows, width)
    features and the (rows, d_out) prediction.
    """

    def __init__(self, d_in: int, width: int, d_out: int, *, is_first: bool) -> None:
        super().__init__()
        d_in = d_in if is_first else d_in + width
        self.input_norm = None if is_first else BatchNorm(d_in)
        self.first = Linear(d_in, width)
        self.norm = BatchNorm(width)
        self.second = Linear(width, width)
        self.head = Linear(width, d_out)

    def forward(self, x: Tensor, lower: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.input_norm is not None:
            assert lower is not None
            x = self.input_norm(torch.cat([x, lower], dim=1))
        features = self.second(self.norm(F.leaky_relu(self.first(x), 0.1)))
        return features, self.head(features.relu())


class GrowNetNetwork(nn.Module):
    """c₀ + ρ Σ f_k(x, features of f_{k-1}) over the learners trained so far (section 3.1).

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: GrowNetParams) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        learners = [
            WeakLearner(self.input.d_out, params.width, sizes.d_out, is_first=i == 0) for i in range(params.n_learners)
        ]
        self.learners = nn.ModuleList(learners)
        self.boost_rate = nn.Parameter(torch.ones(()))
        self.register_buffer("base", torch.zeros(sizes.d_out))
        self.base: Tensor
        self.n_grown = params.n_learners

    def ensemble(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The (rows, d_out) output for a flat input, and the features of the last trained learner."""
        total, features = torch.zeros(x.shape[0], len(self.base), device=x.device), None
        for learner in self.learners[: self.n_grown]:
            features, prediction = learner(x, features)
            total = total + prediction
        return self.base + self.boost_rate * total, features

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.ensemble(self.input(numeric, categorical))[0]


def start_value(objective: Objective, target: Tensor, weight: Tensor | None) -> Tensor:
    """(d_out,) c₀: the mean of the target, or the log-odds or log-shares of its classes."""
    weight = torch.ones(len(target), device=target.device) if weight is None else weight
    if objective.task == "regression":
        return (weight * target).sum()[None] / weight.sum()
    counts = torch.zeros(objective.n_classes, device=target.device).index_add_(0, target.long(), weight)
    logs = counts.clamp(min=0.5).log()
    return (logs[1] - logs[0])[None] if objective.task == "binary" else logs - counts.sum().log()


def newton_step(objective: Objective, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, d_out) steps that minimize the loss to second order, and their weights, the second derivatives (section
    3.2). Steps of rows with large errors are bounded.
    """
    if objective.task == "regression":
        return target.unsqueeze(1) - output, torch.ones_like(output)
    if objective.task == "binary":
        label = 2 * target.unsqueeze(1) - 1
        margin = (label * output).clamp(-LARGEST_MARGIN, LARGEST_MARGIN)
        return label * (1 + (-margin).exp()), margin.sigmoid() * (-margin).sigmoid()
    p = output.softmax(1).clamp(LEAST_SHARE, 1 - LEAST_SHARE)
    residual = one_hot(target, output.shape[1]) - p
    curvature = p * (1 - p)
    return residual / curvature, curvature


class Boosting:
    """Stage-wise training of a network on its device (algorithm 1)."""

    def __init__(
        self, network: GrowNetNetwork, train: Table, params: GrowNetParams, objective: Objective, context: FitContext
    ) -> None:
        self.network, self.params, self.objective, self.context = network, params, objective, context
        device = network.base.device
        self.numeric, self.categorical = inputs(train, device)
        self.target = objective.target(train, device)
        self.weight = None if train.weight is None else torch.tensor(train.weight / train.weight.mean(), device=device)
        network.base.copy_(start_value(objective, self.target, self.weight))
        network.n_grown = 0

    def _epochs(self, n: int) -> Iterable[Tensor]:
        """Batches of n epochs, up to the deadline."""
        size = self.params.batch_size or batch_size_for(len(self.target))
        for _ in range(n):
            for rows in batches(torch.randperm(len(self.target), device=self.target.device), size):
                yield rows
                if self.context.seconds_left() <= 0:
                    return

    def _weighted(self, rows: Tensor) -> Tensor | None:
        return None if self.weight is None else self.weight[rows]

    def _optimizer(self, weights: Iterable[Tensor], rate: float, stage: int) -> torch.optim.Optimizer:
        halved = 0.5 ** (stage // STAGES_PER_RATE)
        return torch.optim.Adam(weights, lr=rate * halved, weight_decay=self.params.l2_penalty * halved, fused=True)

    def fit_learner(self, stage: int) -> None:
        """Fit a stage's learner alone to the Newton step of the ensemble before it, and add it to the ensemble."""
        network = self.network.eval()
        learner = network.learners[stage].train()
        optimizer = self._optimizer(learner.parameters(), self.params.learning_rate, stage)
        boost_rate = network.boost_rate.detach()
        for rows in self._epochs(self.params.stage_epochs):
            with torch.no_grad():
                # The earlier learners stay in evaluation mode, or their running statistics would drift.
                x = network.input(self.numeric[rows], self.categorical[rows])
                output, features = network.ensemble(x)
                step, curvature = newton_step(self.objective, output, self.target[rows])
            error = curvature * (boost_rate * learner(x, features)[1] - step).square()
            weight = self._weighted(rows)
            optimizer.zero_grad(set_to_none=True)
            (error.sum(1) if weight is None else weight * error.sum(1)).mean().backward()
            optimizer.step()
        network.n_grown = stage + 1

    def stage(self, stage: int) -> None:
        """Add a learner, and correct all of them."""
        self.fit_learner(stage)
        if stage and self.context.seconds_left() > 0:
            self.correct(stage)

    def correct(self, stage: int) -> None:
        """Train all learners so far, the boost rate and the embeddings together on the loss."""
        network, params = self.network, self.params
        grown = network.learners[: network.n_grown].train()
        weights = [*grown.parameters(), network.boost_rate, *network.input.parameters()]
        share = 1 / 3 if self.objective.task == "regression" else 1 / 2
        optimizer = self._optimizer(weights, params.learning_rate * share, stage)
        for rows in self._epochs(params.corrective_epochs):
            codes = self.categorical[rows]
            if params.unseen_rate and codes.shape[1]:
                codes = codes.masked_fill(torch.rand(codes.shape, device=codes.device) < params.unseen_rate, UNSEEN)
            optimizer.zero_grad(set_to_none=True)
            output = network(self.numeric[rows], codes)
            self.objective.loss(output, self.target[rows], self._weighted(rows)).backward()
            optimizer.step()


def grow(
    network: GrowNetNetwork,
    train: Table,
    valid: Table,
    params: GrowNetParams,
    objective: Objective,
    context: FitContext,
) -> Training:
    """Train one learner after another, and keep those up to the best stage by `criterion` on `valid`.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
    """
    boosting = Boosting(network, train, params, objective, context)
    valid_inputs = inputs(valid, network.base.device)
    best = {name: t.clone() for name, t in network.state_dict().items()}
    state = {"network": dict(network.state_dict()), "best": best}
    # Each stage creates its optimizers, so a checkpoint between stages contains none.
    stateless = torch.optim.SGD(network.parameters(), lr=0.0)
    stage, best_stage, best_loss, seconds_before = 0, 0, float("inf"), 0.0
    if resumed := load_checkpoint(context.folder, state, stateless):
        stage, best_stage, best_loss = resumed.epoch, resumed.best_epoch, resumed.best_loss
        seconds_before = resumed.seconds
        network.n_grown = stage
    started, saving = time.monotonic(), Saving()
    while stage < params.n_learners and stage - best_stage <= params.patience:
        boosting.stage(stage)
        stage += 1
        prediction = objective.prediction(predict_output(network, *valid_inputs))
        loss = metrics.loss(criterion(context), target_of(valid), prediction, valid.weight)
        if loss < best_loss or stage == 1:
            best_loss, best_stage = loss, stage
            for name, t in network.state_dict().items():
                best[name].copy_(t)
        if context.seconds_left() <= 0:
            break
        if saving.is_due():
            progress = Progress(
                epoch=stage,
                best_epoch=best_stage,
                best_loss=best_loss,
                n_steps=0,
                planned_epochs=params.n_learners,
                chunk=0,
                seconds=seconds_before + time.monotonic() - started,
            )
            with saving.timed():
                save_checkpoint(context.folder, state, stateless, progress)
        context.report(stage, metrics.score(context.metric, target_of(valid), prediction, valid.weight))
    network.load_state_dict(best)
    network.learners = network.learners[:best_stage]
    network.n_grown = best_stage
    network.eval()
    return Training(best_stage, stage, best_loss)


class GrowNet(DeepPlugin):
    """NOTE[DIFF]: multiclass tasks are supported, with one output per class and the gradient of the softmax. As in the
    paper, binary targets are -1 and +1 and the boost rate is learned on every table; Gorishniy et al. 2021 use 0 and 1, and
    learn the boost rate only on tables with categories.
    """

    name = "grownet"
    title = "GrowNet"
    paper = "Badirli et al. 2020, Gradient Boosting Neural Networks: GrowNet"
    params_type = GrowNetParams
    min_rows = 500
    max_features = 5_000

    def build(self, sizes: Sizes, params: GrowNetParams) -> GrowNetNetwork:
        return GrowNetNetwork(sizes, params)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        assert isinstance(params, GrowNetParams)
        device = seed_everything(context)
        objective, sizes = self._sizes(train, context)
        if objective.is_constant:
            return self._constant(sizes, objective, params, device)
        network = self.build(sizes, params).to(device)
        training = grow(network, train, valid, params, objective, context)
        params = msgspec.structs.replace(params, n_learners=training.best_epoch)
        return self._saved(network, sizes, objective, params, training, device)

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel | None:
        """Train as many stages as the models of the folds have on average."""
        assert isinstance(params, GrowNetParams)
        stages = [summary["best_stage"] for summary in summaries if summary.get("best_stage")]
        if not stages:
            return None
        device = seed_everything(context)
        objective, sizes = self._sizes(train, context)
        if objective.is_constant:
            return self._constant(sizes, objective, params, device)
        n_stages = max(1, round(sum(stages) / len(stages)))
        params = msgspec.structs.replace(params, n_learners=n_stages)
        network = self.build(sizes, params).to(device)
        boosting = Boosting(network, train, params, objective, context)
        for stage in range(n_stages):
            boosting.stage(stage)
        network.eval()
        return self._saved(network, sizes, objective, params, Training(n_stages, n_stages, float("nan")), device)

    def _sizes(self, train: Table, context: FitContext) -> tuple[Objective, Sizes]:
        objective, spec = Objective.fit(train, context), context.features
        sizes = Sizes(
            n_numeric=len(spec.numeric),
            cardinalities=spec.cardinalities,
            d_out=objective.d_out,
            n_classes=objective.n_classes,
        )
        return objective, sizes

    def _constant(self, sizes: Sizes, objective: Objective, params: GrowNetParams, device: torch.device) -> FittedModel:
        """A model of a constant target."""
        params = msgspec.structs.replace(params, n_learners=1)
        network = self.build(sizes, params).to(device)
        return self._saved(network, sizes, objective, params, Training(0, 0, 0.0), device)

    def _saved(
        self,
        network: GrowNetNetwork,
        sizes: Sizes,
        objective: Objective,
        params: GrowNetParams,
        training: Training,
        device: torch.device,
    ) -> FittedModel:
        facts = {
            "parameters": sum(p.numel() for p in network.parameters()),
            "best_stage": training.best_epoch,
            "stages": training.n_epochs,
            "boost_rate": network.boost_rate.item(),
        }
        saved = SavedModel(sizes=sizes, objective=objective, params=msgspec.to_builtins(params), facts=facts)
        return self.model_type(network, saved, device)

    def defaults(self, task: Task, shape: Shape, device: str) -> GrowNetParams:
        """Defaults of the authors' scripts."""
        return GrowNetParams()

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> GrowNetParams:
        """The search space of the released results of Gorishniy et al. 2021, which is wider than the grid in their
        Table 12.

        NOTE[DIFF]: the learning rate starts at 1e-4 instead of 1e-5, at which a network hardly learns within a budget.
        """
        return GrowNetParams(
            width=trial.suggest_int("width", 32, 128 if device == "cpu" else 512),
            stage_epochs=trial.suggest_int("stage_epochs", 1, 2),
            corrective_epochs=trial.suggest_int("corrective_epochs", 1, 2),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            l2_penalty=zero_or(trial, "l2_penalty", 1e-6, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, GrowNetParams)
        n, width = params.n_learners, params.width
        weights = (4 * shape.n_features + 2 * width) * width
        on_gpu = device.startswith("cuda")
        launch, speed = (1e-3, 2e13) if on_gpu else (3.5e-4, 2e11)
        batch = params.batch_size or batch_size_for(shape.n_rows)
        # Elementwise operations are counted as arithmetic that takes the same time. A learner that only computes
        # features costs a third of a trained one.
        learner_step = launch + min(batch, shape.n_rows) * (6 * weights + 2500 * width) / speed
        stages, pairs = n, n * (n - 1) / 2
        n_steps = stages * params.stage_epochs + pairs * (params.stage_epochs / 3 + params.corrective_epochs)
        seconds = 0.5 + max(1, shape.n_rows // batch) * n_steps * learner_step
        # The learners before the last few are trained together for an epoch only.
        values = n * (6 * width + 4 * shape.n_features)
        n_bytes = network_bytes(
            shape, n * weights, device, values=values, peak=0.05 * values, batch_size=params.batch_size, kept=0.2
        )
        return Cost(seconds=seconds, n_bytes=n_bytes)
