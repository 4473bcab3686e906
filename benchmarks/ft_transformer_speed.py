"""Time of one training step of FT-Transformer, here and in the authors' package: same weights, batch and machine.

python -m benchmarks.ft_transformer_speed [--features 8] [--rows 256] [--steps 12] [--rounds 7] [--device cpu] [--out FILE.json]
python -m benchmarks.ft_transformer_speed --quality 3 [--data FOLDER] [--cache FILE.json]

Both are the paper's default configuration, eager, float32, with AdamW: forward, loss, backward, step. Both alternate, so that
other work on the machine affects both; the ratio is computed within each round. Our network is also measured in bfloat16, which
the training loop uses on devices that are fast at it. --device cuda measures seconds and rows per second there, also of ours as
a CUDA graph.

--quality trains both in the same loop on the split of `benchmarks.deep_models`, the package's in float32, from as many seeds, and
compares their test RMSE. Fits in --cache, which is shared with `benchmarks.deep_models`, are not repeated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tabapp_plugins.ft_transformer import FTTransformer
from torch import Tensor, nn

from benchmarks.machine import RESULTS, machine, report
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.cuda_graphs import EAGER_STEPS, GraphedSteps, can_record
from tabapp.nn.linear import Linear
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.precision import autocast


def stepper(
    network: nn.Module,
    call: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    bfloat16: bool,
    recorded: bool = False,
) -> Callable[[], None]:
    """A function that takes one training step; `recorded` as the training loop records it on a GPU."""
    network.to(x.device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=1e-5, fused=True)

    def step() -> None:
        with autocast(x.device, bfloat16):
            output = call(x)
        loss = nn.functional.mse_loss(output.float()[:, 0], y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    if not recorded:
        return step
    graphed = GraphedSteps(lambda rows: step(), x.device, optimizer)
    rows = torch.arange(len(x), device=x.device)

    def replay() -> None:
        graphed(rows)
        assert graphed.is_possible

    return replay


def _call(network: nn.Module, codes: Tensor, x: Tensor) -> Tensor:
    return network(x, codes)


def seconds_of(step: Callable[[], None], n_steps: int, device: torch.device) -> float:
    """Mean time of a step: CPU seconds of all threads on a CPU, which other processes hardly affect; otherwise wall seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    started = clock()
    for _ in range(n_steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (clock() - started) / n_steps


class PackageNetwork(nn.Module):
    """The package's network with our interface, for numeric tables."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        import rtdl_revisiting_models as rtdl

        settings = rtdl.FTTransformer.get_default_kwargs()
        self.network = rtdl.FTTransformer(
            n_cont_features=sizes.n_numeric, cat_cardinalities=[], d_out=sizes.d_out, **settings
        )
        for module in self.network.modules():
            if type(module) is nn.Linear:
                # Uses `linear` too, which has the same result in float32 in less time.
                module.__class__ = Linear

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.network(numeric, None)


class PackagePlugin(FTTransformer):
    """The package's FT-Transformer with its groups of weight decay, in our training loop."""

    name = "ft_transformer_package"
    low_precision = False
    model_type = DeepModel

    def build(self, sizes: Sizes, params: Any) -> Any:
        return PackageNetwork(sizes)

    def undecayed(self, network: nn.Module) -> set[str]:
        assert isinstance(network, PackageNetwork)
        groups: list[dict[str, Any]] = network.network.make_parameter_groups()  # pyright: ignore[reportCallIssue]
        free = {id(p) for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
        return {name for name, parameter in network.named_parameters() if id(parameter) in free}


def compare_quality(n_seeds: int, data: Path, out: Path | None) -> None:
    """Print the test RMSE of both over seeds."""
    from benchmarks.deep_models import FILE, trained

    scores: dict[str, list[float]] = {}
    for seed in range(n_seeds):
        for title, name, plugin in (
            ("package, float32", PackagePlugin.name, PackagePlugin()),
            ("ours", FTTransformer.name, None),
        ):
            result = trained(name, seed, "paper", "cpu", None, data / FILE, out, plugin=plugin)
            scores.setdefault(title, []).append(result["rmse"])
    rows = [
        [title, f"{statistics.fmean(values):.4f}", f"± {statistics.stdev(values):.4f}" if n_seeds > 1 else ""]
        for title, values in scores.items()
    ]
    report(
        machine("torch", "rtdl_revisiting_models"), ["network", "RMSE", f"{n_seeds} seeds"], rows, scores, None, (1,)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quality", type=int, metavar="SEEDS")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("build/benchmarks/deep_models.json"),
        help="file of completed fits, which are reused",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "ft_transformer_speed.json")
    options = parser.parse_args()
    if options.quality:
        compare_quality(options.quality, options.data, options.cache)
        return
    import rtdl_revisiting_models as rtdl

    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    plugin = registry.get("ft_transformer")
    assert isinstance(plugin, DeepPlugin)
    params = plugin.defaults("regression", Shape(100_000, 8, 0, 1), "cuda:0")
    ours = plugin.build(Sizes(n_numeric=options.features, cardinalities=(), d_out=1), params)
    theirs = rtdl.FTTransformer(
        n_cont_features=options.features,
        cat_cardinalities=[],
        d_out=1,
        **rtdl.FTTransformer.get_default_kwargs(),
    )
    x = torch.randn(options.rows, options.features, device=device)
    y = torch.randn(options.rows, device=device)
    codes = torch.zeros(options.rows, 0, dtype=torch.int64, device=device)
    steps = {
        "package, float32": stepper(theirs, lambda x: theirs(x, None), x, y, bfloat16=False),
        "ours, float32": stepper(ours, lambda x: ours(x, codes), x, y, bfloat16=False),
    }
    fast = plugin.build(Sizes(n_numeric=options.features, cardinalities=(), d_out=1), params)
    steps["ours, bfloat16"] = stepper(fast, lambda x: fast(x, codes), x, y, bfloat16=True)
    for bfloat16 in (False, True) if can_record(device) else ():
        network = plugin.build(Sizes(n_numeric=options.features, cardinalities=(), d_out=1), params)
        call: Callable[[Tensor], Tensor] = partial(_call, network, codes)
        title = f"ours, {'bfloat16' if bfloat16 else 'float32'}, recorded"
        steps[title] = stepper(network, call, x, y, bfloat16=bfloat16, recorded=True)
    for step in steps.values():
        seconds_of(step, EAGER_STEPS + 2, device)
    rounds: list[dict[str, float]] = []
    for _ in range(options.rounds):
        rounds.append({name: seconds_of(step, options.steps, device) for name, step in steps.items()})
    base = "package, float32"
    rows = []
    for name in steps:
        times = [r[name] for r in rounds]
        ratios = [r[name] / r[base] for r in rounds]
        rows.append(
            [
                name,
                f"{1e3 * statistics.median(times):.1f} ms",
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} … {max(ratios):.2f}",
                f"{options.rows / statistics.median(times):,.0f}",
            ]
        )
    facts = machine("torch", "rtdl_revisiting_models") | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, one thread",
        "batch": options.rows,
        "features": options.features,
        "rounds": f"{options.rounds} of {options.steps} steps",
    }
    report(
        facts, ["training step", "median", "ratio", "range of ratios", "rows/s"], rows, rounds, options.out, (1, 2, 4)
    )


if __name__ == "__main__":
    main()
