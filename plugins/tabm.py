"""TabM: many MLPs in one (Gorishniy et al. 2025, TabM: Advancing Tabular Deep Learning with Parameter-Efficient Ensembling)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.embeddings import OneHotOrEmbedding
from tabapp.nn.layers.linear import Linear, linear
from tabapp.nn.layers.numeric import PiecewiseLinearEmbedding
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.params import SharingParams

from ._shared.search import share_of_others, zero_or

MOST_ONE_HOT = 32


class TabMParams(SharingParams, frozen=True, kw_only=True):
    """Attributes:
    variant: "full" scales every layer per member, "mini" only the input.
    n_members: number of MLPs that share weights (k in the paper; not tuned).
    n_blocks: number of hidden layers.
    width: size of each hidden layer.
    dropout: dropout rate after each hidden layer.
    n_bins: maximum number of bins of the piecewise-linear embeddings; 0 disables the embeddings.
    d_embedding: size of a numeric column's embedding.
    """

    variant: Literal["full", "mini"] = "full"
    n_members: int = 32
    n_blocks: int = 2
    width: int = 512
    dropout: float = 0.1
    n_bins: int = 48
    d_embedding: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 3e-4
    max_gradient_norm: float = 1.0


class MemberScale(nn.Module):
    """Each member's own factor for each value. Shape: (n_members or 1, rows, d) to (n_members, rows, d)."""

    def __init__(self, n_members: int, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, d))

    @torch.no_grad()
    def randomize(self, widths: tuple[int, ...], *, normal: bool) -> None:
        """One random factor per member and feature, shared by all columns of the feature: N(0, 1), or a random sign."""
        shape = len(self.weight), len(widths)
        factors = torch.randn(shape) if normal else 1.0 - 2.0 * torch.randint(0, 2, shape)
        self.weight.copy_(factors.repeat_interleave(torch.tensor(widths), dim=1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.unsqueeze(1).to(x.dtype)


class EnsembleLinear(nn.Module):
    """BatchEnsemble's linear layer (Wen et al. 2020): ((x ⊙ r_i) Wᵀ) ⊙ s_i + b_i for member i, with W shared.

    All members' biases start with the same values (Gorishniy et al. 2025, the authors' package).

    Shape: (n_members or 1, rows, d_in) to (n_members, rows, d_out).
    """

    def __init__(self, n_members: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.input_scale = MemberScale(n_members, d_in)
        shared = Linear(d_in, d_out)
        self.weight = shared.weight
        self.output_scale = MemberScale(n_members, d_out)
        self.bias = nn.Parameter(shared.bias.detach().repeat(n_members, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = linear(self.input_scale(x), self.weight)
        return torch.addcmul(self.bias.unsqueeze(1).to(x.dtype), x, self.output_scale.weight.unsqueeze(1).to(x.dtype))


class TabMNetwork(nn.Module):
    """MLPs that share most of their weights, each with its own head.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, n_members, d_out).
    """

    def __init__(self, sizes: Sizes, params: TabMParams) -> None:
        super().__init__()
        n_numeric, k, width = sizes.n_numeric, params.n_members, params.width
        embedded = n_numeric > 0 and params.n_bins > 0
        self.numeric = PiecewiseLinearEmbedding(n_numeric, params.n_bins, params.d_embedding) if embedded else None
        self.categorical = OneHotOrEmbedding(sizes.cardinalities, most_one_hot=MOST_ONE_HOT)
        widths = (params.d_embedding if embedded else 1,) * n_numeric + self.categorical.widths
        d_in = (sum(widths), *[width] * params.n_blocks)
        if params.variant == "mini":
            self.scale = MemberScale(k, d_in[0])
            layers: list[nn.Module] = [Linear(a, width) for a in d_in[:-1]]
            first_scale = self.scale
        else:
            self.scale = nn.Identity()
            ensembles = [EnsembleLinear(k, a, width) for a in d_in[:-1]]
            layers = [*ensembles]
            first_scale = ensembles[0].input_scale
        # With embeddings, random signs alone would make the members too similar.
        first_scale.randomize(widths, normal=embedded)
        self.blocks = nn.Sequential(*[nn.Sequential(x, nn.ReLU(), Dropout(params.dropout)) for x in layers])
        bound = width**-0.5
        self.head_weight = nn.Parameter(torch.empty(k, width, sizes.d_out).uniform_(-bound, bound))
        self.head_bias = nn.Parameter(torch.empty(k, sizes.d_out).uniform_(-bound, bound))

    def flat_input(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, d_in): input of all members before their scales."""
        if self.numeric is not None:
            numeric = self.numeric(numeric).flatten(1)
        return torch.cat([numeric, self.categorical(categorical)], dim=1)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        x = self.blocks(self.scale(self.flat_input(numeric, categorical).unsqueeze(0)))
        return torch.baddbmm(self.head_bias.unsqueeze(1), x, self.head_weight).transpose(0, 1)


class TabM(DeepPlugin):
    """NOTE[DIFF]: all members train on the same batch, while the paper gives each member its own. Embeddings are then
    computed once, at a small cost in quality (an RMSE of 0.431 instead of 0.429 on California housing in the authors'
    results). Binary targets use one logit instead of two, and categories with many levels use an embedding instead of a
    one-hot vector.
    """

    name = "tabm"
    title = "TabM"
    paper = "Gorishniy et al. 2025, TabM: Advancing Tabular Deep Learning with Parameter-Efficient Ensembling"
    reuses_steps = True
    uses_other_targets = True
    params_type = TabMParams
    low_precision = True
    repeats_steps = True
    max_features = 5_000

    def build(self, sizes: Sizes, params: TabMParams) -> TabMNetwork:
        return TabMNetwork(sizes, params)

    def initialize(self, network: nn.Module, train: Table) -> None:
        assert isinstance(network, TabMNetwork)
        if network.numeric is not None:
            network.numeric.set_bins(torch.tensor(train.numeric))

    def undecayed(self, network: nn.Module) -> set[str]:
        """Biases and embeddings; the members' scales are decayed (the authors' experiments)."""
        return {
            name
            for name, _ in network.named_parameters()
            if name.endswith("bias") or name.startswith(("numeric.", "categorical."))
        }

    def defaults(self, task: Task, shape: Shape, device: str) -> TabMParams:
        """The authors' default with embeddings on a GPU.

        NOTE[DIFF]: on a CPU, half the members, half the width, the mini variant, a higher learning rate with weight
        averaging, and dropout for small tables only. In 20 s, one thread reached an RMSE of 44,000 on California housing,
        against 46,400 with the authors' learning rate and dropout and no averaging.
        """
        if device != "cpu":
            return TabMParams()
        many = shape.n_rows >= 5_000
        return TabMParams(
            variant="mini",
            n_members=16,
            width=256,
            dropout=0.0 if many else 0.1,
            learning_rate=4e-3 if many else 2e-3,
            average_decay=0.99,
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> TabMParams:
        """The space of TabM with piecewise-linear embeddings (Gorishniy et al. 2025).

        NOTE[DIFF]: on a CPU, the width is at most 512, with 16 members.
        """
        on_cpu = device == "cpu"
        return TabMParams(
            variant="mini" if on_cpu else "full",
            n_members=16 if on_cpu else 32,
            n_blocks=trial.suggest_int("n_blocks", 1, 4),
            width=trial.suggest_int("width", 64, 512 if on_cpu else 1024, step=16),
            dropout=zero_or(trial, "dropout", 0.0, 0.5),
            n_bins=trial.suggest_int("n_bins", 2, 128),
            d_embedding=trial.suggest_int("d_embedding", 8, 32, step=4),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 5e-3, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-4, 1e-1, log=True),
            average_decay=0.99 if on_cpu else 0.0,
            others_share=share_of_others(trial, shape),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """Second to RealMLP among networks in TabArena's comparison of 2026."""
        return 2.5

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, TabMParams)
        d_in = shape.n_numeric * (params.d_embedding if params.n_bins else 1) + 6 * shape.n_categorical
        n_weights = d_in * params.width + (params.n_blocks - 1) * params.width**2
        # Each value of a hidden layer also passes through memory several times, which counts as 60 products.
        per_row = n_weights + 60 * params.n_blocks * params.width
        # Each member scales the whole input, and so does the gradient of its scales.
        hidden = 2.3 * params.n_members * params.n_blocks * params.width
        own_inputs = params.n_members * d_in
        embedded = shape.n_numeric * (3 * params.d_embedding + 2 * params.n_bins)
        n_bytes = network_bytes(
            shape,
            n_weights,
            device,
            values=hidden + 12 * own_inputs + embedded,
            peak=0.75 * hidden + own_inputs + embedded,
            batch_size=params.batch_size,
        )
        flops = 4 * per_row * params.n_members * shape.n_rows
        return training_cost(shape, flops, n_weights, device, n_epochs=75, n_bytes=n_bytes)
