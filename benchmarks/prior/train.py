"""Train a prior-fitted network on synthetic tables.

python -m benchmarks.prior.train --out FOLDER (--seconds 280 | --steps 1000) [--resume FOLDER] [--size small] [--seed 0]
                                 [--tokens 65536|auto] [--learning-rate 0.002] [--decay 0.3] [--most-rows 1024]
                                 [--validation 64] [--warmup 100] [--choose-kernels] [--threads 1] [--device cuda|cpu]

The learning rate is constant after a warm-up. The state at the end of that phase is written to FOLDER/state, where --resume
continues in step and data, with the same seed, size, batch and rate. Then the rate falls to zero during the last share --decay
of the time, and FOLDER/network.safetensors gets the weights or their average, whichever predicts fixed synthetic tables better.
FOLDER/curve.json has the loss of the training, and of these tables during training. The state is also written every 40 s.

On a GPU, the network computes in bfloat16. --choose-kernels times three ways to compute it, and takes the fastest. `--tokens auto`
measures batches first and takes the smallest that is efficient.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tabapp_plugins.prior_fitted.network import KERNELS, PriorFittedNetwork
from torch import Tensor

from benchmarks.prior.state import Counters, State, save_network, weights_of
from benchmarks.prior.stream import SHAPES, SLICES, Batch, Stream

VALIDATION_SEED, VALIDATION_TOKENS = 1_000_003, 32_768
LOGGED, SAVED_SECONDS = 25, 40.0
ROUND = SHAPES * SLICES
LARGEST_DIFFERENCE = 0.1
"""Of a gradient in bfloat16, relative to its norm, above which kernels count as wrong."""
EFFICIENT = 0.8
"""Share of the highest rate at which a smaller batch is preferred."""


@dataclass
class Trainer:
    """A training on one device.

    Attributes:
        curve: entries of `curve.json`.
    """

    state: State
    device: torch.device
    out: Path
    most_rows: int = 1024
    n_validation: int = 64
    curve: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        counters = self.state.counters
        network_size = self.state.network.size
        self.stream = Stream(counters.seed, network_size, counters.tokens, self.device, self.most_rows)
        tokens = min(VALIDATION_TOKENS, counters.tokens)
        validation = Stream(VALIDATION_SEED, network_size, tokens, self.device, self.most_rows)
        self.validation = [validation.batch(step) for step in range(self.n_validation)]
        self._saved = time.perf_counter()

    def run(self, *, steps: int | None, seconds: float | None, decay: float) -> None:
        """Train for a number of steps or seconds; the last share `decay` with a falling rate."""
        began, first = time.perf_counter(), self.state.counters.step
        if seconds is not None:
            self._phase(lambda step: 1.0, self._keep_state, until=began + seconds * (1 - decay))
            rate = (self.state.counters.step - first) / (time.perf_counter() - began)
            n_decay = max(1, int(rate * (began + seconds - time.perf_counter())))
        else:
            assert steps is not None
            n_decay = int(steps * decay)
            self._phase(lambda step: 1.0, self._keep_state, steps=steps - n_decay)
        self.validate("constant rate")
        self.state.save(self.out / "state")
        self._phase(lambda step: 1 - step / n_decay, self._keep_average, steps=n_decay)
        raw, average = self.validate("end")
        best = weights_of(self.state.network) if raw <= average else self.state.average
        save_network(self.out / "network.safetensors", best, self.state.counters.size)

    def _keep_state(self) -> None:
        self.validate("running")
        self.state.save(self.out / "state")

    def _keep_average(self) -> None:
        save_network(self.out / "network.safetensors", self.state.average, self.state.counters.size)

    def _phase(
        self,
        factor: Callable[[int], float],
        keep: Callable[[], None],
        *,
        until: float | None = None,
        steps: int | None = None,
    ) -> None:
        counters, losses = self.state.counters, list[Tensor]()
        began, first, tables = time.perf_counter(), counters.step, counters.tables
        while True:
            done = counters.step - first
            if (steps is not None and done >= steps) or (until is not None and time.perf_counter() >= until):
                break
            warm = min(1.0, (counters.step + 1) / counters.warmup)
            losses.append(self._step(counters.learning_rate * warm * factor(done)))
            if counters.step % LOGGED == 0:
                # Reading the loss waits for the device, so that the clock counts finished steps.
                loss = torch.stack(losses).mean().item()
                losses.clear()
                elapsed = time.perf_counter() - began
                entry = {"step": counters.step, "seconds": round(counters.seconds + elapsed, 2), "loss": round(loss, 4)}
                self.curve.append(entry | {"tables": counters.tables})
                if counters.step % (LOGGED * 20) == 0:
                    rate, table_rate = (done + 1) / elapsed, (counters.tables - tables) / elapsed
                    print(f"{entry} {rate:.1f} steps/s {table_rate:.0f} tables/s", flush=True)
                if time.perf_counter() - self._saved > SAVED_SECONDS:
                    keep()
                    self._saved = time.perf_counter()
        counters.seconds += time.perf_counter() - began

    def _step(self, learning_rate: float) -> Tensor:
        counters = self.state.counters
        batch = self.stream.batch(counters.step)
        loss = loss_of(self.state.network, batch, self.precision)
        loss.backward()
        self.state.optimizer.step(learning_rate)
        counters.step += 1
        counters.tables += len(batch.labels)
        self.state.update_average()
        return loss.detach()

    @property
    def precision(self) -> torch.dtype:
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    @torch.no_grad()
    def validate(self, label: str) -> tuple[float, float]:
        """Loss on the fixed synthetic tables with the weights and with their average."""
        averaged = copy.deepcopy(self.state.network)
        averaged.load_state_dict(self.state.average)
        losses = [
            sum(loss_of(network, batch, self.precision).item() for batch in self.validation) / len(self.validation)
            for network in (self.state.network, averaged)
        ]
        entry = {
            "step": self.state.counters.step,
            "at": label,
            "validation": round(losses[0], 4),
            "average": round(losses[1], 4),
        }
        self.curve.append(entry)
        print(entry, flush=True)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "curve.json").write_text(json.dumps(self.curve))
        return losses[0], losses[1]


def loss_of(network: PriorFittedNetwork, batch: Batch, precision: torch.dtype) -> Tensor:
    """Mean cross-entropy of the query rows, without rows of a class that the context does not have."""
    context, truth = batch.labels[:, : batch.n_context], batch.labels[:, batch.n_context :]
    logits = network(batch.cells, context, precision)
    known = logits.gather(2, truth.unsqueeze(2)).squeeze(2) > float("-inf")
    return F.cross_entropy(logits.flatten(0, 1), truth.masked_fill(~known, -100).flatten())


def efficient_tokens(size: str, device: torch.device, candidates: tuple[int, ...] = (24_576, 49_152, 98_304)) -> int:
    """The smallest batch that is at least `EFFICIENT` times as fast as the fastest, in tokens."""
    rates: dict[int, float] = {}
    for tokens in candidates:
        state = State(Counters(size, 0, tokens, 1e-4, 1), device)
        stream = Stream(7, state.network.size, tokens, device)
        for step in range(44):
            if step == 12:
                torch.cuda.synchronize()
                began = time.perf_counter()
            loss_of(state.network, stream.batch(step), torch.bfloat16).backward()
            state.optimizer.step(1e-4)
        torch.cuda.synchronize()
        rates[tokens] = 32 * tokens / (time.perf_counter() - began)  # pyright: ignore[reportPossiblyUnbound]
    print("tokens/s: " + ", ".join(f"{tokens} {rate:,.0f}" for tokens, rate in rates.items()), flush=True)
    return next(tokens for tokens in candidates if rates[tokens] >= EFFICIENT * max(rates.values()))


def choose_kernels(state: State, most_rows: int) -> None:
    """Set the fastest kernels for a GPU that give the same gradients, by the seconds of a round of batches.

    The timed round has other shapes than the first one, as each round of the training.
    """
    from benchmarks.prior.fused import fused_layer

    network, device = state.network, next(state.network.parameters()).device
    stream = Stream(7, network.size, state.counters.tokens, device, most_rows)
    first, timed = ([stream.batch(i * ROUND + step) for step in range(ROUND)] for i in range(2))

    def gradients(batches: list[Batch]) -> tuple[float, Tensor]:
        network.zero_grad(set_to_none=True)
        began = time.perf_counter()
        for batch in batches:
            loss_of(network, batch, torch.bfloat16).backward()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        return seconds, torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])

    times: dict[str, float] = {}
    expected: Tensor | None = None
    choices = {"own operations": (None, True), "fused, cuDNN": (fused_layer, True), "fused": (fused_layer, False)}
    for name, (layer, cudnn) in choices.items():
        KERNELS.layer = layer
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        try:
            warm, found = gradients(first)
            expected = found if expected is None else expected
            away = ((found - expected).norm() / expected.norm()).item()
            seconds = gradients(timed)[0]
            print(
                f"{name}: {warm:.2f} s, then {seconds:.2f} s for {ROUND} batches, gradient differs by {away:.4f}",
                flush=True,
            )
            if away < LARGEST_DIFFERENCE:
                times[name] = seconds
        except Exception as error:
            print(f"{name}: {str(error)[:500]}", flush=True)
    network.zero_grad(set_to_none=True)
    best = min(times, key=times.__getitem__)
    KERNELS.layer, cudnn = choices[best]
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    print(f"kernels: {best}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=float)
    length.add_argument("--steps", type=int)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", default="65536")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay", type=float, default=0.3)
    parser.add_argument("--most-rows", type=int, default=1024)
    parser.add_argument("--validation", type=int, default=64, help="batches")
    parser.add_argument("--choose-kernels", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    if options.resume is not None:
        state = State.load(options.resume, device)
    else:
        tokens = efficient_tokens(options.size, device) if options.tokens == "auto" else int(options.tokens)
        counters = Counters(options.size, options.seed, tokens, options.learning_rate, options.warmup)
        state = State(counters, device)
    n_parameters = sum(p.numel() for p in state.network.parameters())
    print(f"{n_parameters:,} parameters on {device}, {state.counters}", flush=True)
    began = time.perf_counter()
    trainer = Trainer(state, device, options.out, options.most_rows, options.validation)
    if options.choose_kernels:
        choose_kernels(state, options.most_rows)
    used = time.perf_counter() - began
    seconds = None if options.seconds is None else options.seconds - used
    trainer.run(steps=options.steps, seconds=seconds, decay=options.decay)
    print(state.counters, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
