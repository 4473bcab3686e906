"""Batch normalization that does not depend on the number of threads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tabapp.nn.layers.batch_norm import BatchNorm


def trained(layer, n_threads, n_rows=300, width=400):
    """Output, gradients and running statistics after three batches with that number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        generator = torch.Generator().manual_seed(0)
        values = []
        for _ in range(3):
            rows = (3 + 2 * torch.randn(n_rows, width, generator=generator)).requires_grad_()
            output = layer(rows)
            output.backward(torch.randn(n_rows, width, generator=generator))
            values += [output.detach(), rows.grad]
        return [*values, layer.weight.grad, layer.bias.grad, layer.running_mean, layer.running_var]
    finally:
        torch.set_num_threads(before)


def test_the_number_of_threads_does_not_change_a_bit():
    one, two = trained(BatchNorm(400), 1), trained(BatchNorm(400), 2)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("momentum", [0.1, 0.01])
def test_it_equals_the_layer_of_torch(momentum):
    own, reference = BatchNorm(40, momentum=momentum), nn.BatchNorm1d(40, momentum=momentum)
    for a, b in zip(trained(own, 1, width=40), trained(reference, 1, width=40), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert own.state_dict().keys() == reference.state_dict().keys()
    assert int(own.num_batches_tracked) == 3
    rows = torch.randn(5, 40)
    torch.testing.assert_close(own.eval()(rows), reference.eval()(rows), rtol=1e-4, atol=1e-5)


def test_a_single_row_is_an_error_as_in_torch():
    with pytest.raises(ValueError, match="more than 1 value"):
        BatchNorm(4)(torch.zeros(1, 4))


def test_rows_in_half_precision_are_normalized_as_by_torch():
    rows = (3 + 2 * torch.randn(300, 40, generator=torch.Generator().manual_seed(0))).to(torch.bfloat16)
    own, reference = BatchNorm(40), nn.BatchNorm1d(40)
    output = own(rows)
    assert output.dtype == torch.bfloat16
    # bfloat16 has 8 bits: values of up to 4 have a rounding error of 2 ** -7.
    torch.testing.assert_close(output, reference(rows), rtol=2**-7, atol=2**-7)
    torch.testing.assert_close(own.running_var, reference.running_var, rtol=1e-4, atol=1e-5)
