from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest
from optuna.trial import TrialState

from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.schedule.tuning import OTHER_DEVICE, Tuner, as_suggested, open_storage
from tabapp.models import registry
from tabapp.models.contract import Shape

SHAPE = Shape(n_rows=1000, n_numeric=5, n_categorical=2, n_classes=2)


def tuner(folder: Path, seed: int = 0, model: str = "xgboost") -> Tuner:
    storage = open_storage(folder / "study.db")
    return Tuner(
        storage, registry.get_to_load(model), task="binary", shape=SHAPE, device="cpu", metric="roc_auc", seed=seed
    )


def test_the_database_is_configured_to_survive_a_crash(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "study.db")
    with storage.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


@pytest.mark.parametrize("model", registry.names())
def test_trial_zero_is_the_defaults_and_later_trials_are_sampled(tmp_path: Path, model: str) -> None:
    plugin = registry.get_to_load(model)
    tuning = tuner(tmp_path, model=model)
    number, params = tuning.ask()
    assert (number, params) == (0, msgspec.to_builtins(plugin.defaults("binary", SHAPE, "cpu")))
    tuning.record(0, 0.8)
    number, drawn = tuning.ask()
    assert number == 1
    assert drawn != params
    assert msgspec.convert(drawn, plugin.params_type) is not None


def test_the_portfolio_comes_before_sampled_trials(tmp_path: Path) -> None:
    plugin = registry.get("lightgbm")
    portfolio = plugin.portfolio("binary", SHAPE, "cpu")
    assert portfolio
    tuning = tuner(tmp_path, model="lightgbm")
    asked = []
    for number in range(len(portfolio) + 2):
        asked.append(tuning.ask()[1])
        tuning.record(number, 0.8)
    assert asked[1 : 1 + len(portfolio)] == [msgspec.to_builtins(params) for params in portfolio]
    assert asked[-1] not in asked[:-1]


def test_several_open_trials_are_drawn_apart_and_recorded_in_any_order(tmp_path: Path) -> None:
    tuning = tuner(tmp_path)
    for number in range(12):
        tuning.ask()
        tuning.record(number, 0.5 + 0.01 * number)
    drawn = [tuning.ask() for _ in range(3)]
    assert [number for number, _ in drawn] == [12, 13, 14]
    assert len({params["learning_rate"] for _, params in drawn}) == 3
    for number in (14, 12, 13):
        tuning.record(number, 0.7)
    again = tuner(tmp_path)
    assert [(number, params) for number, params, _, _ in again.earlier_trials()][-3:] == drawn
    assert again.ask()[0] == 15


def test_siblings_share_the_shape_of_a_drawn_trial(tmp_path: Path) -> None:
    plugin = registry.get("mlp")

    def asked(folder: Path) -> list[tuple[int, dict[str, Any]]]:
        folder.mkdir()
        tuning = tuner(folder, model="mlp")
        tuning.ask()
        # The defaults were not drawn, so that their shape is the model's.
        assert tuning.ask_sibling(0) is None
        tuning.record(0, 0.8)
        first = tuning.ask()
        siblings = [tuning.ask_sibling(first[0]) for _ in range(7)]
        found = [first, *(each for each in siblings if each is not None)]
        assert [number for number, _ in found] == list(range(1, 9))
        assert [tuning.batch_of(number) for number in range(9)] == [None] + [1] * 8
        return found

    found = asked(tmp_path / "a")
    assert found == asked(tmp_path / "b")
    shapes = [{k: v for k, v in params.items() if k not in plugin.free_params} for _, params in found]
    assert shapes == [shapes[0]] * 8
    for name in ("learning_rate", "dropout"):
        assert len({params[name] for _, params in found}) > 3
    again = tuner(tmp_path / "a", model="mlp")
    rates = [params["learning_rate"] for _, params, _, _ in again.earlier_trials()]
    assert rates[1:] == [params["learning_rate"] for _, params in found]
    assert [again.batch_of(number) for number in range(9)] == [None] + [1] * 8
    for number in range(1, 9):
        again.record(number, 0.5 + 0.01 * number)
    assert again.ask()[0] == 9


