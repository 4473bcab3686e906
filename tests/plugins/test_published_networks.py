"""The presets of networks have the tables of the supplement of Gorishniy et al. 2021, value by value."""

from __future__ import annotations

import pytest

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.describe import Distribution, search_space

SMALL, LARGE = Shape(20_000, 10, 0, 2), Shape(500_000, 10, 0, 2)
SIZES = pytest.mark.parametrize(("shape", "factor"), [(SMALL, 1), (LARGE, 2)])


def whole(name: str, low: int, high: int) -> Distribution:
    return Distribution(name, "int", low, high, 1)


def log(name: str, low: float, high: float) -> Distribution:
    return Distribution(name, "float", low, high, log=True)


def uniform(name: str, low: float, high: float) -> Distribution:
    return Distribution(name, "float", low, high)


def one_of(name: str, *choices: object) -> Distribution:
    return Distribution(name, "categorical", choices=choices)


def or_zero(value: Distribution) -> list[Distribution]:
    used = f"use_{value.name}"
    condition = ((used, (True,)),)
    return [
        one_of(used, False, True),
        Distribution(value.name, value.kind, value.low, value.high, log=value.log, condition=condition),
    ]


def space(name: str, shape: Shape, task: str = "binary") -> dict[str, Distribution]:
    """The draws by name, with the conditions of widths left out."""
    found = search_space(registry.get(name), task, shape, "cpu")
    assert found == search_space(registry.get(name), task, shape, "cuda:0")
    return {
        each.name: Distribution(each.name, each.kind, each.low, each.high, each.step)
        if each.name.endswith("_width")
        else each
        for each in found
    }


def expect(*groups: Distribution | list[Distribution]) -> dict[str, Distribution]:
    flat = [each for group in groups for each in (group if isinstance(group, list) else [group])]
    return {each.name: each for each in flat}


@SIZES
def test_mlp_is_tuned_in_the_space_of_table_8(shape, factor):
    widths = [whole(f"{part}_width", 1, 512 * factor) for part in ("first", "middle", "last")]
    assert space("mlp:paper", shape) == expect(
        whole("n_layers", 1, 8 * factor),
        widths,
        or_zero(uniform("dropout", 0, 0.5)),
        log("learning_rate", 1e-5, 1e-2),
        or_zero(log("weight_decay", 1e-6, 1e-3)),
    )


@SIZES
def test_resnet_is_tuned_in_the_space_of_table_9(shape, factor):
    assert space("resnet:paper", shape) == expect(
        whole("n_layers", 1, 8 * factor),
        whole("width", 64, 512 * factor),
        uniform("hidden_factor", 1, 4),
        uniform("hidden_dropout", 0, 0.5),
        or_zero(uniform("residual_dropout", 0, 0.5)),
        log("learning_rate", 1e-5, 1e-2),
        or_zero(log("weight_decay", 1e-6, 1e-3)),
    )


@SIZES
def test_snn_is_tuned_in_the_space_of_table_10(shape, factor):
    widths = [whole(f"{part}_width", 1, 512 * factor) for part in ("first", "middle", "last")]
    assert space("snn:paper", shape) == expect(
        whole("n_layers", 2, 16 * factor),
        widths,
        or_zero(uniform("dropout", 0, 0.1)),
        log("learning_rate", 1e-5, 1e-2),
        or_zero(log("weight_decay", 1e-5, 1e-3)),
    )


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_tabnet_is_tuned_in_the_space_of_table_11(shape):
    assert space("tabnet:paper", shape) == expect(
        whole("n_steps", 3, 10),
        one_of("width", 8, 16, 32, 64, 128),
        uniform("relaxation", 1, 2),
        log("sparsity", 1e-6, 1e-1),
        uniform("decay_rate", 0.4, 0.95),
        one_of("decay_steps", 100, 500, 2000),
        uniform("learning_rate", 1e-3, 1e-2),
    )


@pytest.mark.parametrize(
    ("n_rows", "batch", "virtual"), [(20_000, 2048, 256), (70_000, 8192, 512), (400_000, 16384, 1024)]
)
def test_tabnet_has_the_published_batches(n_rows, batch, virtual):
    params = registry.get("tabnet:paper").defaults("binary", Shape(n_rows, 10, 0, 2), "cpu")
    assert (params.batch_size, params.virtual_batch_size, params.average_decay) == (batch, virtual, 0)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_grownet_is_tuned_in_the_grid_of_table_12(shape):
    assert space("grownet:paper", shape) == expect(
        one_of("width", 32, 64, 128), one_of("learning_rate", 0.0001, 0.001, 0.01)
    )
    assert registry.get("grownet:paper").defaults("binary", shape, "cpu").n_learners == 40


@SIZES
def test_dcn_v2_is_tuned_in_the_space_of_table_13(shape, factor):
    assert space("dcn_v2:paper", shape) == expect(
        whole("n_cross_layers", 1, 8 * factor),
        whole("n_hidden_layers", 1, 8 * factor),
        whole("width", 64, 512 * factor),
        uniform("hidden_dropout", 0, 0.5),
        or_zero(uniform("cross_dropout", 0, 0.5)),
        log("learning_rate", 1e-5, 1e-2),
        or_zero(log("weight_decay", 1e-6, 1e-3)),
    )


@pytest.mark.parametrize(("shape", "low", "high"), [(SMALL, 1e-5, 1e-3), (LARGE, 3e-5, 3e-4)])
def test_autoint_is_tuned_in_the_space_of_table_14(shape, low, high):
    found = space("autoint:paper", shape)
    # Tokens are divided among two heads.
    assert found.pop("d_token") == Distribution("d_token", "int", 8, 64, 2)
    assert found == expect(
        whole("n_layers", 1, 6),
        or_zero(uniform("residual_dropout", 0, 0.2)) if shape is SMALL else [],
        uniform("attention_dropout", 0, 0.5),
        log("learning_rate", low, high),
        log("weight_decay", 1e-6, 1e-3),
    )


def test_node_has_the_default_and_the_grid_of_its_paper():
    plugin = registry.get("node:paper")
    params = plugin.defaults("binary", SMALL, "cpu")
    assert (params.n_layers, params.n_trees, params.depth, params.extra_channels) == (1, 2048, 6, 2)
    grid = one_of("n_layers", 2, 4, 8), one_of("n_trees_of_all_layers", 1024, 2048), one_of("depth", 6, 8)
    assert space("node:paper", SMALL) == expect(*grid, one_of("extra_channels", 1, 2))
    assert space("node:paper", SMALL, "multiclass") == expect(*grid)
    assert plugin.defaults("multiclass", SMALL, "cpu").extra_channels == 0


@pytest.mark.parametrize("name", ["mlp:paper", "resnet:paper", "snn:paper", "dcn_v2:paper", "autoint:paper"])
def test_networks_of_the_paper_are_trained_by_adamw_alone(name):
    params = registry.get(name).defaults("binary", SMALL, "cpu")
    assert (params.average_decay, params.max_gradient_norm) == (0, 0)
