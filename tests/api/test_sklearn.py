"""The scikit-learn estimators: scikit-learn's own checks, and what its users do with them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import tabapp
from tabapp.bundle.confined.box import BoxedPredictor
from tabapp.sklearn import TabappClassifier, TabappRegressor
from tests.api.tables import customers, houses
from tests.bundle.pandas_tables import pandas_tables, text_rows

FAST = {"trials": 1, "models": ["linear"], "folds": 2, "random_state": 0}

TOO_FEW = "The check trains on fewer than 20 rows, which tabapp rejects: they cannot be scored by cross-validation."
EXPECTED_FAILURES = {
    "check_n_features_in_after_fitting": TOO_FEW,
    "check_sample_weights_pandas_series": TOO_FEW,
    "check_sample_weights_not_an_array": TOO_FEW,
    "check_sample_weights_shape": TOO_FEW,
    "check_sample_weights_not_overwritten": TOO_FEW,
    "check_classifier_data_not_an_array": TOO_FEW,
    "check_regressors_no_decision_function": TOO_FEW,
    "check_sample_weight_equivalence_on_dense_data": (
        "The check trains on 15 rows; and a row of weight 2 does not equal two rows, which count twice when folds are drawn."
    ),
}
WITHOUT_A_RUN = {
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr",
    "check_no_attributes_set_in_init", "check_estimators_unfitted", "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order", "check_all_zero_sample_weights_error", "check_complex_data", "check_estimators_empty_data_messages",
    "check_estimator_sparse_tag", "check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights", "check_classifiers_regression_target", "check_supervised_y_no_nan",
    "check_fit2d_1sample", "check_fit2d_1feature", "check_fit1d", "check_requires_y_none", "check_get_params_invariance",
    "check_set_params", "check_parameters_default_constructible", *EXPECTED_FAILURES,
} - {"check_sample_weight_equivalence_on_dense_data"}  # fmt: skip
"""Checks that end before a model is trained."""
IN_EVERY_TEST_RUN = {("TabappRegressor", "check_n_features_in")}
"""Checks that train a model and run in `make test`; the tests below cover the others of their kind."""


def checks() -> Iterator[object]:
    """Every check of scikit-learn for both estimators; those that train models are slow but for a few."""
    seen: set[tuple[str, str]] = set()
    for estimator in (TabappClassifier(**FAST), TabappRegressor(**FAST)):
        for made, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            key = (type(estimator).__name__, name)
            marks: list[pytest.MarkDecorator] = []
            if name in EXPECTED_FAILURES:
                marks.append(pytest.mark.xfail(reason=EXPECTED_FAILURES[name], strict=True))
            if name not in WITHOUT_A_RUN and (key not in IN_EVERY_TEST_RUN or key in seen):
                marks.append(pytest.mark.slow)
            seen.add(key)
            options = getattr(check, "keywords", {})
            suffix = "".join(f"-{option}={value}" for option, value in options.items())
            yield pytest.param(made, check, id=f"{type(estimator).__name__}-{name}{suffix}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), checks())
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator: object, check: Callable[[object], None]):
    check(estimator)


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The default folder of runs while this module is tested."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("sklearn") / "runs"
        monkeypatch.setenv("TABAPP_RUNS_DIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def classifier(runs_dir: Path) -> TabappClassifier:
    """Trained on a pandas table with a categorical column and labels of text."""
    table = pd.DataFrame(customers().to_dict(as_series=False)).drop(columns=["since"])
    table["plan"] = table["plan"].astype("category")
    return TabappClassifier(**FAST).fit(table.drop(columns=["bought"]), table["bought"])


def features() -> pd.DataFrame:
    table = pd.DataFrame(customers().to_dict(as_series=False)).drop(columns=["since", "bought"])
    return table.astype({"plan": "category"})


def test_a_classifier_trains_on_a_table_with_types(classifier):
    assert is_classifier(classifier)
    assert list(classifier.classes_) == ["no", "yes"]
    assert list(classifier.feature_names_in_) == ["age", "spent", "plan", "member"]
    assert classifier.n_features_in_ == 4
    assert classifier.leaderboard_["model"].to_list() == ["ensemble", "linear"]
    probabilities = classifier.predict_proba(features())
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (classifier.classes_[probabilities.argmax(axis=1)] == classifier.predict(features())).all()
    assert classifier.score(features(), customers()["bought"].to_numpy()) > 0.6


def test_polars_and_pandas_give_the_same_predictions(classifier):
    frame = customers().drop("since", "bought")
    np.testing.assert_allclose(classifier.predict_proba(frame), classifier.predict_proba(features()))


def test_other_columns_than_in_training_are_rejected(classifier):
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(features().rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(features().drop(columns=["age"]))
    with pytest.raises(ValueError, match="infinity"):
        classifier.predict(features().assign(spent=np.inf))
    with pytest.raises(NotFittedError):
        TabappClassifier().predict(features())


def test_the_estimator_keeps_its_bundle_and_nothing_else(classifier, tmp_path):
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copy.predict(features()), classifier.predict(features()))
    (tmp_path / "model.tabapp").write_bytes(classifier.bundle_)
    assert tabapp.load(tmp_path / "model.tabapp").classes == ("no", "yes")


def test_the_bundle_of_a_pickled_estimator_is_loaded_in_a_confined_process(classifier):
    copy = pickle.loads(pickle.dumps(classifier))
    assert isinstance(copy._predictor(), BoxedPredictor)
    assert copy._predictor() is copy._predictor()
    assert not isinstance(classifier._predictor(), BoxedPredictor)


def test_runs_of_estimators_are_not_in_the_list_of_runs(classifier, runs_dir):
    assert classifier.bundle_
    assert tabapp.runs() == []
    assert not runs_dir.exists()


@pytest.mark.parametrize(
    "labels",
    [[False, True], [1.0, 2.0, -1.0], [3, 10, 2], ["NA", "none", "?"], ["a", " a", ""]],
    ids=["booleans", "numbers", "integers", "spelled like missing cells", "equal but for blanks"],
)
@pytest.mark.slow
def test_labels_come_back_as_they_were(labels):
    X, codes = make_classification(
        n_samples=90, n_classes=len(labels), n_informative=5, class_sep=3, flip_y=0, random_state=0
    )
    y = np.array(labels)[codes]
    classifier = TabappClassifier(**FAST).fit(X, y)
    assert classifier.classes_.dtype == y.dtype
    assert set(classifier.predict(X)) <= set(labels)
    assert classifier.score(X, y) > 0.9


@pytest.mark.slow
def test_y_in_another_order_than_x_is_warned_about():
    table = pd.DataFrame(houses().to_dict(as_series=False))
    price = table.pop("price")
    with pytest.warns(UserWarning, match=r"The index of y has the rows of X in another order.*Pass y\.loc"):
        TabappRegressor(**FAST).fit(table, price.sample(frac=1, random_state=0))


@pytest.mark.parametrize("gap", [None, pd.NA, float("nan"), pd.NaT])
def test_missing_labels_are_rejected(gap):
    labels = pd.Series(["yes", "no"] * 15, dtype=object)
    labels[3] = gap
    with pytest.raises(ValueError, match="Input y contains missing values"):
        TabappClassifier(**FAST).fit(np.zeros((30, 2)), labels)


def test_a_regressor_predicts_numbers():
    frame = houses()
    regressor = TabappRegressor(**FAST).fit(frame.drop("price"), frame["price"].to_numpy())
    assert is_regressor(regressor)
    assert regressor.score(frame.drop("price"), frame["price"].to_numpy()) > 0.7
    assert list(regressor.feature_names_in_) == ["rooms", "area"]


@pytest.mark.slow
def test_weights_decide_between_rows_that_disagree():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(np.arange(60) % 2, 10.0, 0.0)
    weighted = TabappRegressor(**FAST).fit(X, y, sample_weight=np.where(y > 0, 50.0, 1.0))
    assert weighted.predict(X).mean() > 8
    with pytest.raises(ValueError, match="non-zero"):
        TabappRegressor(**FAST).fit(X, y, sample_weight=np.zeros(60))


@pytest.mark.slow
def test_a_seed_decides_the_result():
    X, y = make_regression(n_samples=80, n_features=4, noise=20, random_state=0)
    first, second = (TabappRegressor(**FAST).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = TabappRegressor(**{**FAST, "random_state": 1}).fit(X, y).predict(X)
    assert not np.array_equal(first, other)


@pytest.mark.slow
def test_cross_validation_and_clones():
    X, y = make_classification(n_samples=80, class_sep=2, random_state=0)
    estimator = make_pipeline(StandardScaler(), TabappClassifier(**FAST))
    scores = cross_val_score(clone(estimator), X, y, cv=StratifiedShuffleSplit(1, test_size=0.5, random_state=0))
    assert scores.shape == (1,)
    assert scores.mean() > 0.7


@pytest.mark.slow
def test_cross_validation_with_a_budget():
    X, y = make_classification(n_samples=150, class_sep=2, random_state=0)
    scores = cross_val_score(TabappClassifier(budget="10s", models=["linear", "k_neighbors"]), X, y, cv=2)
    assert scores.mean() > 0.7


@pytest.mark.slow
def test_a_grid_search_tries_parameters():
    X, y = make_regression(n_samples=80, n_features=4, noise=5, random_state=0)
    search = GridSearchCV(TabappRegressor(**FAST), {"models": [["linear"], ["k_neighbors"]]}, cv=2)
    assert search.fit(X, y).best_params_ == {"models": ["linear"]}


def test_options_are_checked_when_the_estimator_is_trained():
    X, y = make_classification(n_samples=40, random_state=0)
    with pytest.raises(tabapp.TabappError, match="quality='good' is not known"):
        TabappClassifier(quality="good").fit(X, y)
    with pytest.raises(ValueError, match="liner"):
        TabappClassifier(**{**FAST, "models": ["liner"]}).fit(X, y)


@pytest.mark.slow
def test_a_table_is_predicted_alike_in_all_types_that_pandas_gives_to_its_columns():
    training = pandas_tables(text_rows(150))["with dates"]
    model = TabappClassifier(**FAST).fit(training.drop(columns=["outcome"]), training["outcome"])
    tables = pandas_tables(text_rows(30, seed=1, gap=True).drop("outcome"))
    expected = model.predict_proba(tables["with dates"])
    for name, table in tables.items():
        np.testing.assert_array_equal(model.predict_proba(table), expected, err_msg=name)
