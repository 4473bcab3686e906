"""The state of a training: weights, their average, the optimizer and the counters, in files that can travel."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tabapp_plugins.prior_fitted.network import SIZES, PriorFittedNetwork
from torch import Tensor, nn

from benchmarks.prior.optimizer import Muon

AVERAGE_DECAY = 0.999
SHIPPED = Path(__file__).parents[2] / "tabapp" / "weights" / "shipped" / "prior-fitted.safetensors"
"""The network that comes with tabapp."""


@dataclass
class Counters:
    """What a training has done, and what fixes its data.

    Attributes:
        seconds: training time so far, without evaluations.
    """

    size: str
    seed: int
    tokens: int
    learning_rate: float
    warmup: int
    step: int = 0
    tables: int = 0
    seconds: float = 0.0


class State:
    """A network in training."""

    def __init__(self, counters: Counters, device: torch.device) -> None:
        torch.manual_seed(counters.seed)
        self.counters = counters
        self.network = PriorFittedNetwork(SIZES[counters.size]).to(device)
        self.optimizer = Muon(self.network)
        self.average = {name: p.detach().clone() for name, p in self.network.named_parameters()}

    @torch.no_grad()
    def update_average(self) -> None:
        """Move the average toward the weights; the first steps count for little."""
        step = self.counters.step
        rate = 1 - min(AVERAGE_DECAY, (1 + step) / (10 + step))
        weights = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(list(self.average.values()), weights, rate)  # pyright: ignore

    def save(self, folder: Path) -> None:
        """Write the files of the state; `load` continues from them exactly."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights_of(self.network), folder / "weights.safetensors")
        save_file(self.average, folder / "average.safetensors")
        save_file(self.optimizer.state(), folder / "optimizer.safetensors")
        (folder / "state.json").write_text(json.dumps(asdict(self.counters)))

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> State:
        """The state of a folder.

        Without a file of the weights, they are those that come with tabapp; without one of the optimizer or of the average, these
        start anew.
        """
        state = cls(Counters(**json.loads((folder / "state.json").read_text())), device)
        weights = folder / "weights.safetensors"
        state.network.load_state_dict(_float32(load_file(weights if weights.is_file() else SHIPPED)))
        for name, p in state.network.named_parameters():
            state.average[name].copy_(p.detach())
        if (folder / "average.safetensors").is_file():
            for name, tensor in load_file(folder / "average.safetensors").items():
                state.average[name].copy_(tensor)
        if (folder / "optimizer.safetensors").is_file():
            state.optimizer.n_steps = state.counters.step
            saved = load_file(folder / "optimizer.safetensors")
            for name, tensor in state.optimizer.state().items():
                tensor.copy_(saved[name])
        return state


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The parameters by name."""
    return {name: p.detach() for name, p in network.named_parameters()}


def save_network(file: Path, weights: dict[str, Tensor], size: str) -> None:
    """Write weights in float16 with the name of their size, as a predictor reads them."""
    save_file({name: tensor.half().cpu() for name, tensor in weights.items()}, file, metadata={"size": size})


def _float32(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.float() for name, tensor in tensors.items()}
