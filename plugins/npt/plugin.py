"""Non-Parametric Transformer: Kossen et al. 2021, "Self-Attention Between Datapoints: Going Beyond Individual Input-Output
Pairs
in Deep Learning". Predictions attend to training rows and their targets, so saved models contain them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor

from tabapp import metrics
from tabapp.features.arrays import UNSEEN, FeatureRecipe, Table
from tabapp.models.contract import Cost, FitContext, FittedModel, Params, Plugin, Shape, Task, Trial
from tabapp.nn.costs import BASE_BYTES, CELL_BYTES
from tabapp.nn.training.memory import is_out_of_memory
from tabapp.nn.training.objective import Objective, labeled_rows, target_of
from tabapp.nn.training.shared_trunk import partly_labeled
from tabapp.nn.training.stopping import criterion
from tabapp.nn.training.trainer import seed_everything

from .model import NPTModel, OtherScale, SavedNPT
from .network import Attributes, Entries, NPTNetwork, Predicted
from .params import NPTParams
from .steps import LEAST_BATCH_ROWS, Rows, corrupt, entry_losses, stratified_order
from .timing import evaluated, step_seconds, time_for_predictions, within_time
from .training import train_npt, train_steps

UNLABELED = -2
"""Stratum of the rows without a target."""
N_STRATA = 10
"""Number of quantile groups of a numeric target that batches and contexts contain in proportion."""

Size = Literal["mini", "small", "base"]


def sized(size: Size, n_attributes: int, **changes: Any) -> NPTParams:
    """Return a configuration by name.

    "base" and "small" have the paper's sizes (appendices C.1.1 and C.1.2).

    NOTE[DIFF]: the paper chooses the number of steps for each table: 2,000 to 20,000 for "small", 200,000 to 2,000,000 for "base",
    whose 10,000 steps here are what a budget of minutes on a GPU allows. The batches, the masking and the evaluations are the same
    for all tables. "mini" is an addition for CPUs: half the layers, and the largest embedding for which a step takes about a tenth
    of a second.
    """
    if size == "base":
        params = NPTParams()
    elif size == "small":
        params = NPTParams(d_embedding=128, flat=0.5, n_steps=4000)
    else:
        width = next((e for e in (32, 16) if e * n_attributes <= 300), 8)
        params = NPTParams(
            d_embedding=width,
            n_layers=4,
            n_heads=4,
            learning_rate=1e-2,
            flat=0.5,
            n_steps=600,
            batch_rows=1024,
            n_evaluations=20,
            context_rows=1024,
        )
    return msgspec.structs.replace(params, **changes)


class NPT(Plugin):
    """Training rows without a target (NaN, or a negative code) and those of `FitContext.unlabeled` are used as unlabeled rows
    (appendix C.4.2): their target is masked and never predicted in training, their features are. A fit on a table without a target
    gives a model of the features that can only impute.

    NOTE[DIFF]: standardized numbers are clipped at 10 standard deviations. Tables with more than 100,000 training rows, 60
    features or 100 classes are skipped; the presets take more rows, as the paper does with up to 11 million.
    """

    name = "npt"
    title = "Non-Parametric Transformer"
    family = "deep"
    is_uncertain = True
    uses_device = True
    tolerates_half = True
    has_attention = True
    has_attention_maps = True
    predicts_from_rows = True
    paper = "Kossen et al. 2021, Self-Attention Between Datapoints: Going Beyond Individual Input-Output Pairs in Deep Learning"
    contains_training_rows = True
    can_impute = True
    uses_unlabeled = True
    uses_other_targets = True
    requires = ("torch", "safetensors")
    params_type = NPTParams
    min_rows, max_rows, max_features, max_classes = 50, 100_000, 60, 100

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if shape.n_rows < self.min_rows:
            return f"It needs at least {self.min_rows:,} training rows; the table has {shape.n_rows:,}."
        if shape.n_rows > self.max_rows:
            return (
                f"Rows attend to each other, so it supports at most {self.max_rows:,}; the table has {shape.n_rows:,}."
            )
        if shape.n_features > self.max_features:
            return f"It supports at most {self.max_features} features; the table has {shape.n_features:,}."
        if shape.n_classes > self.max_classes:
            return f"It supports at most {self.max_classes} classes; the target has {shape.n_classes:,}."
        return None

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="standard", missing="keep")

    def defaults(self, task: Task, shape: Shape, device: str) -> NPTParams:
        n_attributes = shape.n_features + 1
        if device == "cpu":
            return sized("mini", n_attributes)
        return sized("small" if shape.n_rows < 2000 and shape.n_features <= 16 else "base", n_attributes)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[NPTParams, ...]:
        """The defaults with the other targets of the run, if there are any.

        NOTE[DIFF]: the paper always trains on unlabeled rows (appendix C.4.2). With NPT Mini they helped in two of six comparisons
        on tables with 50 to 1,000 labeled rows (`benchmarks/results/unlabeled_rows_npt.json`), so no trial of a run uses them.
        """
        if not shape.n_other_targets:
            return ()
        return (msgspec.structs.replace(self.defaults(task, shape, device), other_targets=True),)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> NPTParams:
        """The depth, heads and masking rates of the variants in appendix C.1.2.

        NOTE[DIFF]: the paper compares eight named variants of NPT-Small with a fixed learning rate and dropout, and tunes nothing
        of NPT-Base. Here any combination may be drawn, the learning rate and dropout are searched too, no masking of features is a
        choice, and the variant with a cyclic learning rate is in the preset `npt:small` only. On a CPU, the depth and the number of
        heads are limited.
        """
        params = self.defaults(task, shape, device)
        wide = device != "cpu"
        return msgspec.structs.replace(
            params,
            n_layers=trial.suggest_categorical("n_layers", [8, 16] if wide else [2, 4]),
            n_heads=trial.suggest_categorical("n_heads", [8, 16] if wide else [4, 8]),
            target_masking=trial.suggest_categorical("target_masking", [0.1, 0.5, 1.0]),
            feature_masking=trial.suggest_categorical("feature_masking", [0.0, 0.15, 0.2]),
            learning_rate=trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True),
            dropout=trial.suggest_float("dropout", 0.0, 0.3),
            other_targets=bool(shape.n_other_targets) and trial.suggest_categorical("other_targets", [False, True]),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, NPTParams)
        d, e = shape.n_features + 1, params.d_embedding
        h, rows, pairs = d * e, min(shape.n_rows, params.batch_rows), params.n_layers // 2
        weights = pairs * 13 * (h * h + e * e)
        each = step_seconds(params, d, rows, device)
        seconds = 1 + params.n_steps * (1 + 1 / params.n_evaluations) * each
        between_rows = 6 * rows * rows * params.n_heads * pairs
        between_attributes = 16 * rows * d * d * params.n_heads * pairs
        n_bytes = BASE_BYTES + 7 * 4 * weights + rows * h * pairs * 120 + between_rows + between_attributes
        n_bytes += CELL_BYTES * shape.n_rows * shape.n_features
        return Cost(seconds=seconds, n_bytes=int(n_bytes))

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        assert isinstance(params, NPTParams)
        device = seed_everything(context)
        n_attributes, seconds = train.numeric.shape[1] + train.categorical.shape[1] + 1, context.seconds_left()
        params = within_time(params, n_attributes, len(train), context.device, seconds)
        if context.soft_deadline is not None:
            later = time_for_predictions(params, n_attributes, context.n_scored, context.device, seconds)
            context = replace(context, soft_deadline=context.soft_deadline - later)
        saved = _plan(train, params, context)
        network = saved.build().to(device)
        objective = saved.objective
        known, asked = saved.entries(train, with_target=True), saved.entries(valid, with_target=True)
        always_hidden = saved.attributes.targets if params.target_masking >= 1 else ()
        strata = _strata(train, objective)
        chooser = torch.Generator().manual_seed(context.seed)
        trained = 0, 0
        if objective is None or not objective.is_constant:
            more = _unlabeled_entries(saved, context, len(train))
            rows = Rows(
                entries=Entries.joined([known, asked.hiding(saved.attributes.targets), *more]).to(device),
                weight=_weights(train, len(valid) + sum(map(len, more))).to(device),
                strata=torch.cat(
                    [strata, torch.full((len(valid),), -1), *(torch.full((len(part),), UNLABELED) for part in more)]
                ),
                own=None if objective is None else saved.target,
            )
            first = stratified_order(strata, chooser)[: params.context_rows]
            seen = known.take(first).hiding(always_hidden)
            some = evaluated(params, n_attributes, len(valid), context.device, seconds)
            evaluation = _Evaluation(saved, network, seen, first, device, valid.take(some), asked.take(some), context)
            training = train_npt(network, rows, params, evaluation, context)
            trained = training.n_steps, training.best_step
            if evaluation.context_rows < len(first):
                # A larger context did not fit in memory.
                params = msgspec.structs.replace(params, context_rows=evaluation.context_rows)
                saved = msgspec.structs.replace(saved, params=params)
        # After training, the early-stopping rows serve as context with known targets.
        stored = Entries.joined([known, asked]).hiding(always_hidden)
        everything = torch.cat([strata, _strata(valid, objective)])
        return _with_context(network, saved, stored, everything, trained, chooser, device)

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel | None:
        """Train up to the mean of the best steps of the folds, with their schedule."""
        assert isinstance(params, NPTParams)
        found = [(summary["steps"], summary["best_step"]) for summary in summaries if summary.get("best_step")]
        if not found:
            return None
        planned, n_steps = (max(1, round(sum(each) / len(found))) for each in zip(*found, strict=True))
        device = seed_everything(context)
        saved = _plan(train, params, context)
        network = saved.build().to(device)
        objective = saved.objective
        known, strata = saved.entries(train, with_target=True), _strata(train, objective)
        if objective is None or not objective.is_constant:
            more = _unlabeled_entries(saved, context, len(train))
            rows = Rows(
                entries=Entries.joined([known, *more]).to(device),
                weight=_weights(train, sum(map(len, more))).to(device),
                strata=torch.cat([strata, *(torch.full((len(part),), UNLABELED) for part in more)]),
                own=None if objective is None else saved.target,
            )
            train_steps(network, rows, params, n_steps, planned, context)
        stored = known.hiding(saved.attributes.targets if params.target_masking >= 1 else ())
        chooser = torch.Generator().manual_seed(context.seed)
        return _with_context(network, saved, stored, strata, (planned, n_steps), chooser, device)

    def load(self, folder: Path) -> FittedModel:
        return NPTModel.load(folder)


def _with_context(
    network: NPTNetwork,
    saved: SavedNPT,
    stored: Entries,
    strata: Tensor,
    trained: tuple[int, int],
    chooser: torch.Generator,
    device: torch.device,
) -> NPTModel:
    """A model with the rows that predictions attend to.

    Args:
        stored: rows to choose the contexts from; `strata` are theirs.
        trained: steps, and the step of the weights.
    """
    source, draws = _contexts(stored, strata, saved, chooser)
    facts = {
        "parameters": sum(p.numel() for p in network.parameters()),
        "steps": trained[0],
        "best_step": trained[1],
        "context_rows": draws.shape[1],
        "contexts": draws.shape[0],
    }
    saved = msgspec.structs.replace(saved, facts=facts)
    return NPTModel(network, saved, stored.take(source), source, draws, device)


class _Evaluation:
    """The loss of the early-stopping rows, and the score to report, from one context of training rows.

    Attributes:
        context_rows: rows of the context. A context that does not fit in memory is halved.
    """

    def __init__(
        self,
        saved: SavedNPT,
        network: NPTNetwork,
        seen: Entries,
        source: Tensor,
        device: torch.device,
        valid: Table,
        asked: Entries,
        context: FitContext,
    ) -> None:
        self._model = lambda n: NPTModel(network, saved, seen, source, torch.arange(n)[None], device)
        self.context_rows = len(source)
        self._saved, self._valid, self._context = saved, valid, context
        self._truth = asked
        generator = torch.Generator().manual_seed(context.seed)
        self._shown, self._chosen = corrupt(asked, saved.attributes, saved.params, generator)

    def __call__(self) -> tuple[float, float]:
        while True:
            try:
                return self._evaluate(self._model(self.context_rows))
            except Exception as error:
                if not is_out_of_memory(error) or self.context_rows // 2 < LEAST_BATCH_ROWS:
                    raise
            self.context_rows //= 2

    def _evaluate(self, model: NPTModel) -> tuple[float, float]:
        if self._saved.objective is None:
            (said,) = model.recall(self._shown)
            on_cpu = Predicted(said.numeric.cpu(), [logits.cpu() for logits in said.logits])
            loss = float(entry_losses(on_cpu, self._truth)[self._chosen].mean())
            return loss, -loss
        truth, weight = target_of(self._valid), self._valid.weight
        prediction = model.predict(self._valid)
        loss = metrics.loss(criterion(self._context), truth, prediction, weight)
        return loss, metrics.score(self._context.metric, truth, prediction, weight)


def _plan(train: Table, params: NPTParams, context: FitContext) -> SavedNPT:
    """Describe the model except its weights."""
    spec = context.features
    objective = None
    if train.target is not None:
        objective = Objective.fit(train.take(labeled_rows(train, context.task)), context)
    regression = objective is not None and objective.task == "regression"
    n_levels = [cardinality - 1 for cardinality in spec.cardinalities]
    others = _other_scales(train, context) if params.other_targets and objective is not None else ()
    n_levels += [other.n_classes for other in others if other.n_classes > 1]
    n_numbers = sum(other.n_classes == 1 for other in others)
    if objective is not None and not regression:
        n_levels.append(objective.n_classes)
    names = (*spec.numeric, *spec.categorical)
    if unknown := [name for name in params.also_predict if name not in names]:
        raise ValueError(f"also_predict names {unknown[0]!r}, which is not a feature of this table")
    saved = SavedNPT(
        objective=objective,
        attributes=Attributes(n_numeric=len(spec.numeric) + n_numbers + regression, n_levels=tuple(n_levels)),
        n_features=(len(spec.numeric), len(spec.categorical)),
        also_predict=tuple(names.index(name) for name in params.also_predict),
        known_unseen=tuple(bool(known) for known in (train.categorical == UNSEEN).any(axis=0)),
        params=params,
        facts={},
        others=others,
    )
    targets = [*(saved.attribute(feature) for feature in saved.also_predict), *saved.other_attributes]
    if objective is not None:
        targets.append(saved.target)
    attributes = msgspec.structs.replace(saved.attributes, targets=tuple(sorted(targets)))
    return msgspec.structs.replace(saved, attributes=attributes)


def _other_scales(train: Table, context: FitContext) -> tuple[OtherScale, ...]:
    """The other targets of the rows to learn from; a number that is constant or missing everywhere keeps its units."""
    if train.others is None:
        return ()
    partly = partly_labeled(context.unlabeled, len(train))
    others = train.others if partly is None or partly.others is None else np.vstack([train.others, partly.others])
    found: list[OtherScale] = []
    for values, other in zip(others.T, context.other_targets, strict=True):
        known = values[np.isfinite(values)]
        is_scaled = other.n_classes == 1 and len(known) and known.std() > 0
        mean, std = (float(known.mean()), float(known.std())) if is_scaled else (0.0, 1.0)
        found.append(OtherScale(name=other.name, n_classes=other.n_classes, mean=mean, std=std))
    return tuple(found)


def _unlabeled_entries(saved: SavedNPT, context: FitContext, n_labeled: int) -> list[Entries]:
    """The entries of rows without a target: those that have another target, if the model learns these, then others, evenly spaced,
    at most `NPTParams.unlabeled` for each labeled row. Empty without any.

    NOTE[DIFF]: the paper's batches contain all rows in proportion. Where most rows are unlabeled, its batches would contain few
    targets.
    """
    rows, most = context.unlabeled, round(saved.params.unlabeled * n_labeled)
    if rows is None or saved.objective is None or not len(rows):
        return []
    found: list[Entries] = []
    if saved.others and (partly := partly_labeled(rows, n_labeled)) is not None:
        missing = np.full(len(partly), np.nan) if saved.objective.task == "regression" else np.full(len(partly), -1)
        found.append(saved.entries(replace(partly, target=missing), with_target=True))
    if saved.others and rows.others is not None:
        rows = rows.take(np.flatnonzero(~np.isfinite(rows.others).any(axis=1)))
    if most and len(rows):
        found.append(saved.entries(rows.take(slice(None, None, -(-len(rows) // most))), with_target=False))
    return found


def _weights(train: Table, n_valid: int) -> Tensor:
    """Weights of mean one, for training rows followed by early-stopping rows."""
    weight = np.ones(len(train), np.float32) if train.weight is None else train.weight / train.weight.mean()
    return torch.from_numpy(np.concatenate([weight, np.ones(n_valid)]).astype(np.float32))


def _strata(table: Table, objective: Objective | None) -> Tensor:
    """Class, or group by the target's quantiles; rows without a target form the stratum `UNLABELED`."""
    if objective is None:
        return torch.zeros(len(table), dtype=torch.int64)
    y, known = target_of(table), labeled_rows(table, objective.task)
    if objective.task != "regression":
        return torch.from_numpy(np.where(known, y, UNLABELED).astype(np.int64))
    edges = np.quantile(y[known], np.linspace(0, 1, N_STRATA + 1)[1:-1]) if known.any() else np.empty(0)
    return torch.from_numpy(
        np.where(known, np.searchsorted(edges, np.where(known, y, 0.0)), UNLABELED).astype(np.int64)
    )


def _contexts(stored: Entries, strata: Tensor, saved: SavedNPT, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Choose the stored rows and the contexts: one context of all rows, or stratified samples.

    Rows without a target are drawn only if there are not enough rows with a target.
    """
    params = saved.params
    if len(stored) <= params.context_rows:
        return torch.arange(len(stored)), torch.arange(len(stored))[None]
    candidates = torch.nonzero(strata != UNLABELED)[:, 0]
    if len(candidates) < params.context_rows:
        candidates = torch.arange(len(stored))
    drawn: list[Tensor] = []
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(params.n_contexts):
        if len(order) < params.context_rows:
            order = candidates[stratified_order(strata[candidates], generator)]
        drawn.append(order[: params.context_rows])
        order = order[params.context_rows :]
    source, draws = torch.unique(torch.stack(drawn), return_inverse=True)
    return source, draws
