"""Attention of every model of a run: members first, each once, and a failure costs its own row only."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tabapp.engine.analyses import attention_importances as module
from tabapp.engine.analyses.attention_importances import AttentionOfRun, attentive, event_of, measure_attention
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.errors import UsageError
from tabapp.findings import ColumnAttention, ImportanceRow, ModelAttention
from tabapp.models import registry
from tests.engine.finished import make_finished_run, write_table


def found_of(candidate, shares=(0.6, 0.3, 0.1)):
    names = ("strong", "weak", "noise")
    rows = tuple(
        ColumnAttention(feature=name, share=share, low=share, high=share, raw=share)
        for name, share in zip(names, shares, strict=True)
    )
    return ModelAttention(
        model=candidate.model, trial=candidate.trial, kind="attention", n_rows=10, n_folds=3, rows=rows
    )


def candidate_of(model, trial=0):
    return Candidate(model, trial, {}, 3)


def importances():
    values = {"strong": 0.5, "weak": 0.1, "noise": 0.2}
    return [ImportanceRow(feature=name, attention=None, permutation=x, low=x, high=x) for name, x in values.items()]


def test_members_come_first_then_the_best():
    losses = {"autoint": 0.3, "npt": 0.1, "ft_transformer": 0.2, "linear": 0.0, "amformer": 0.2}
    best = {name: candidate_of(name) for name in losses}
    competition = SimpleNamespace(models=list(losses), best_of=best.get, loss_of=lambda each: losses[each.model])
    members = [(candidate_of("autoint", 4), 0.2), (candidate_of("amformer", 1), 0.1), (candidate_of("autoint", 2), 0.2)]
    assert [each.model for each in attentive(competition, members)] == ["autoint", "amformer", "npt", "ft_transformer"]
    assert all(each.trial == 0 for each in attentive(competition, members)), "the best trial, not the member"


def test_a_failure_is_a_reason_and_each_model_is_computed_once(monkeypatch):
    calls = []

    def compute(models, candidate, most_rows):
        calls.append(candidate.model)
        if candidate.model == "npt":
            raise ValueError("broken")
        return None if candidate.model == "autoint" else found_of(candidate)

    monkeypatch.setattr(module, "attention_of", compute)
    names = ("npt", "autoint", "amformer", "ft_transformer")
    of_run = AttentionOfRun(SimpleNamespace(), [candidate_of(name) for name in names])
    first = of_run.first()
    assert first is not None
    assert first[0].model == "amformer"
    assert first[1]["strong"].share == 0.6
    events = list(of_run.events(importances()))
    assert calls == list(names)
    assert [event.model for event in events] == list(names)
    assert [event.reason for event in events] == ["ValueError: broken", module.NO_ATTENTION, "", ""]
    assert events[2].found.agreement == pytest.approx(0.5)


def test_models_without_time_come_later_or_are_noted(monkeypatch):
    monkeypatch.setattr(module, "attention_of", lambda models, candidate, most_rows: found_of(candidate))
    names = ("amformer", "autoint", "npt")
    of_run = AttentionOfRun(SimpleNamespace(), [candidate_of(name) for name in names])
    of_run.first()
    assert [event.model for event in of_run.events(importances(), lambda: 0.0)] == ["amformer"], "it is computed"
    left = iter((1e9, 0.0))
    assert [event.model for event in of_run.events(importances(), lambda: next(left))] == ["autoint"]
    (noted,) = of_run.without_time()
    assert (noted.model, noted.found, noted.reason) == ("npt", None, module.NO_TIME)
    assert [found.model for found in of_run.found] == ["amformer", "autoint"]
    assert of_run.found[0].agreement == pytest.approx(0.5)


def test_slow_models_compute_the_attention_of_as_many_rows_as_the_time_allows(monkeypatch):
    rows = []
    monkeypatch.setattr(module, "attention_of", lambda models, each, most_rows: rows.append(most_rows))
    slow = candidate_of("npt")
    slow.results = {0: SimpleNamespace(predict_seconds=10.0, n_rows=1_000, score=0.5)}
    list(AttentionOfRun(SimpleNamespace(), [slow]).events((), lambda: 9.0))
    assert rows == [300]
    of_run = AttentionOfRun(SimpleNamespace(), [slow])
    assert not list(of_run.events((), lambda: 1.0)), "less than the least number of rows"
    assert [event.reason for event in of_run.without_time()] == [module.NO_TIME]


def test_agreement_needs_three_columns():
    candidate = candidate_of("npt")
    assert event_of(candidate, found_of(candidate), "", importances()[:2]).found.agreement is None
    assert event_of(candidate, found_of(candidate, (0.5, 0.1, 0.4)), "", importances()).found.agreement == 1


def test_wide_tables_are_computed_on_fewer_rows():
    def rows_of(n_features):
        table = SimpleNamespace(numeric=np.empty((9, n_features)), categorical=np.empty((9, 0)))
        return module.rows_for([SimpleNamespace(table=table)])

    assert rows_of(14) == rows_of(1000) == module.MOST_ROWS
    assert module.LEAST_ROWS < rows_of(3000) < module.MOST_ROWS
    assert rows_of(50_000) == module.LEAST_ROWS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("attention")
    params = {"max_epochs": 20, "n_layers": 2, "d_token": 16, "learning_rate": 5e-3, "attention_dropout": 0.0}
    path = write_table(place / "all.csv", "binary", 420)
    return FinishedRun(make_finished_run(path, place, model="autoint", params=params))


def test_the_attention_of_a_finished_run(run):
    event = measure_attention(run, "autoint")
    found = event.found
    assert found is not None
    assert (found.model, found.kind, found.n_folds, found.n_rows) == ("autoint", "attention", 3, 420)
    shares = {row.feature: row for row in found.rows}
    assert list(shares) == [column.name for column in run.data.schema.inputs]
    assert sum(row.share for row in found.rows) == pytest.approx(1, abs=1e-3)
    assert all(0 <= row.low <= row.share <= row.high for row in found.rows)
    assert max(shares, key=lambda name: shares[name].share) in ("strong", "twin")
    assert any(row.high > row.share for row in found.rows), "three folds give an interval"
    assert measure_attention(run, "autoint") == event


def test_a_model_without_attention_is_refused_by_name(run):
    with pytest.raises(UsageError, match="no score of a model 'npt' with attention; those with attention are autoint"):
        measure_attention(run, "npt")


def test_every_network_with_attention_maps_has_importances():
    names = [*registry.names(), *registry.variants(), *registry.presets()]
    plugins = {name: registry.get_to_load(name) for name in names}
    with_maps = [name for name, plugin in plugins.items() if plugin.has_attention_maps]
    assert all(plugins[name].has_attention for name in with_maps)
    kinds = {name: plugins[name].attention_kind for name in with_maps}
    selecting = {"node", "node:paper", "tabnet", "tabnet:paper", "tabnet_pretrained"}
    assert {name for name, kind in kinds.items() if kind == "selection"} == selecting
    expected = {"ft_transformer", "tab_transformer", "autoint", "npt", "amformer", "npt:small", "ft_transformer:paper"}
    assert expected | {"ft_transformer_pretrained", "tab_transformer_pretrained", "amformer_pretrained"} <= set(kinds)
