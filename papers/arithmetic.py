"""The synthetic experiment of AMFormer's paper: attention among sums and products of features, or among sums alone.

python -m papers.arithmetic [--experiments gate,classes,fractions,minority] [--models transformer,amformer,xgboost]
                                [--rows N] [--steps N] [--d-token D] [--draws 0,1] [--seeds 0,1] [--full] [--out FILE.json]

Cheng et al. 2024, section 3: r = Σ_{i≤5} α_i Π_{j≤8} x_j^β_ij with α ~ U(-1, 1), β zero or one of 1, 2, 3, 4 with a half
chance each, and x log-uniform in [½, 2]; the response is cut into C classes of equal size, a fifth of the rows is the test set,
and accuracy is compared. The paper does not publish its α and β, so only its findings can be reproduced, not its scores: one
`draw` is one sample of both.

  gate       C = 64, a tenth of the training rows: AMFormer has to be 3 % above a transformer that takes as long, in relative
             terms, on every draw. The paper's gain too is largest where rows are few
  classes    C from 4 to 512 (figure 1a)
  fractions  C = 128, a part of the training rows (figure 1b)
  minority   C = 128, every other class keeps a part of its training rows; accuracy on those classes (figure 1c)

Networks take --steps steps of Adam on 512 rows without dropout, at a rate that rises to --rate in a hundred steps and then
decreases to zero along a cosine: with a constant rate, accuracy fluctuates by 10 to 20 points between steps. Both
have four heads. AMFormer has two layers of --d-token, the transformer three, and `transformer_5` five: its steps take as long as
AMFormer's. XGBoost uses a tenth of its rows for early stopping.
The default size is for two cores; --full is the size of the paper: 200,000 rows, and its list of classes and fractions. Each
result is added to --out when it is available, and existing results are not computed again. Exits with 1 if the gate is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from tabapp_plugins.amformer.network import AMFormerNetwork, AMFormerParams
from tabapp_plugins.ft_transformer import FTTransformerNetwork, FTTransformerParams
from torch import Tensor, nn

from benchmarks.machine import RESULTS, machine, report
from tabapp.nn.layers.arithmetic import HardAttention
from tabapp.nn.layers.attention import SelfAttention
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.trainer import predict_output

N_TERMS, N_FEATURES, N_TEST_SHARE = 5, 8, 5
BATCH_ROWS, WARMUP_STEPS, N_HEADS = 512, 100, 4
GATE = 1.03
FULL = {
    "classes": (4, 8, 16, 32, 64, 128, 256, 512),
    "fractions": (0.1, 0.2, 0.3, 0.4, 0.5, 1.0),
    "minority": (0.1, 0.2, 0.3, 0.4, 0.5),
}
REDUCED = {"classes": (4, 16, 64, 128, 512), "fractions": (0.1, 0.3), "minority": (0.1, 0.3)}


@dataclass(frozen=True)
class Case:
    """One fit: `fraction` is of the training rows, or of those of minority classes."""

    experiment: str
    model: str
    classes: int
    fraction: float
    draw: int
    seed: int
    rows: int
    steps: int
    d_token: int
    rate: float


@dataclass(frozen=True)
class Data:
    """Standardized features and class codes; `counted` marks the test rows whose accuracy is compared."""

    train: npt.NDArray[np.float32]
    train_target: npt.NDArray[np.int64]
    test: npt.NDArray[np.float32]
    test_target: npt.NDArray[np.int64]
    counted: npt.NDArray[np.bool_]

    def accuracy(self, predicted: npt.NDArray[np.int64]) -> float:
        """Share of the counted test rows whose class is right."""
        return float((predicted == self.test_target)[self.counted].mean())


def make_data(case: Case) -> Data:
    """Section 3, "Data construction"; eq. 1."""
    generator = np.random.default_rng(case.draw)
    alpha = generator.uniform(-1, 1, N_TERMS)
    used = generator.random((N_TERMS, N_FEATURES)) < 0.5
    beta = np.where(used, generator.integers(1, 5, (N_TERMS, N_FEATURES)), 0)
    logarithms = generator.uniform(np.log(0.5), np.log(2), (case.rows, N_FEATURES))
    response = np.exp(logarithms @ beta.T) @ alpha
    target = np.empty(case.rows, np.int64)
    target[response.argsort()] = np.arange(case.rows) * case.classes // case.rows
    x = np.exp(logarithms)
    n_train = case.rows - case.rows // N_TEST_SHARE
    x = ((x - x[:n_train].mean(0)) / x[:n_train].std(0)).astype(np.float32)
    kept, counted = np.ones(n_train, bool), np.ones(case.rows - n_train, bool)
    if case.experiment == "minority":
        is_minority = np.zeros(case.classes, bool)
        is_minority[generator.permutation(case.classes)[: case.classes // 2]] = True
        kept = ~is_minority[target[:n_train]] | (generator.random(n_train) < case.fraction)
        counted = is_minority[target[n_train:]]
    elif case.fraction < 1:
        kept = np.arange(n_train) < case.fraction * n_train
    return Data(x[:n_train][kept], target[:n_train][kept], x[n_train:], target[n_train:], counted)


def build(case: Case) -> nn.Module:
    """The network of a case, without dropout."""
    sizes = Sizes(n_numeric=N_FEATURES, cardinalities=(), d_out=case.classes, n_classes=case.classes)
    shared: dict[str, Any] = {"d_token": case.d_token, "attention_dropout": 0.0, "ffn_dropout": 0.0}
    match case.model.split("_"):
        case ["transformer", *n_layers]:
            return FTTransformerNetwork(sizes, FTTransformerParams(n_layers=int((*n_layers, "3")[0]), **shared))
        case ["amformer", *prompts]:
            layout: dict[str, Any] = {"prompts": prompts[0]} if prompts else {}
            return AMFormerNetwork(sizes, AMFormerParams(n_layers=2, **layout, **shared))
        case _:
            raise ValueError(f"there is no model {case.model}")


def train_network(case: Case, data: Data, device: str) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
    """Predicted classes of the test rows, milliseconds per step and number of parameters."""
    torch.manual_seed(case.seed)
    network = build(case).to(device).train()
    for module in network.modules():
        if isinstance(module, (SelfAttention, HardAttention)):
            module.n_heads = N_HEADS
    x, y = torch.tensor(data.train, device=device), torch.tensor(data.train_target, device=device)
    optimizer = torch.optim.Adam(network.parameters(), lr=case.rate, fused=True)
    began = time.process_time()
    for step in range(case.steps):
        for group in optimizer.param_groups:
            falling = (1 + math.cos(math.pi * step / case.steps)) / 2
            group["lr"] = case.rate * min(1, (step + 1) / WARMUP_STEPS) * falling
        rows = torch.randint(0, len(x), (BATCH_ROWS,), device=device)
        loss = F.cross_entropy(network(x[rows], no_codes(x[rows])), y[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    seconds = time.process_time() - began
    test = torch.tensor(data.test, device=device)
    facts = {
        "ms_per_step": 1e3 * seconds / case.steps,
        "parameters": sum(p.numel() for p in network.parameters()),
    }
    return predict_output(network, test, no_codes(test)).argmax(1).cpu().numpy(), facts


def no_codes(x: Tensor) -> Tensor:
    return torch.zeros(len(x), 0, dtype=torch.int64, device=x.device)


def train_xgboost(case: Case, data: Data, n_rounds: int, device: str) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
    """Predicted classes of the test rows by boosted trees, stopped early by a tenth of the training rows."""
    import xgboost

    n_valid = len(data.train) // 10
    settings: dict[str, Any] = {
        "objective": "multi:softprob",
        "num_class": case.classes,
        "eval_metric": "merror",
        "seed": case.seed,
        "device": device,
        "nthread": torch.get_num_threads(),
    }
    fitted = xgboost.DMatrix(data.train[n_valid:], data.train_target[n_valid:])
    held_out = xgboost.DMatrix(data.train[:n_valid], data.train_target[:n_valid])
    began = time.process_time()
    booster = xgboost.train(
        settings, fitted, n_rounds, evals=[(held_out, "valid")], early_stopping_rounds=50, verbose_eval=False
    )
    facts = {"seconds": time.process_time() - began, "rounds": booster.best_iteration + 1}
    until = (0, booster.best_iteration + 1)
    return booster.predict(xgboost.DMatrix(data.test), iteration_range=until).argmax(1), facts


def cases(options: argparse.Namespace) -> list[Case]:
    """All requested fits, networks before the slower trees."""
    sweep = FULL if options.full else REDUCED
    found: list[Case] = []
    for experiment in options.experiments:
        classes = sweep["classes"] if experiment == "classes" else (64,) if experiment == "gate" else (128,)
        fractions = (1.0,) if experiment == "classes" else (0.1,) if experiment == "gate" else sweep[experiment]
        for n_classes in classes:
            for fraction in fractions:
                for draw in options.draws:
                    for seed in options.seeds:
                        for model in options.models:
                            sizes = (options.rows, options.steps, options.d_token, options.rate)
                            found.append(Case(experiment, model, n_classes, fraction, draw, seed, *sizes))
    return sorted(found, key=lambda case: case.model == "xgboost")


def compared(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    """One line for each setting: mean accuracy of each model over seeds and draws, and AMFormer's gain over both transformers."""
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for result in results:
        draw = result["draw"] if result["experiment"] == "gate" else "all"
        key = (result["experiment"], result["classes"], result["fraction"], draw)
        groups.setdefault(key, {}).setdefault(result["model"], []).append(result["accuracy"])
    models = list(dict.fromkeys(result["model"] for result in results))
    lines: list[list[str]] = []
    for key, by_model in sorted(groups.items(), key=str):
        shown = [
            f"{np.mean(by_model[m]):.3f} ± {np.std(by_model[m]):.3f} ({len(by_model[m])})" if m in by_model else "—"
            for m in models
        ]
        lines.append(
            [*(str(part) for part in key), *shown, *(gain(by_model, m) for m in ("transformer", "transformer_5"))]
        )
    return [["experiment", "C", "fraction", "draw", *models, "over transformer", "over transformer_5"], *lines]


