"""Networks in ONNX, by the exporter of PyTorch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tabapp.features.arrays import FIRST_LEVEL
from tabapp.nn.layers.gather import lookups_by_column
from tabapp.nn.training.objective import Objective

EXAMPLE_ROWS = 13
"""Rows with which the network is traced. A network that takes their number for a constant cannot predict other numbers of rows."""


class _Predicting(nn.Module):
    """A network and its objective: inputs to predictions."""

    def __init__(self, network: nn.Module, objective: Objective, n_numeric: int, n_categorical: int) -> None:
        super().__init__()
        self.network, self.objective = network, objective
        self._sizes = n_numeric, n_categorical

    def forward(self, *parts: Tensor) -> Tensor:
        n_numeric, n_categorical = self._sizes
        numeric = parts[0] if n_numeric else parts[0][:, :0].float()
        categorical = parts[-1] if n_categorical else parts[0][:, :0].long()
        output = self.network(numeric, categorical).float()
        if output.ndim == 2:
            output = output.unsqueeze(1)
        objective = self.objective
        output = output[:, :, : objective.d_out]
        if objective.task == "regression":
            prediction = output.mean(1).double() * objective.std + objective.mean
            return prediction if objective.limits is None else prediction.clamp(*objective.limits)
        if objective.task == "binary":
            positive = output.sigmoid().mean(1)
            return torch.cat([1 - positive, positive], dim=1)
        return output.softmax(2).mean(1)


def network_as_onnx(
    network: nn.Module, objective: Objective, n_numeric: int, cardinalities: Sequence[int], opset: int
) -> bytes:
    """A trained network as an ONNX model with the inputs of `FittedModel.onnx`.

    Raises:
        Exception: an operation has no counterpart in ONNX.
    """
    generator = torch.Generator().manual_seed(0)
    example: list[Tensor] = []
    if n_numeric:
        example.append(torch.randn(EXAMPLE_ROWS, n_numeric, generator=generator))
    if cardinalities:
        codes = [torch.randint(0, max(FIRST_LEVEL, n), (EXAMPLE_ROWS,), generator=generator) for n in cardinalities]
        example.append(torch.stack(codes, dim=1))
    names = ["numeric"] * bool(n_numeric) + ["categorical"] * bool(cardinalities)
    content = io.BytesIO()
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    module = _Predicting(network.cpu().eval(), objective, n_numeric, len(cardinalities))
    try:
        with warnings.catch_warnings(), lookups_by_column(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                tuple(example),
                content,  # pyright: ignore[reportArgumentType] (the exporter by tracing also writes to memory)
                input_names=names,
                output_names=["prediction"],
                dynamic_axes={name: {0: "rows"} for name in (*names, "prediction")},
                opset_version=opset,
                dynamo=False,
            )
    finally:
        network.to(device)
    return content.getvalue()