def test_a_shape_without_free_hyperparameters_has_no_siblings(tmp_path: Path) -> None:
    tuning = tuner(tmp_path, model="xgboost")
    number = 0
    while not tuning._drawn:
        number, _ = tuning.ask()
    assert tuning.ask_sibling(number) is None
    assert tuning.ask()[0] == number + 1


def test_all_trials_of_a_network_hide_the_requested_share_of_cells(tmp_path: Path) -> None:
    drawn: dict[str, list[dict[str, object]]] = {}
    for model in ("mlp", "xgboost"):
        storage = open_storage(tmp_path / f"{model}.db")
        problem: dict[str, Any] = {"task": "binary", "shape": SHAPE, "device": "cpu", "metric": "roc_auc", "seed": 0}
        tuning = Tuner(storage, registry.get(model), **problem, fixed={"hidden_rate": 0.25})
        drawn[model] = [tuning.ask()[1] for _ in range(3)]
    assert [params["hidden_rate"] for params in drawn["mlp"]] == [0.25] * 3
    assert not any("hidden_rate" in params for params in drawn["xgboost"])


def test_the_sequence_depends_only_on_the_seed(tmp_path: Path) -> None:
    sequences: list[list[dict[str, object]]] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        tuning = tuner(tmp_path / name, seed)
        drawn: list[dict[str, object]] = []
        for number in range(8):
            drawn.append(tuning.ask()[1])
            tuning.record(number, 0.5 + 0.01 * (number % 3))
        sequences.append(drawn)
    assert sequences[0] == sequences[1]
    assert sequences[0] != sequences[2]


def test_hyperparameters_of_an_earlier_trial_are_drawn_again_also_after_a_resume(tmp_path: Path) -> None:
    def drawn(tuning: Tuner, count: int) -> list[dict[str, Any]]:
        """The fewer neighbors, the better: the sampler would draw the same few numbers again and again."""
        found: list[dict[str, Any]] = []
        for _ in range(count):
            number, params = tuning.ask()
            tuning.record(number, 1.0 / params["n_neighbors"])
            found.append(params)
        return found

    folders = tmp_path / "whole", tmp_path / "resumed"
    for folder in folders:
        folder.mkdir()
    whole = drawn(tuner(folders[0], model="k_neighbors"), 30)
    assert len({tuple(params.items()) for params in whole}) == 30
    resumed = [drawn(tuner(folders[1], model="k_neighbors"), count) for count in (20, 10)]
    assert [params for part in resumed for params in part] == whole


def test_a_resumed_study_continues_the_same_sequence(tmp_path: Path) -> None:
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    whole = tuner(tmp_path / "whole")
    expected = []
    for number in range(4):
        expected.append(whole.ask()[1])
        whole.record(number, 0.7 + 0.01 * number)
    first = tuner(tmp_path / "broken")
    found = []
    for number in range(2):
        found.append(first.ask()[1])
        first.record(number, 0.7 + 0.01 * number)
    second = tuner(tmp_path / "broken")
    assert [trial[0] for trial in second.earlier_trials()] == [0, 1]
    for number in range(2, 4):
        found.append(second.ask()[1])
        second.record(number, 0.7 + 0.01 * number)
    assert found == expected


def test_crashes_are_recorded_as_pruned_with_their_cause(tmp_path: Path) -> None:
    tuning = tuner(tmp_path)
    tuning.ask()
    tuning.record_pruned(0, "out of memory")
    tuning.record_pruned(0, "a second record has no effect")
    (number, _, state, cause), *rest = tuner(tmp_path).earlier_trials()
    assert (number, state, cause, rest) == (0, TrialState.PRUNED, "out of memory", [])
    database = sqlite3.connect(tmp_path / "study.db")
    assert database.execute("SELECT count(*) FROM trials WHERE state = 'FAIL'").fetchone() == (0,)


def test_the_most_important_hyper_parameter_ranks_first(tmp_path: Path) -> None:
    tuning = tuner(tmp_path, model="lightgbm")
    assert tuning.rank_parameters() is None
    ranked_at: list[int] = []
    for number in range(30):
        _, params = tuning.ask()
        tuning.record(number, -abs(math.log10(params["learning_rate"]) + 1.5))
        ranked = tuning.rank_parameters()
        if ranked is None:
            continue
        n_trials, shares = ranked
        assert n_trials == number + 1
        assert sum(shares.values()) == pytest.approx(1.0)
        assert not any(name.startswith("use_") for name in shares)
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
        ranked_at.append(number + 1)
    assert ranked_at[0] == 10
    assert len(ranked_at) < 8, "not after every trial"
    assert next(iter(shares)) == "learning_rate"


