import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.prior import judge, judge_tables
from benchmarks.prior.judge_tables import draw_of, macro_auc, read_tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table with a class target, rare classes, categories and missing cells, and one with a numeric target."""
    rng = np.random.default_rng(0)
    n = 2_400
    classes = rng.choice(["a", "b", "c", "rare"], n, p=[0.5, 0.3, 0.195, 0.005])
    frame = pl.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, "?", (rng.normal(size=n) + (classes == "a")).round(4).astype(str)),
            "color": np.where(classes == "b", "red", rng.choice(["red", "blue"], n)),
            "row": np.arange(n).astype(str),
            "class": classes,
        }
    )
    frame.write_csv(tmp_path / "classes.csv")
    frame.select("x", y=rng.normal(size=n)).head(90).write_csv(tmp_path / "numbers.csv", separator=";")
    facts = {"encoding": "utf-8", "separator": ","}
    entries = [
        facts
        | {"name": "c", "file": "classes.csv", "target": "class", "task": "multiclass", "leak_or_id_columns": ["row"]},
        facts | {"name": "n", "file": "numbers.csv", "target": "y", "task": "regression", "separator": ";"},
    ]
    entries[1]["leak_or_id_columns"] = []
    (tmp_path / "datasets.json").write_text(json.dumps(entries))
    return tmp_path


def test_draws_have_at_most_1000_training_rows_and_every_class(folder: Path) -> None:
    classes, numbers = read_tables(folder, ["c", "n"])
    assert len(classes.labels) < 2_400
    draw = draw_of(classes, 0)
    assert draw.train.shape == (1_000, 2)
    assert draw.categorical.tolist() == [False, True]
    assert set(draw.train_labels) == set(draw.test_labels) == {0, 1, 2}
    assert 0.05 < np.isnan(draw.train[:, 0]).mean() < 0.15
    assert not np.array_equal(draw.train, draw_of(classes, 1).train, equal_nan=True)
    halves = draw_of(numbers, 0)
    assert halves.train.shape == (60, 1)
    assert halves.n_classes == 2
    assert halves.test_labels.mean() == pytest.approx(0.5)


def test_categories_that_the_training_rows_lack_are_missing() -> None:
    train, test = judge_tables._coded(["b", "a", None, "c", "b"], np.array([0, 1, 2]), np.array([3, 4]))
    np.testing.assert_array_equal(train, [1, 0, np.nan])
    np.testing.assert_array_equal(test, [np.nan, 1])


def test_macro_auc_is_that_of_scikit_learn_with_ties() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 200)
    probabilities = rng.dirichlet([1, 1, 1], 200).round(1)
    expected = np.mean([roc_auc_score(labels == c, probabilities[:, c]) for c in range(3)])
    assert macro_auc(labels, probabilities) == pytest.approx(expected)
    assert macro_auc(labels % 2, probabilities[:, :2]) == pytest.approx(roc_auc_score(labels % 2, probabilities[:, 1]))


def test_models_and_a_network_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A "network" that knows the answer wins on each table and improves the ensemble."""
    tables = read_tables(folder, ["c", "n"])

    def oracle(draw: judge_tables.Draw, seed: int, threads: int) -> judge_tables.Floats:
        return np.eye(draw.n_classes)[draw.test_labels]

    monkeypatch.delitem(judge.MODELS, "catboost")
    monkeypatch.delitem(judge.MODELS, "lightgbm")
    systems = {name: (name, model) for name, model in judge.MODELS.items()} | {judge.NETWORK: ("network-0", oracle)}
    results = judge.judge(tables, [0, 1], systems, folder / "kept", 1)
    assert results["c"]["random_forest"][0] > 0.55
    found = judge.summary(results, ["c", "n"])
    assert found[judge.NETWORK]["auc"] == 1
    assert found["logistic"]["wins"] == 2
    assert found["logistic"]["ratio"] < 0.01
    assert found[judge.WITH]["auc"] > found[judge.WITHOUT]["auc"]
    assert found[judge.WITH]["ratio"] < 1
    assert judge.lines_of(found)[0][0] == judge.NETWORK
    kept = judge.judge(tables, [0, 1], dict.fromkeys(systems, ("logistic", oracle)), folder / "kept", 1)
    assert kept["c"]["logistic"] == results["c"]["logistic"]


def test_a_ratio_is_the_geometric_mean_of_errors() -> None:
    results = {"s": {"a": [0.9], "b": [0.8]}, "t": {"a": [0.6], "b": [0.8]}}
    found = judge.comparison(results, ["s", "t"], "a", "b")
    assert found["difference"] == pytest.approx(-0.05)
    assert found["wins"] == 1
    assert found["ratio"] == pytest.approx(1.0)
