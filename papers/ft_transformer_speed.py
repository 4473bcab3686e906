"""Time of one training step of FT-Transformer, here and in the authors' package: same configuration, batch and machine.

python -m papers.ft_transformer_speed [--features 8] [--rows 256] [--steps 12] [--rounds 7] [--out FILE.json]
python -m papers.ft_transformer_speed --device cuda --rows 512,4096 --features 50 [--profile] [--out FILE.json]
python -m papers.ft_transformer_speed --quality 3 [--data FOLDER] [--cache FILE.json]

Both are the paper's default configuration, eager, float32, with AdamW: forward, loss, backward, step. Both alternate, so that
other work on the machine affects both; the ratio is computed within each round. Our network is also measured in bfloat16, which
the training loop uses on devices that are fast at it.

On a GPU, "ours" is the step of the training loop: bfloat16 weights, kernels of `tabapp.nn.layers.fused`, recorded as a CUDA
graph. The other lines each lack a part of it. The floor is what a step takes at least, from the rates of a large product and a
large copy in the same call: its operations, and the bytes of all values between products and attentions (`step_floor`).
--profile lists the kernels of our step.

--quality trains both in the same loop on the split of `papers.deep_models`, the package's in float32, from as many seeds, and
compares their test RMSE. Fits in --cache, which is shared with `papers.deep_models`, are not repeated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from tabapp_plugins import ft_transformer
from tabapp_plugins.ft_transformer import FTTransformer, FTTransformerParams
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.gpu_rates import Rates, kernels_of, measured_rates
from benchmarks.machine import RESULTS, machine, report
from tabapp.headless.tables import plain_table
from tabapp.models.contract import Shape
from tabapp.nn.layers import fused
from tabapp.nn.layers.attention import GatedReLU
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.precision import autocast, bfloat16_output
from tabapp.nn.plugin import DeepModel, Sizes
from tabapp.nn.training.cuda_graphs import EAGER_STEPS, GraphedSteps

BASE, OURS = "package, float32", "ours"
N_KERNELS = 12
"""Kernels that --profile prints; the file has all."""


def stepper(
    network: nn.Module, output: Callable[[], Tensor], y: Tensor, *, recorded: bool = False
) -> Callable[[], None]:
    """A function that takes one training step; `recorded` as the training loop records it on a GPU."""
    network.to(y.device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=1e-5, fused=True)

    def step() -> None:
        loss = nn.functional.mse_loss(output().float()[:, 0], y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    if not recorded:
        return step
    graphed = GraphedSteps(lambda rows: step(), y.device, optimizer)
    rows = torch.arange(len(y), device=y.device)

    def replay() -> None:
        graphed(rows)
        assert graphed.is_possible, "the step cannot be recorded"

    return replay


def build(n_features: int) -> nn.Module:
    """Our network in the paper's configuration."""
    plugin = FTTransformer()
    params = plugin.defaults("regression", Shape(100_000, 8, 0, 1), "cuda:0")
    return plugin.build(Sizes(n_numeric=n_features, cardinalities=(), d_out=1), params)


def build_package(n_features: int) -> nn.Module:
    """The authors' network in its default configuration."""
    import rtdl_revisiting_models as rtdl

    settings = rtdl.FTTransformer.get_default_kwargs()
    return rtdl.FTTransformer(n_cont_features=n_features, cat_cardinalities=[], d_out=1, **settings)


