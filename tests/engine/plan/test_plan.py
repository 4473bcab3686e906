"""Plans made in two stages: models whose plugins load slowly stay pending, and end as they would at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabapp.data.schema import Column, Schema
from tabapp.engine.plan.make_plan import Plan, approximate_shape, make_plan, planned_model, with_pending_models
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.schema_events import schema_event
from tabapp.engine.plan.validation import choose_validation
from tabapp.errors import UsageError
from tabapp.models.contract import Shape
from tabapp.run.options.config import RunConfig
from tests.tables import write_wine


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wine(tmp_path_factory.mktemp("plan") / "wine.csv")


def configured(table: Path, *models: str, exclude: tuple[str, ...] = ()) -> tuple[RunConfig, Schema]:
    config = RunConfig(data=str(table), models=models, exclude=exclude, memory_limit=2**33)
    return config, infer(read_data(config), config)


def pending(plan: Plan) -> list[str]:
    return [model.name for model in plan.models if model.pending]


def test_two_stages_give_the_plan_of_one(table: Path) -> None:
    config, schema = configured(table)
    staged, whole = make_plan(config, schema, staged=True), make_plan(config, schema)
    assert {"mlp", "tabm", "npt"} <= set(pending(staged))
    assert not {"lightgbm", "linear", "prior_fitted"} & set(pending(staged))
    assert pending(whole) == []
    assert [model.title for model in staged.models] == [model.title for model in whole.models]
    assert with_pending_models(staged, approximate_shape(schema, staged.n_classes)) == whole


def test_a_plan_without_a_light_model_is_made_at_once(table: Path) -> None:
    assert pending(make_plan(*configured(table, "mlp", "resnet"), staged=True)) == []
    assert pending(make_plan(*configured(table, "lightgbm", "mlp", exclude=("lightgbm",)), staged=True)) == []


def test_an_excluded_model_is_not_pending(table: Path) -> None:
    plan = make_plan(*configured(table, "lightgbm", "mlp", exclude=("mlp",)), staged=True)
    assert [(model.name, model.reason, model.pending) for model in plan.models] == [
        ("lightgbm", None, False),
        ("mlp", "excluded", False),
    ]


def test_a_plan_needs_a_model(table: Path) -> None:
    with pytest.raises(UsageError, match="None of the selected models can run"):
        make_plan(*configured(table, "lightgbm", "mlp", exclude=("lightgbm", "mlp")), staged=True)


def test_a_staged_plan_and_its_conductor_load_no_library_of_models(table: Path) -> None:
    """The time before the first fit is the time of these imports."""
    program = f"""
import sys
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.schema_events import schema_event
from tabapp.run.options.config import RunConfig
import tabapp.engine.loop.conductor, tabapp.engine.plan.write_rows, tabapp.engine.fit.executors
config = RunConfig(data={str(table)!r})
make_plan(config, infer(read_data(config), config), staged=True)
print(sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "optuna" in loaded
    for library in ("torch", "sklearn", "scipy", "pandas", "lightgbm", "xgboost", "catboost"):
        assert f"'{library}'" not in loaded


def test_a_long_budget_has_eight_folds_of_more_rows(table: Path) -> None:
    def folds(n_rows: int, **options: Any) -> int:
        schema = msgspec.structs.replace(configured(table)[1], rows=n_rows)
        config = RunConfig(data=str(table), **options)
        return choose_validation(config, schema, Shape(n_rows, 5, 0, 3), workers=2)[0]

    assert [folds(n_rows, budget=120) for n_rows in (2_999, 3_000)] == [8, 5]
    assert [folds(n_rows, budget=60) for n_rows in (2_999, 3_000)] == [8, 5]
    assert [folds(n_rows, budget=300) for n_rows in (7_499, 7_500)] == [8, 5]
    assert [folds(n_rows, budget=7_200) for n_rows in (14_999, 15_000)] == [8, 5]
    assert [folds(n_rows, trials=5) for n_rows in (2_999, 3_000)] == [8, 5]
    assert folds(5_000, budget=600, folds=5) == 5


def test_slow_fits_have_fewer_folds(table: Path) -> None:
    schema = msgspec.structs.replace(configured(table)[1], rows=2_000)

    def validation(n_columns: int, **options: Any) -> tuple[int, str]:
        config = RunConfig(data=str(table), **options)
        folds, _, reason = choose_validation(config, schema, Shape(2_000, n_columns, 0, 3), workers=2)
        return folds, reason

    assert validation(10)[0] == validation(10, budget=10)[0] == 8
    assert validation(4_000, budget=28_800)[0] == validation(4_000, trials=20)[0] == 8
    assert validation(4_000, budget=300) == (
        3,
        "3 folds instead of 8, because fits are slow for this budget; --folds changes it",
    )
    assert validation(4_000, budget=300, folds=8) == (8, "as requested")
    assert validation(4_000, budget=300, models=("linear",))[0] == 8


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (12_285.0, 1_490_400.0, "12285 … 1490400"),
        (-124.35, 15.0001, "-124.35 … 15.0001"),
        (1e-7, 2e20, "1e-07 … 2e+20"),
    ],
)
def test_the_range_of_a_column_has_an_exponent_only_where_digits_would_be_many(
    low: float, high: float, shown: str
) -> None:
    column = Column(name="x", kind="numeric", reason="", low=low, high=high)
    schema = Schema(columns=(column,), target="x", target_reason="", task="regression", task_reason="", rows=1)
    assert schema_event(schema).columns[0].summary == shown


def test_a_pretrained_model_without_weights_is_offered_only_if_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAPP_WEIGHTS_DIR", str(tmp_path))
    planned = [
        planned_model("tabicl", "binary", Shape(500, 3, 1, 2), "cpu", 2**33, {}, named=named) for named in (False, True)
    ]
    assert [model.is_offered for model in planned] == [False, True]
    assert all(model.reason is not None for model in planned)
