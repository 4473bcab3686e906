import pytest
import torch

from benchmarks.prior.causes import causal_nodes
from benchmarks.prior.draws import Draws
from benchmarks.prior.tables import MOST_CLASSES, Tables, make_tables


@pytest.fixture(scope="module")
def tables() -> Tables:
    return make_tables(200, 256, 8, Draws(0))


def test_a_seed_gives_the_same_tables() -> None:
    a, b, other = (make_tables(4, 64, 5, Draws(seed)) for seed in (3, 3, 4))
    torch.testing.assert_close(a.values, b.values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(a.labels, b.labels)
    assert not torch.equal(a.labels, other.labels)


def test_labels_have_2_to_10_classes_without_gaps(tables: Tables) -> None:
    occurs = torch.zeros(200, MOST_CLASSES).scatter_(1, tables.labels, 1.0)
    assert torch.equal(occurs.sum(1), tables.n_classes.float())
    assert tables.n_classes.min() == 2
    assert tables.n_classes.max() == MOST_CLASSES
    assert 0.4 < (tables.n_classes == 2).float().mean() < 0.8


def test_some_tables_are_imbalanced_and_some_are_not(tables: Tables) -> None:
    two = tables.labels[tables.n_classes == 2].float().mean(1)
    smaller = torch.minimum(two, 1 - two)
    assert (smaller < 0.15).float().mean() > 0.05
    assert (smaller > 0.35).float().mean() > 0.3


def test_columns_are_mixed(tables: Tables) -> None:
    """Categories have few codes from 0; a part of the numbers is rounded, and of the tables has missing cells."""
    assert 0.1 < tables.categorical.float().mean() < 0.6
    codes = tables.values.transpose(1, 2)[tables.categorical]
    assert torch.equal(codes.nan_to_num(), codes.nan_to_num().round())
    assert codes.nan_to_num().min() == 0
    assert codes.nan_to_num().max() < 16
    missing = tables.values.isnan()
    assert 0.1 < missing.flatten(1).any(1).float().mean() < 0.4
    assert missing.float().mean() < 0.1
    assert torch.isfinite(tables.values.nan_to_num()).all()


def test_margins_are_also_skewed(tables: Tables) -> None:
    numbers = tables.values.transpose(1, 2)[~tables.categorical]
    numbers = numbers[~numbers.isnan().any(1)]
    z = (numbers - numbers.mean(1, keepdim=True)) / (numbers.std(1, keepdim=True) + 1e-6)
    skewness = z.pow(3).mean(1).abs()
    assert 0.1 < (skewness > 1.5).float().mean() < 0.6


def test_columns_predict_the_classes_of_most_tables_but_not_of_all(tables: Tables) -> None:
    """The nearest context row by rank is right more often than the most frequent class would be in many tables."""
    ranks = tables.values.nan_to_num().argsort(1).argsort(1).float()
    nearest = torch.cdist(ranks[:, 192:], ranks[:, :192]).topk(9, largest=False).indices
    votes = torch.zeros(200, 64, MOST_CLASSES).scatter_add_(
        2, tables.labels[:, :192].unsqueeze(1).expand(-1, 64, -1).gather(2, nearest), torch.ones(200, 64, 9)
    )
    hits = (votes.argmax(2) == tables.labels[:, 192:]).float().mean(1)
    counts = torch.zeros(200, MOST_CLASSES).scatter_add_(1, tables.labels, torch.ones(200, 256))
    gain = hits - counts.amax(1) / 256
    assert 0.3 < (gain > 0.05).float().mean() < 0.9


def test_unused_nodes_are_marked() -> None:
    nodes = causal_nodes(Draws(1), 50, 32, width=8, most_roots=4, most_layers=3)
    assert nodes.values.shape == (50, 32, 32)
    assert nodes.layer.tolist() == [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8
    assert nodes.used[:, :8].sum(1).max() == 4
    assert torch.equal(nodes.used[:, 8:].sum(1), nodes.depth * 8)
    assert set(nodes.depth.tolist()) == {1, 2, 3}
