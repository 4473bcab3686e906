"""The device of each model of a plan: a GPU trains networks, and boosters use it where no network does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tabapp.engine.plan import make_plan as plan_module
from tabapp.engine.plan.choices import model_choices
from tabapp.engine.plan.make_plan import Plan, PlannedModel, fit_device, planned_models, with_pending_models
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.nn.plugin import DeepPlugin
from tabapp.run.options.config import RunConfig
from tests.tables import write_wine

GPU, LARGE = "cuda:0", Shape(500_000, 44, 10, 7)
GB = 2**30
NAMES = ("linear", "lightgbm", "xgboost", "catboost", "mlp")


def planned(
    *names: str, device: str = GPU, staged: bool = False, exclude: tuple[str, ...] = (), memory: int = 200 * GB
) -> dict[str, PlannedModel]:
    config = RunConfig(data="", models=names, exclude=exclude)
    models = planned_models(config, "multiclass", LARGE, device, memory, {}, staged=staged)
    return {model.name: model for model in models}


def devices(models: dict[str, PlannedModel]) -> dict[str, str | None]:
    return {name: model.device for name, model in models.items() if model.reason is None}


@pytest.mark.parametrize("staged", [True, False])
def test_boosters_use_the_cores_if_a_network_competes(staged: bool) -> None:
    found = devices(planned(*NAMES, staged=staged))
    network = None if staged else "cuda"
    assert found == dict.fromkeys(("linear", "lightgbm", "xgboost", "catboost"), "cpu") | {"mlp": network}


@pytest.mark.parametrize("staged", [True, False])
def test_boosters_use_the_gpu_if_no_network_competes(staged: bool) -> None:
    alone = {"lightgbm": "cpu", "xgboost": "cuda", "catboost": "cuda"}
    assert devices(planned(*alone, staged=staged)) == alone
    assert devices(planned(*alone, "mlp", exclude=("mlp",), staged=staged)) == alone
    assert devices(planned(*alone, device="cpu", staged=staged)) == dict.fromkeys(alone, "cpu")


def test_boosters_use_the_gpu_if_all_networks_stay_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeepPlugin, "device_for", lambda *_: "cpu")
    assert devices(planned("xgboost", "mlp")) == {"xgboost": "cuda", "mlp": "cpu"}


def test_a_booster_on_the_cores_needs_their_memory() -> None:
    assert devices(planned("lightgbm", "xgboost", memory=GB // 64)) == {"xgboost": "cuda"}
    found = planned("lightgbm", "xgboost", "mlp", memory=GB // 64)
    assert "GiB of memory" in str(found["xgboost"].reason)
    assert found["xgboost"].device is None


def a_plan(*models: PlannedModel, device: str = GPU) -> Plan:
    return Plan(
        target="y", task="multiclass", n_classes=7, metric="log_loss", validation="cv", validation_reason="", folds=5,
        budget=None, trials=None, quality="balanced", device=device, workers=4, n_threads=2, memory_limit=200 * GB,
        seed=0, models=models,
    )  # fmt: skip


def test_fits_run_where_the_plan_says() -> None:
    plugin = registry.get("xgboost")
    plan = a_plan(*planned("xgboost", "mlp").values())
    assert fit_device(plugin, plan, LARGE) == "cpu"
    assert fit_device(registry.get("mlp"), plan, LARGE) == GPU
    # A plan of an earlier session stays as it is, on a machine with a GPU or without one.
    models = [msgspec.structs.replace(model, device="cuda") for model in plan.models]
    assert fit_device(plugin, a_plan(*models), LARGE) == GPU
    assert fit_device(plugin, a_plan(*models, device="cpu"), LARGE) == "cpu"


def test_networks_that_are_planned_later_change_no_device_of_a_booster(monkeypatch: pytest.MonkeyPatch) -> None:
    staged = a_plan(*planned(*NAMES, staged=True).values())
    assert with_pending_models(staged, LARGE).models == tuple(planned(*NAMES).values())
    # The boosters have begun on the cores before it is known that no network uses the GPU.
    monkeypatch.setattr(DeepPlugin, "supports", lambda *_: "too large")
    found = with_pending_models(staged, LARGE)
    assert {model.name for model in found.competing} == set(NAMES) - {"mlp"}
    assert {fit_device(registry.get(model.name), found, LARGE) for model in found.competing} == {"cpu"}


def test_models_outside_of_the_plan_follow_its_rule() -> None:
    plugin = registry.get("catboost")
    assert fit_device(plugin, a_plan(*planned("lightgbm", "mlp").values()), LARGE) == "cpu"
    assert fit_device(plugin, a_plan(*planned("lightgbm").values()), LARGE) == GPU
    assert fit_device(registry.get("resnet"), a_plan(*planned("lightgbm", "mlp").values()), LARGE) == GPU


def test_the_plan_says_why_boosters_do_not_use_the_gpu() -> None:
    reason = "only networks train on the GPU, since a long fit of another model would keep them from it"
    for staged in (True, False):
        assert a_plan(*planned(*NAMES, staged=staged).values()).device_reason == reason
    assert not a_plan(*planned("xgboost", "lightgbm").values()).device_reason
    assert not a_plan(*planned("mlp").values()).device_reason
    assert not a_plan(*planned(*NAMES, device="cpu").values(), device="cpu").device_reason


def test_choices_show_the_seconds_on_the_device_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write_wine(tmp_path / "wine.csv"))
    schema = infer(read_data(RunConfig(data=data)), RunConfig(data=data))
    monkeypatch.setattr(type(registry.get("xgboost")), "gpu_cells", 1)
    monkeypatch.setattr(DeepPlugin, "device_for", lambda *_: GPU)
    monkeypatch.setattr(plan_module, "device_of", lambda *_: GPU)
    for names, expected in ((("xgboost", "mlp"), "cpu"), (("xgboost",), "cuda")):
        config = RunConfig(data=data, models=names)
        plan = plan_module.make_plan(config, schema)
        choice = next(choice for choice in model_choices(plan, schema) if choice.name == "xgboost")
        assert choice.device == expected
