"""Muon (Jordan et al. 2024) for the matrices of the layers and Adam for the other parameters.

The momentum is kept in bfloat16, so that a saved state is small and continues exactly.
"""

# torch exports the operations on many tensors at once under private names only; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5


def orthogonalized(matrices: Tensor) -> Tensor:
    """About U Vᵀ of each matrix U S Vᵀ, by Newton and Schulz's iteration in bfloat16 (on a CPU, float32).

    Shape: (n, rows, columns) to itself.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon:
    """The optimizer of a network whose layers' matrices are called `layers.…weight`.

    A matrix of three squares, as that of queries, keys and values, counts as three. Steps have the size of those of Adam (Liu et
    al. 2025): 0.2 √max(rows, columns) times the orthogonal matrix.
    """

    def __init__(self, network: nn.Module, *, momentum: float = 0.95, weight_decay: float = 0.01) -> None:
        named = list(network.named_parameters())
        self._matrices = [p for name, p in named if name.startswith("layers.") and p.ndim == 2]
        self._others = [p for name, p in named if not (name.startswith("layers.") and p.ndim == 2)]
        self._momentum, self._weight_decay = momentum, weight_decay
        self._velocity = [torch.zeros_like(p, dtype=torch.bfloat16) for p in self._matrices]
        self._first = [torch.zeros_like(p) for p in self._others]
        self._second = [torch.zeros_like(p) for p in self._others]
        self.n_steps = 0

    def state(self) -> dict[str, Tensor]:
        """The tensors by name. A resumed training fills them in place, and sets `n_steps`."""
        parts = {"velocity": self._velocity, "first": self._first, "second": self._second}
        return {f"{name}.{i}": tensor for name, tensors in parts.items() for i, tensor in enumerate(tensors)}

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Take a step against the gradients, and set them to None."""
        self.n_steps += 1
        self._step_matrices(learning_rate)
        self._step_others(learning_rate)
        for parameter in (*self._matrices, *self._others):
            parameter.grad = None

    def _step_matrices(self, learning_rate: float) -> None:
        gradients = [p.grad.bfloat16() for p in self._matrices if p.grad is not None]
        torch._foreach_mul_(self._velocity, self._momentum)
        torch._foreach_add_(self._velocity, gradients)
        # Nesterov's momentum.
        torch._foreach_add_(gradients, self._velocity, alpha=self._momentum)
        by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
        for parameter, gradient in zip(self._matrices, gradients, strict=True):
            for part, direction in zip(_parts(parameter.detach()), _parts(gradient), strict=True):
                by_shape.setdefault((part.shape[0], part.shape[1]), []).append((part, direction))
        for shape, pairs in by_shape.items():
            weights = [part for part, _ in pairs]
            updates = orthogonalized(torch.stack([direction for _, direction in pairs])).float().unbind(0)
            torch._foreach_mul_(weights, 1 - learning_rate * self._weight_decay)
            torch._foreach_add_(weights, updates, alpha=-learning_rate * 0.2 * max(shape) ** 0.5)

    def _step_others(self, learning_rate: float) -> None:
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._others]
        weights = [p.detach() for p in self._others]
        torch._foreach_lerp_(self._first, gradients, 1 - 0.9)
        torch._foreach_mul_(self._second, 0.99)
        torch._foreach_addcmul_(self._second, gradients, gradients, 1 - 0.99)
        scale = torch._foreach_div(self._second, 1 - 0.99**self.n_steps)
        torch._foreach_sqrt_(scale)
        torch._foreach_add_(scale, 1e-8)
        torch._foreach_addcdiv_(weights, self._first, scale, -learning_rate / (1 - 0.9**self.n_steps))


def _parts(matrix: Tensor) -> tuple[Tensor, ...]:
    """The squares of a matrix of three, as that of queries, keys and values; any other matrix as it is."""
    rows, columns = matrix.shape
    return matrix.split(columns) if rows == 3 * columns else (matrix,)
