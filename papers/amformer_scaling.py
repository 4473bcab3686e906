"""Time and memory of AMFormer's training step by the number of features, with prompts and with full attention.

python -m papers.amformer_scaling [--features 50,100,200] [--rows 16] [--d-token 64] [--layers 3] [--steps 5]
                                      [--device cpu] [--most 1000] [--full] [--out FILE.json]

Cheng et al. 2024, section 4.2 and Table 4: with a fixed number of prompts, the cost is linear in features; with
self-attention it is quadratic. Layouts: `prompts` has prompts in both streams, in the first layer a quarter as many
as tokens and at most 256, and half as many in each following layer; `self` is AMFormer without prompts; `hybrid` has
self-attention in the additive stream and as many prompts as tokens in the multiplicative stream; `ft_transformer` is
the model that AMFormer extends. Each point is measured in a separate process: median seconds of a step on one thread
(on a GPU: wall time), and peak memory minus the memory before the first step. `exponent` is the slope of log seconds
over log features between the last two points: 1 is linear, 2 quadratic.

--full is for a GPU: up to the 2,000 features of Epsilon, and 512 rows.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tabapp_plugins.amformer.network import MANY_PROMPTS, AMFormerNetwork, AMFormerParams
from tabapp_plugins.ft_transformer import FTTransformerNetwork, FTTransformerParams
from torch import nn

from benchmarks.machine import RESULTS, machine, report
from tabapp.nn.plugin import Sizes

LAYOUTS = ("prompts", "hybrid", "self", "ft_transformer")


def build(layout: str, n_features: int, n_layers: int, d_token: int) -> nn.Module:
    """A network for numeric features and one output, with the paper's dropout."""
    sizes = Sizes(n_numeric=n_features, cardinalities=(), d_out=1, n_classes=2)
    if layout == "ft_transformer":
        return FTTransformerNetwork(sizes, FTTransformerParams(n_layers=n_layers, d_token=d_token))
    shared: dict[str, Any] = {"n_layers": n_layers, "d_token": d_token}
    match layout:
        case "prompts":
            # With as many prompts as tokens, the cost would be that of self-attention.
            n_prompts = min(MANY_PROMPTS, max(1, (n_features + 1) // 4))
            return AMFormerNetwork(sizes, AMFormerParams(prompts="both", n_prompts=n_prompts, **shared))
        case "hybrid":
            params = AMFormerParams(prompts="multiplicative", n_prompts=n_features + 1, **shared)
            return AMFormerNetwork(sizes, params)
        case "self":
            return AMFormerNetwork(sizes, AMFormerParams(prompts="none", n_prompts=n_features + 1, **shared))
        case _:
            raise ValueError(f"there is no layout {layout}")


def measure(layout: str, n_features: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and bytes of a training step in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    network = build(layout, n_features, options.layers, options.d_token).to(device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    x = torch.randn(options.rows, n_features, device=device)
    codes = torch.zeros(options.rows, 0, dtype=torch.int64, device=device)
    before = torch.cuda.memory_allocated() if on_gpu else peak_resident()
    seconds: list[float] = []
    for _ in range(options.steps + 1):
        began = time.perf_counter() if on_gpu else time.process_time()
        network(x, codes).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() if on_gpu else time.process_time()) - began)
    peak = torch.cuda.max_memory_allocated() if on_gpu else peak_resident()
    return {
        "layout": layout,
        "features": n_features,
        "parameters": sum(p.numel() for p in network.parameters()),
        "seconds": statistics.median(seconds[1:]),
        "least": min(seconds[1:]),
        "most": max(seconds[1:]),
        "bytes": peak - before,
    }


def peak_resident() -> int:
    """Peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def exponent(points: list[dict[str, Any]], figure: str) -> float:
    """Slope of the logarithm of a value over log features between the last two points."""
    first, last = points[-2:]
    return math.log(last[figure] / first[figure]) / math.log(last["features"] / first["features"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="50,100,200")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--most", type=int, default=1000, help="maximum number of features for quadratic layouts")
    parser.add_argument("--rows", type=int, default=16, help="rows of a batch")
    parser.add_argument("--d-token", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS / "amformer_scaling.json")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.full:
        options.features, options.most, options.rows = "50,100,200,500,1000,2000", 2000, 512
    if options.point:
        layout, n_features = options.point.split(":")
        print(json.dumps(measure(layout, int(n_features), options)))
        return 0
    sizes = [int(n) for n in options.features.split(",")]
    layouts: list[str] = options.layouts.split(",")
    points: list[dict[str, Any]] = []
    for layout in layouts:
        for n_features in sizes:
            if layout != "prompts" and n_features > options.most:
                continue
            command = [sys.executable, "-m", "papers.amformer_scaling", *sys.argv[1:]]
            command += ["--point", f"{layout}:{n_features}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{layout} {n_features}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
                continue
            points.append(json.loads(done.stdout))
            print(done.stdout.strip(), file=sys.stderr, flush=True)
    lines: list[list[str]] = []
    for layout in layouts:
        own = [point for point in points if point["layout"] == layout]
        by_size = {point["features"]: point for point in own}
        for figure, scale, unit in (("seconds", 1e3, "ms"), ("bytes", 1e-6, "MB")):
            shown = [f"{by_size[n][figure] * scale:,.0f}" if n in by_size else "—" for n in sizes]
            lines.append([layout, unit, *shown, f"{exponent(own, figure):.2f}" if len(own) > 1 else "—"])
    header = ["layout", "", *(f"{n:,}" for n in sizes), "exponent"]
    settings = {name: getattr(options, name) for name in ("rows", "d_token", "layers", "device")}
    report({**machine("torch"), **settings}, header, lines, points, options.out, right=tuple(range(2, len(header))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
