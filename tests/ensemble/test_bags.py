import numpy as np
import pytest

from tabapp.ensemble.bags import Bags


def bags_of(target, groups=None, *, is_classes=False, seed=0):
    """The bags as a (bags, rows) mask."""
    bags = Bags.of(np.asarray(target), groups, seed, is_classes=is_classes)
    masks = np.zeros((len(bags.has), len(target)), dtype=bool)
    for bag, mask in enumerate(masks):
        mask[bags.rows(bag)] = True
    return masks


def test_every_row_is_in_a_third_of_the_bags_and_every_bag_has_a_third_of_the_rows():
    masks = bags_of(np.arange(240.0))
    assert masks.shape == (12, 240)
    assert (masks.sum(axis=0) == 4).all()
    assert (masks.sum(axis=1) == 80).all()
    assert len({mask.tobytes() for mask in masks}) == 12


def test_a_class_is_spread_over_all_bags():
    target = np.repeat([0, 1, 2], [500, 80, 24])
    masks = bags_of(np.random.default_rng(0).permutation(target), is_classes=True)
    assert all(len(np.unique(np.random.default_rng(0).permutation(target)[mask])) == 3 for mask in masks)


def test_bags_of_numbers_do_not_depend_on_the_target():
    np.testing.assert_array_equal(bags_of(np.arange(90.0)), bags_of(np.arange(90.0)[::-1]))
    assert not np.array_equal(bags_of(np.arange(90.0)), bags_of(np.arange(90.0), seed=1))


def test_the_rows_of_a_group_are_in_the_same_bags():
    groups = np.random.default_rng(0).integers(0, 40, 300)
    masks = bags_of(np.zeros(300), groups)
    for group in range(40):
        assert (masks[:, groups == group] == masks[:, groups == group][:, :1]).all()
    assert masks.any(axis=1).all()
    assert not masks.all(axis=1).any()


def test_each_row_is_blended_with_weights_of_bags_without_it():
    generator = np.random.default_rng(0)
    candidates, weights = list(generator.normal(size=(3, 100))), generator.dirichlet(np.ones(3), 12)
    bags = Bags.of(np.zeros(100), None, 0, is_classes=False)
    masks = bags_of(np.zeros(100))
    expected = [weights[~masks[:, row]].mean(axis=0) @ np.array(candidates)[:, row] for row in range(100)]
    np.testing.assert_allclose(bags.blended(candidates, weights), expected)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_of_a_few_rows_some_are_in_every_bag(n_rows):
    bags = Bags.of(np.zeros(n_rows), None, 0, is_classes=True)
    blended = bags.blended([np.ones(n_rows), np.zeros(n_rows)], np.full((len(bags.has), 2), 0.5))
    np.testing.assert_allclose(blended, 0.5)