def gain(by_model: dict[str, list[float]], other: str) -> str:
    """Relative difference of AMFormer's accuracy to another model's."""
    if not {"amformer", other} <= set(by_model) or not np.mean(by_model[other]):
        return "—"
    return f"{100 * (np.mean(by_model['amformer']) / np.mean(by_model[other]) - 1):+.1f} %"


def gate_missed(results: Sequence[dict[str, Any]]) -> bool:
    """Whether AMFormer is less than 3 % above the transformer that takes as long, on any draw, mean over seeds."""

    def accuracy(model: str, draw: int) -> float:
        found = [r["accuracy"] for r in results if (r["experiment"], r["model"], r["draw"]) == ("gate", model, draw)]
        return float(np.mean(found)) if found else float("nan")

    draws = {r["draw"] for r in results if r["experiment"] == "gate"}
    return any(accuracy("amformer", draw) < GATE * accuracy("transformer_5", draw) for draw in draws)


def main() -> int:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=words, default=["gate", "classes", "fractions", "minority"])
    parser.add_argument("--models", type=words, default=["transformer", "transformer_5", "amformer", "xgboost"])
    parser.add_argument("--full", action="store_true", help="the paper's size")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--d-token", type=int, default=32)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--rounds", type=int, default=100, help="maximum rounds of XGBoost; the paper uses 2000")
    parser.add_argument("--draws", type=numbers, default=[0, 1])
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("build/benchmarks/arithmetic.json"),
        help="file of completed fits, which are reused",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "arithmetic.json")
    options = parser.parse_args()
    options.rows = options.rows or (200_000 if options.full else 60_000)
    torch.set_num_threads(options.threads)
    results: list[dict[str, Any]] = json.loads(options.cache.read_text())["results"] if options.cache.is_file() else []
    header: list[str] = []
    for case in cases(options):
        if any(asdict(case).items() <= result.items() for result in results):
            continue
        data = make_data(case)
        if case.model == "xgboost":
            predicted, facts = train_xgboost(case, data, options.rounds, options.device)
        else:
            predicted, facts = train_network(case, data, options.device)
        accuracy = data.accuracy(predicted)
        results.append({**asdict(case), "accuracy": accuracy, **facts})
        about = f"{case.experiment} C={case.classes} {case.fraction} draw {case.draw} seed {case.seed}"
        print(f"{about} {case.model} {accuracy:.4f}", file=sys.stderr, flush=True)
        header, *lines = compared(results)
        facts = {**machine("torch", "xgboost"), "device": options.device, "threads": options.threads}
        options.cache.parent.mkdir(parents=True, exist_ok=True)
        options.cache.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")
    header, *lines = compared(results)
    report(machine("torch", "xgboost"), header, lines, results, options.out, right=tuple(range(1, len(header))))
    return 1 if gate_missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