def torch_sum(tokens: Tensor, update: Tensor, normalization: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """`fused.add_normalized` by torch."""
    total = tokens + update
    return total, normalization(total)


def torch_gate(x: Tensor, dropout_rate: float) -> Tensor:
    """`fused.gate` by torch."""
    gated: Any = GatedReLU.apply(x)
    return F.dropout(gated, dropout_rate)


def torch_tokens(x: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """`fused.affine_tokens` by torch."""
    return torch.addcmul(offset, x.unsqueeze(2).to(slope.dtype), slope)


Without = Callable[[], AbstractContextManager[Any]]


def without_attention(*backends: SDPBackend) -> Without:
    """Attention by one of torch's implementations, or by that which torch chooses."""

    def context() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(patch.object(fused, "attends", lambda *_: False))
        if backends:
            stack.enter_context(sdpa_kernel(list(backends)))
        return stack

    return context


VARIANTS: dict[str, Without] = {
    "ours, torch's operations": lambda: patch.object(fused, "has_kernels", lambda _: False),
    "ours, torch's attention": without_attention(),
    "ours, flash attention": without_attention(SDPBackend.FLASH_ATTENTION),
    "ours, memory-efficient attention": without_attention(SDPBackend.EFFICIENT_ATTENTION),
    "ours, cuDNN's attention": without_attention(SDPBackend.CUDNN_ATTENTION),
    "ours, torch's [CLS] attention": lambda: patch.object(fused, "pools", lambda *_: False),
    "ours, torch's normalization": lambda: patch.object(ft_transformer, "add_normalized", torch_sum),
    "ours, torch's gate": lambda: patch.object(fused, "gate", torch_gate),
    "ours, torch's tokens": lambda: patch.object(fused, "affine_tokens", torch_tokens),
}
"""Our step without one of its kernels."""


def steps_of(x: Tensor, y: Tensor, *, variants: bool) -> dict[str, tuple[Callable[[], None], Without]]:
    """Steps by name, each with the context for its first calls.

    Args:
        variants: also those of `VARIANTS`.
    """
    n_features, codes = x.shape[1], torch.zeros(len(x), 0, dtype=torch.int64, device=x.device)
    recorded = x.device.type == "cuda"

    def package(bfloat16: bool) -> Callable[[], None]:
        network = build_package(n_features)

        def output() -> Tensor:
            with autocast(x.device, bfloat16):
                return network(x, None)

        return stepper(network, output, y)

    def autocast_step(bfloat16: bool, recorded: bool) -> Callable[[], None]:
        network = build(n_features)

        def output() -> Tensor:
            with autocast(x.device, bfloat16):
                return network(x, codes)

        return stepper(network, output, y, recorded=recorded)

    def ours(recorded: bool) -> Callable[[], None]:
        network = build(n_features)

        def output() -> Tensor:
            with fused.serving(True):
                return bfloat16_output(network, x, codes)

        return stepper(network, output, y, recorded=recorded)

    found: dict[str, tuple[Callable[[], None], Without]] = {BASE: (package(False), nullcontext)}
    if not recorded:
        found["ours, float32"] = autocast_step(False, False), nullcontext
        found["ours, bfloat16"] = autocast_step(True, False), nullcontext
        return found
    found["package, bfloat16 by autocast"] = package(True), nullcontext
    found[OURS] = ours(True), nullcontext
    found["ours, eager"] = ours(False), nullcontext
    found["ours, bfloat16 by autocast"] = autocast_step(True, True), nullcontext
    for name, without in VARIANTS.items() if variants else ():
        found[name] = ours(True), without
    return found


def step_floor(n_rows: int, n_features: int, params: FTTransformerParams) -> tuple[float, float]:
    """Operations and bytes of a training step, at least.

    Operations are those of the products, twice as many backward as forward, without the last block's tokens that nothing reads and
    without a product for the first queries, keys and values, which are linear in the features. Bytes are of bfloat16 values that
    products and attentions read or write: each is written and read forward, read for the gradient, and its own gradient written
    and read.
    """
    n_tokens, d = n_features + 1, params.d_token
    hidden = int(d * params.ffn_factor)
    after = d * d + 3 * d * hidden + 2 * n_tokens * d
    full = params.n_layers - 1
    of_token = full * after + (full - 1) * 3 * d * d + 2 * ft_transformer.N_HEADS * d
    of_row = 4 * d * d + 3 * d * hidden
    flops = 3 * 2 * n_rows * (n_tokens * of_token + of_row)
    # Per block: sums, normalized sums, queries, keys, values, attended; both widths of the feed-forward branch.
    values = full * (8 * d + 3 * hidden) + d
    return flops, 5 * 2 * n_rows * n_tokens * values


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
    from papers.deep_models import FILE, trained

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


def warmed(steps: dict[str, tuple[Callable[[], None], Without]], device: torch.device) -> dict[str, Callable[[], None]]:
    """The steps after their first calls, without those that this GPU or this version of torch does not have."""
    found: dict[str, Callable[[], None]] = {}
    for name, (step, without) in steps.items():
        started = time.perf_counter()
        try:
            with without():
                seconds_of(step, EAGER_STEPS + 2, device)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            continue
        if name == OURS:
            print(
                f"{name}: first steps, with loading of the kernels, in {time.perf_counter() - started:.1f} s",
                flush=True,
            )
        found[name] = step
    return found


def compare_speed(options: argparse.Namespace) -> None:
    """Print and write the times of all steps."""
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    rates = measured_rates(device) if device.type == "cuda" else None
    params = FTTransformer().defaults("regression", Shape(100_000, 8, 0, 1), "cuda:0")
    rows: list[list[str]] = []
    results: dict[str, Any] = defaultdict(dict)
    for n_rows in options.rows:
        x = torch.randn(n_rows, options.features, device=device)
        steps = warmed(steps_of(x, torch.randn(n_rows, device=device), variants=n_rows == options.rows[0]), device)
        rounds: list[dict[str, float]] = []
        for _ in range(options.rounds):
            rounds.append({name: seconds_of(step, options.steps, device) for name, step in steps.items()})
        results["rounds"][n_rows] = rounds
        for name in steps:
            times = [r[name] for r in rounds]
            ratios = [r[name] / r[BASE] for r in rounds]
            rows.append(
                [
                    f"{n_rows:,}",
                    name,
                    f"{1e3 * statistics.median(times):.2f} ms",
                    f"{statistics.median(ratios):.3f}",
                    f"{min(ratios):.3f} … {max(ratios):.3f}",
                    f"{n_rows / statistics.median(times):,.0f}",
                ]
            )
        if rates is not None:
            results["floor"][n_rows] = distance(n_rows, options.features, params, rates, rounds)
        if options.profile and OURS in steps:
            results["kernels"][n_rows] = print_kernels(n_rows, steps[OURS])
        # A recording keeps its memory as long as its step exists.
        del steps
        if device.type == "cuda":
            torch.cuda.empty_cache()
    facts = machine("torch", "rtdl_revisiting_models") | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, one thread",
        "features": options.features,
        "rounds": f"{options.rounds} of {options.steps} steps",
    }
    if rates is not None:
        facts |= {
            "matrix product": f"{rates.flops / 1e12:.0f} TFLOP/s",
            "copy": f"{rates.bandwidth / 1e12:.2f} TB/s",
            "kernels": fused.has_kernels(torch.empty(0, device=device).device),
        }
    header = ["rows", "training step", "median", "ratio", "range of ratios", "rows/s"]
    report(facts, header, rows, results, options.out, (0, 2, 3, 5))
    for n_rows, found in results.get("floor", {}).items():
        print(f"{n_rows:,} rows: {found['sentence']}")


def distance(
    n_rows: int, n_features: int, params: FTTransformerParams, rates: Rates, rounds: list[dict[str, float]]
) -> dict[str, Any]:
    """The floor of a step, and the measured time in multiples of it."""
    flops, n_bytes = step_floor(n_rows, n_features, params)
    of_flops, of_bytes = rates.floor(flops, n_bytes)
    found: dict[str, Any] = {"flops": flops, "bytes": n_bytes, "flops_seconds": of_flops, "bytes_seconds": of_bytes}
    sentence = (
        f"{flops / 1e9:,.1f} GFLOP take {1e3 * of_flops:.3f} ms, {n_bytes / 1e9:,.2f} GB take {1e3 * of_bytes:.3f} ms"
    )
    if rounds and OURS in rounds[0]:
        found["distance"] = statistics.median(r[OURS] for r in rounds) / max(of_flops, of_bytes)
        sentence += f"; ours takes {found['distance']:.2f} times the larger"
    return found | {"sentence": sentence}


def print_kernels(n_rows: int, step: Callable[[], None]) -> list[dict[str, Any]]:
    """Print the slowest kernels of a step, and return all."""
    try:
        kernels = kernels_of(step)
    except Exception as error:
        print(f"no profile: {error}")
        return []
    total = sum(seconds for _, _, seconds in kernels)
    shown = [
        [name[:90], f"{starts:.0f}", f"{1e6 * seconds:.0f}", f"{seconds / total:.0%}"]
        for name, starts, seconds in kernels[:N_KERNELS]
    ]
    print(f"{n_rows:,} rows: {sum(k[1] for k in kernels):.0f} kernels, {1e3 * total:.2f} ms together")
    print("\n".join(plain_table(["kernel", "starts", "µs", "share"], shown, (1, 2, 3))), flush=True)
    return [{"name": name, "starts": starts, "seconds": seconds} for name, starts, seconds in kernels]


def counts(text: str) -> list[int]:
    """Numbers separated by commas."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--rows", type=counts, default=[256], help="batch sizes, separated by commas")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", action="store_true", help="list the kernels of our step on a GPU")
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
    compare_speed(options)


if __name__ == "__main__":
    main()