def test_pruned_trials_give_no_ranking(tmp_path: Path) -> None:
    tuning = tuner(tmp_path)
    for number in range(12):
        tuning.ask()
        tuning.record_pruned(number, "out of memory")
    assert tuning.rank_parameters() is None


def test_an_open_trial_is_recovered_with_its_parameters(tmp_path: Path) -> None:
    params = tuner(tmp_path).ask()[1]
    assert tuner(tmp_path).earlier_trials() == [(0, params, TrialState.RUNNING, "")]


def test_zero_or_parameters_are_suggested_in_two_steps() -> None:
    plugin = registry.get("xgboost")
    drawn = as_suggested(plugin.defaults("binary", SHAPE, "cpu"))
    assert drawn["use_gamma"] is (drawn.get("gamma", 0) != 0)
    assert all(value != 0 or isinstance(value, bool) for value in drawn.values())


def test_seeds_differ_by_model_and_number() -> None:
    seeds = {seed_of(0, model, number) for model in ("a", "b") for number in range(50)}
    assert len(seeds) == 100


def test_a_trial_belongs_to_a_class_of_devices(tmp_path: Path) -> None:
    def tuner_on(device: str) -> Tuner:
        storage = open_storage(tmp_path / "study.db")
        plugin = registry.get("tabm")
        return Tuner(storage, plugin, task="binary", shape=SHAPE, device=device, metric="roc_auc", seed=0)

    on_gpu = tuner_on("cuda:0")
    _, first = on_gpu.ask()
    on_gpu.record(0, 0.9)
    _, second = on_gpu.ask()
    on_cpu = tuner_on("cpu")
    assert [(number, state.name, cause) for number, _, state, cause in on_cpu.earlier_trials()] == [
        (0, "COMPLETE", ""),
        (1, "PRUNED", OTHER_DEVICE),
    ]
    number, params = on_cpu.ask()
    assert number == 2
    assert params == msgspec.to_builtins(registry.get("tabm").defaults("binary", SHAPE, "cpu"))
    assert params not in (first, second)
    # A GPU with another number is of the same class.
    assert [state.name for _, _, state, _ in tuner_on("cuda:1").earlier_trials()] == ["COMPLETE", "PRUNED", "PRUNED"]


@pytest.mark.parametrize(
    ("moment", "n_before"), [("asked", 0), pytest.param("queued", 7, marks=pytest.mark.slow), ("drawn", 7)]
)
def test_a_trial_that_a_killed_engine_had_begun_is_drawn_again(tmp_path: Path, moment: str, n_before: int) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()

    def steps(tuning: Tuner, numbers: range) -> list[dict[str, object]]:
        asked = []
        for number in numbers:
            found, params = tuning.ask()
            assert found == number
            asked.append(params)
            tuning.record(number, 0.7 + 0.01 * (number % 5))
        return asked

    expected = steps(tuner(tmp_path / "whole"), range(n_before + 3))
    begun = steps(tuner(tmp_path / "killed"), range(n_before))
    storage = open_storage(tmp_path / "killed" / "study.db")
    study = optuna.create_study(study_name="xgboost", storage=storage, direction="maximize", load_if_exists=True)
    if moment == "queued":
        study.enqueue_trial({"learning_rate": 0.1})
    else:
        trial = study.ask()
        if moment == "drawn":
            registry.get("xgboost").search_space(trial, "binary", SHAPE, "cpu")
    assert begun + steps(tuner(tmp_path / "killed"), range(n_before, n_before + 3)) == expected


def test_a_trial_without_a_score_counts_and_teaches_the_sampler_nothing(tmp_path: Path) -> None:
    tuning = tuner(tmp_path)
    for score in (None, 0.8, None):
        number, _ = tuning.ask()
        tuning.record(number, score)
    states = [state for _, _, state, _ in tuner(tmp_path).earlier_trials()]
    assert states == [TrialState.PRUNED, TrialState.COMPLETE, TrialState.PRUNED]
    assert tuner(tmp_path).ask()[0] == 3
