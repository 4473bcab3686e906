"""Optimizers without the compiler of torch: the same steps, and the compiler still works."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import torch
from tabapp.nn.training.uncompiled import leave_compiler

if sys.argv[1] == "left":
    leave_compiler()
results = {}
for make in (
    lambda weights: torch.optim.AdamW(weights, fused=True),
    lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda weights: torch.optim.Adam(weights, weight_decay=0.1, amsgrad=True),
):
    torch.manual_seed(0)
    network, rows = torch.nn.Linear(3, 1), torch.randn(16, 3)
    optimizer = make(network.parameters())
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    for _ in range(3):
        optimizer.zero_grad()
        network(rows).square().sum().backward()
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    grows = network.weight.grad is not None and torch.is_grad_enabled()
    results[type(optimizer).__name__] = [network.weight.tolist(), network.weight.requires_grad, grows]
has_compiler = "torch._dynamo" in sys.modules
if sys.argv[1] == "left":
    double = torch.compile(lambda x: 2 * x, backend="eager")
    results["compiled"] = double(torch.ones(1)).item()
print(json.dumps([results, has_compiler]))
"""


def run(how: str) -> tuple[dict[str, object], bool]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    results, has_compiler = json.loads(done.stdout)
    return results, has_compiler


@pytest.mark.slow
def test_steps_are_the_same_without_the_compiler_which_stays_usable() -> None:
    left, has_compiler = run("left")
    assert not has_compiler
    assert left.pop("compiled") == 2.0
    assert left == run("kept")[0]
