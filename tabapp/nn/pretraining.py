"""Self-supervised pre-training of Transformers on rows without a target (Huang et al. 2020, TabTransformer, section 2: masked cells
and replaced cells).

Cells of a row are chosen at random. Half of them are masked, and the network predicts their values. The other half are replaced by
the values of other rows, and the network detects which cells are replaced.

NOTE[DIFF]: Huang et al. 2020 pre-train with one of the two tasks and on categorical columns only. Here one pass
serves both tasks. Numeric columns that the network has tokens for join in: a masked number is a learned vector, and
its loss is the squared error of the transformed number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable
from zlib import crc32

import msgspec
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.features.arrays import MISSING, FeatureRecipe, Table
from tabapp.models.contract import Cost, FitContext, Params, Shape, Task
from tabapp.nn.layers.precision import autocast, has_fast_bfloat16
from tabapp.nn.layers.tokenizers import uniform_rows
from tabapp.nn.loading import WEIGHTS
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.memory import is_out_of_memory
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams
from tabapp.nn.training.trainer import inputs, seed_everything

FACTS = "pretraining.json"
BATCH_ROWS, LEAST_BATCH_ROWS = 256, 4
CHOSEN = 0.3
"""Share of the cells that are masked or replaced (section 3 of the paper: k = 30)."""
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-5
COUNTED_EPOCHS = 40
"""Epochs that the costs of Transformers assume."""
ALL_TOKENS = 1.5
"""Cost of computing all tokens of the last layer, relative to [CLS] only, in a network of two layers."""
LAST_SHARE = 0.1
"""Share of the last steps whose mean loss is reported."""


Pretext = Literal["both", "masked", "replaced"]
"""What pre-training predicts: the content of masked cells, which cells are replaced, or both (sections 2 and 3 of the paper, MLM
and RTD)."""


@runtime_checkable
class Encoder(Protocol):
    """A network that encodes each column of a row.

    Attributes:
        n_encoded_numeric: number of numeric columns that are encoded: all or none.
        d_encoded: width of an encoded column.
    """

    n_encoded_numeric: int
    d_encoded: int

    def encoded_columns(self, numeric: Tensor, categorical: Tensor, masked: Tensor, mask: Tensor) -> Tensor:
        """(rows, n_encoded_numeric + n_categorical, d_encoded): the columns after the last layer.

        Args:
            masked: (rows, n_encoded_numeric) bool: numbers to replace by their vector in `mask`.
            mask: (n_encoded_numeric, d_encoded).
        """
        ...


@runtime_checkable
class PretrainedParams(Protocol):
    """Hyperparameters of a pre-trained network; `pretraining_steps` is the maximum number of steps."""

    pretraining_steps: int


class Guesses(nn.Module):
    """The heads of pre-training: values of numbers, levels of categories, and the log-odds that a cell is replaced. Each column has
    its own.

    Shape: (rows, n_numeric + n_categorical, d) to (rows, n_numeric), a (rows, cardinality) for each categorical column, and
    (rows, n_numeric + n_categorical).
    """

    def __init__(self, n_numeric: int, cardinalities: Sequence[int], d: int) -> None:
        super().__init__()
        n_columns = n_numeric + len(cardinalities)
        self.mask = uniform_rows(n_numeric, d)
        self.value, self.value_bias = uniform_rows(n_numeric, d), nn.Parameter(torch.zeros(n_numeric))
        self.detector, self.detector_bias = uniform_rows(n_columns, d), nn.Parameter(torch.zeros(n_columns))
        self.levels = nn.ModuleList([nn.Linear(d, cardinality) for cardinality in cardinalities])

    def forward(self, columns: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        n_numeric = len(self.value)
        values = (columns[:, :n_numeric] * self.value).sum(2) + self.value_bias
        logits = [head(columns[:, n_numeric + j]) for j, head in enumerate(self.levels)]
        return values, logits, (columns * self.detector).sum(2) + self.detector_bias


def pretext_loss(
    network: Encoder, guesses: Guesses, numeric: Tensor, categorical: Tensor, pretext: Pretext = "both"
) -> Tensor:
    """Mean loss of the masked cells plus mean loss of detecting replaced cells among the others, with new random cells; or only one
    of the two.

    Shape: (rows, n_encoded_numeric) and (rows, n_categorical) to a scalar.
    """
    n_rows, n_numeric = numeric.shape
    n_columns = n_numeric + categorical.shape[1]
    draw = torch.rand(n_rows, n_columns, device=numeric.device)
    last_masked = {"both": CHOSEN / 2, "masked": CHOSEN, "replaced": 0.0}[pretext]
    masked, replaced = draw < last_masked, (draw >= last_masked) & (draw < CHOSEN)
    source = torch.randint(n_rows, (n_rows, n_columns), device=numeric.device)
    other_numeric, other_codes = numeric.gather(0, source[:, :n_numeric]), categorical.gather(0, source[:, n_numeric:])
    shown = torch.where(replaced[:, :n_numeric], other_numeric, numeric)
    codes = torch.where(replaced[:, n_numeric:], other_codes, categorical)
    codes = codes.masked_fill(masked[:, n_numeric:], MISSING)
    columns = network.encoded_columns(shown, codes, masked[:, :n_numeric], guesses.mask)
    values, logits, detected = guesses(columns.float())
    losses = [(values - numeric).square()]
    losses += [F.cross_entropy(each, categorical[:, j], reduction="none").unsqueeze(1) for j, each in enumerate(logits)]
    changed = replaced & torch.cat([other_numeric != numeric, other_codes != categorical], dim=1)
    detection = F.binary_cross_entropy_with_logits(detected, changed.float(), reduction="none")
    value_loss = torch.where(masked, torch.cat(losses, dim=1), 0.0).sum() / masked.sum().clamp(min=1)
    detection_loss = torch.where(masked, 0.0, detection).sum() / (~masked).sum().clamp(min=1)
    return {"both": value_loss + detection_loss, "masked": value_loss, "replaced": detection_loss}[pretext]


def pretrain_network(
    network: nn.Module,
    rows: Table,
    cardinalities: Sequence[int],
    n_steps: int,
    context: FitContext,
    pretext: Pretext = "both",
) -> dict[str, Any]:
    """Train the encoder of a network on its device until `n_steps` or the soft deadline; returns facts for the details view.

    The learning rate is annealed to zero at the end, by the cosine of the share of the steps or of the time, whichever is larger.

    Raises:
        torch.OutOfMemoryError: not even a few rows fit.
    """
    assert isinstance(network, Encoder)
    guesses = Guesses(network.n_encoded_numeric, cardinalities, network.d_encoded)

    def loss(numeric: Tensor, categorical: Tensor) -> Tensor:
        return pretext_loss(network, guesses, numeric[:, : network.n_encoded_numeric], categorical, pretext)

    return train_on_pretext(network, guesses, loss, rows, n_steps, context)


def train_on_pretext(
    network: nn.Module,
    guesses: nn.Module,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    rows: Table,
    n_steps: int,
    context: FitContext,
    learning_rate: float = LEARNING_RATE,
) -> dict[str, Any]:
    """As `pretrain_network`, for any loss of a batch of numbers and codes. The network is on its device; `guesses` is its head."""
    device = torch.device(context.device)
    numeric, categorical = inputs(rows, device)
    guesses.to(device)
    network.train()
    parameters = [*network.parameters(), *guesses.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
    low_precision = has_fast_bfloat16(device)
    batch_rows, done = min(BATCH_ROWS, len(rows)), 0
    seconds = context.seconds_left()
    losses: list[Tensor] = []
    while done < n_steps and context.seconds_left() > 0:
        spent = 0.0 if math.isinf(seconds) else 1 - context.seconds_left() / seconds
        progress = max(done / n_steps, spent)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        batch = torch.randint(len(rows), (batch_rows,), device=device)
        optimizer.zero_grad(set_to_none=True)
        try:
            with autocast(device, low_precision):
                loss = loss_of(numeric[batch], categorical[batch])
            loss.backward()
        except Exception as error:
            if batch_rows // 2 < LEAST_BATCH_ROWS or not is_out_of_memory(error):
                raise
            batch_rows //= 2
            continue
        optimizer.step()
        losses.append(loss.detach())
        done += 1
    last = losses[-max(1, round(LAST_SHARE * done)) :]
    loss = float(torch.stack(last).mean()) if last else None
    return {"pretraining_rows": len(rows), "pretraining_steps": done, "pretraining_loss": loss}


SHARING_FITS = 4
"""Fits at least that share a pre-training: the folds of the defaults, which are five or eight on small tables."""
MEASURED = (50, 200, 1_000)
"""Numbers of labeled rows of the measurements."""
MERIT = 2.5
"""Of a pre-trained network that starts by itself, as of TabM: with few labels, it belongs to the models that a run tries first."""


class Pretrained(DeepPlugin):
    """A network whose encoder is pre-trained on rows without a target; a mixin in front of the plugin of the network.

    All trials share one pre-training, so a search space must keep the hyperparameters of the defaults that `architecture` names.

    Attributes:
        architecture: names of the hyperparameters that the encoder's weights depend on.
        task_parts: prefixes of the names of weights that are not pre-trained.
        gained_with: those of the numbers of labeled rows in `MEASURED` with which the model gained in
            `benchmarks/lab/unlabeled_rows.py`.
        least_unlabeled: rows without a target for each labeled row, from which runs start the model by themselves.
    """

    pretrains = True
    uses_unlabeled = True
    uses_other_targets = False
    starts_first = False
    min_rows = 40
    architecture: ClassVar[tuple[str, ...]]
    task_parts: ClassVar[tuple[str, ...]]
    gained_with: ClassVar[tuple[int, ...]] = ()
    least_unlabeled: ClassVar[float] = 10.0

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_unlabeled:
            return "Pre-training needs rows without a target."
        return super().supports(task, shape)

    def merit(self, task: Task, shape: Shape) -> float:
        """Where runs start the model by themselves, it was better than CatBoost on a quarter of the tables or more."""
        return MERIT if self.skipped_by_default(task, shape) is None else super().merit(task, shape)

    def skipped_by_default(self, task: Task, shape: Shape) -> str | None:
        if not self.gained_with:
            return "In measurements, this pre-training gained nothing."
        # The measured number that is nearest by ratio stands for the others.
        nearest = min(MEASURED, key=lambda n: abs(math.log(max(1, shape.n_rows) / n)))
        if shape.n_rows > MEASURED[-1] or nearest not in self.gained_with:
            where = f"more than {MEASURED[-1]:,}" if shape.n_rows > MEASURED[-1] else f"about {nearest:,}"
            return f"In measurements, this pre-training gained nothing with {where} labeled rows."
        if shape.n_unlabeled < self.least_unlabeled * shape.n_rows:
            return (
                f"Pre-training needs at least {self.least_unlabeled:g} rows without a target for each row with one; there are "
                f"{shape.n_unlabeled:,} for {shape.n_rows:,}."
            )
        return None

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        """The mean cost of the first fits. The first of all includes the pre-training, which the others share."""
        assert isinstance(params, TrainingParams)
        assert isinstance(params, PretrainedParams)
        tuned = super().cost(task, shape, params, device)
        many = dataclasses.replace(shape, n_rows=max(BATCH_ROWS, shape.n_unlabeled))
        pretrained = super().cost(task, many, msgspec.structs.replace(params, batch_size=BATCH_ROWS), device)
        share = params.pretraining_steps * BATCH_ROWS / (COUNTED_EPOCHS * many.n_rows)
        return Cost(
            seconds=tuned.seconds + ALL_TOKENS * share * pretrained.seconds / SHARING_FITS,
            n_bytes=max(tuned.n_bytes, int(ALL_TOKENS * pretrained.n_bytes)),
        )

    def features(self) -> FeatureRecipe:
        return msgspec.structs.replace(super().features(), rows="unlabeled")

    def pretraining_key(self, params: Params) -> str:
        values = msgspec.to_builtins(params)
        chosen = [values[name] for name in (*self.architecture, "pretraining_steps")]
        return f"{crc32(msgspec.json.encode(chosen)):08x}"

    def pretrain(self, rows: Table, params: Params, context: FitContext, folder: Path) -> None:
        assert isinstance(params, TrainingParams)
        assert isinstance(params, PretrainedParams)
        device = seed_everything(context)
        spec = context.features
        sizes = Sizes(n_numeric=len(spec.numeric), cardinalities=spec.cardinalities, d_out=1)
        network = self.build(sizes, params)
        self.initialize(network, rows)
        facts = self.learn_rows(network.to(device), rows, params, context)
        tensors = {
            name: t.detach().cpu().contiguous()
            for name, t in network.state_dict().items()
            if not name.startswith(self.task_parts)
        }
        safetensors.torch.save_file(tensors, folder / WEIGHTS)
        (folder / FACTS).write_bytes(msgspec.json.encode(facts))

    def learn_rows(self, network: nn.Module, rows: Table, params: Any, context: FitContext) -> dict[str, Any]:
        """Pre-train a new network; by masked and replaced cells by default, or by the `pretext` of its hyperparameters."""
        pretext: Pretext = getattr(params, "pretext", "both")
        cardinalities, n_steps = context.features.cardinalities, params.pretraining_steps
        return pretrain_network(network, rows, cardinalities, n_steps, context, pretext)

    def _start(self, train: Table, params: TrainingParams, context: FitContext) -> tuple[Objective, Sizes, nn.Module]:
        objective, sizes, network = super()._start(train, params, context)
        folder = context.pretrained
        if folder is None:
            # A fit outside a run, such as a check of the plugin.
            folder = context.folder / "pretrained"
            folder.mkdir(parents=True, exist_ok=True)
            random_state = torch.get_rng_state()
            self.pretrain(context.unlabeled or train, params, context, folder)
            torch.set_rng_state(random_state)
        network.load_state_dict(safetensors.torch.load_file(folder / WEIGHTS), strict=False)
        facts: dict[str, Any] = msgspec.json.decode((folder / FACTS).read_bytes())
        network.pretraining = facts  # pyright: ignore[reportArgumentType]
        return objective, sizes, network

    def describe(self, network: nn.Module, train: Table, params: Any, context: FitContext) -> dict[str, Any]:
        found: Any = getattr(network, "pretraining", {})
        return {**super().describe(network, train, params, context), **found}
