"""On which rows predictions rest: a table whose targets are those of other rows, and one whose targets are not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tabapp_plugins.modern_nca import ModernNCA

from tabapp.cli.commands.diagnose import diagnose
from tabapp.engine.analyses.between_rows import measure_rows
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.errors import UsageError
from tabapp.processes.analyst import result_of
from tabapp.report.html import to_html
from tabapp.report.make import make_report
from tabapp.run.analyses.between_rows import BetweenRowsReady, verdict
from tabapp.run.protocol import analyses as running
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.texts.diagnoses import tables_of
from tests.cli.test_predicting import call
from tests.engine.finished import make_finished_run, write_table

NCA = {"width": 16, "n_frequencies": 8, "d_embedding": 4, "max_epochs": 25, "dropout": 0.0}
NPT = {"n_evaluations": 4, "d_embedding": 8, "n_layers": 2, "n_heads": 2, "learning_rate": 0.01}


def write_lookups(path: Path, *, each: int = 4, n_groups: int = 60, classes: bool = False) -> Path:
    """Rows in groups of nearly equal features; their target is noise that only the other rows of a group show."""
    generator = np.random.default_rng(0)
    place = generator.uniform(size=(n_groups, 2)).repeat(each, axis=0)
    place += generator.normal(scale=1e-3, size=place.shape)
    target = generator.normal(size=n_groups).repeat(each)
    shown = ["yes" if x > 0.2 else "no" for x in target] if classes else [f"{x:.4f}" for x in target]
    lines = [f"{a:.5f},{b:.5f},{y}" for (a, b), y in zip(place, shown, strict=True)]
    path.write_text("\n".join(["a,b,outcome", *(lines[i] for i in generator.permutation(len(lines)))]) + "\n")
    return path


@pytest.fixture(scope="module")
def lookups(tmp_path_factory):
    place = tmp_path_factory.mktemp("lookups")
    return make_finished_run(write_lookups(place / "all.csv"), place, model="modern_nca", params=NCA, folds=2)


@pytest.fixture(scope="module")
def found(lookups) -> BetweenRowsReady:
    return measure_rows(FinishedRun(lookups))


def test_a_model_that_looks_targets_up_needs_the_other_rows(lookups, found: BetweenRowsReady) -> None:
    assert found.model == "modern_nca"
    assert found.n_rows == found.n_corrupted == 240
    assert found.n_stored == 120
    assert found.corrupted > found.score
    assert found.gain.high < 0
    assert found.change[0] > 0.5
    near = next(each for each in found.near if each.chance >= 0.05)
    assert near.low > 4 * near.chance
    assert found.common > 5 * found.common_chance
    assert np.mean(np.diag(np.array(found.maps[0].cells))) > 1.5, "1 by chance"
    by_share = {each.share: each for each in found.few}
    assert by_share[0.2].by_weight < by_share[0.2].at_random / 3
    assert by_share[0.2].p < 0.01
    assert found.deletion is not None
    assert found.deletion.left < found.deletion.random
    assert not found.heads, "it has one layer"
    for row in found.rows:
        assert row.nearest[0].target == row.target, "the nearest row is of the same group"
    (first, *_) = tables_of(found, lookups.state())
    assert "predicts from other rows" in first.sentences[0]
    assert "times chance" in first.sentences[1]


def test_results_are_the_same_again(lookups, found: BetweenRowsReady) -> None:
    assert measure_rows(FinishedRun(lookups), "modern_nca", 600.0) == found
    assert decode(encode(found)) == found


def test_no_time_leaves_out_deletions(lookups) -> None:
    found = measure_rows(FinishedRun(lookups), None, 0.0)
    assert found.n_corrupted == 10
    assert (found.few, found.deletion, found.seconds) == ((), None, 0.0)
    (table, *_) = tables_of(found, lookups.state())
    assert "Partial result" in table.sentences[-1]


def test_the_command_keeps_the_result_and_the_report_has_a_map(lookups, monkeypatch) -> None:
    def analyze(kind, request, *folders):
        return running.read_result(kind, msgspec.json.encode(result_of(request, *folders)), b"", 0)

    monkeypatch.setattr("tabapp.cli.commands.diagnose.analyze", analyze)
    line = json.loads(call(diagnose, lookups.path, "--rows", "--model", "modern_nca", "--json").stdout)
    assert line["ev"] == "between_rows.ready"
    assert len(line["maps"][0]["cells"]) == 20
    text = call(diagnose, lookups.path).stdout
    assert "Nearest and attended rows" in text
    page = to_html(make_report(lookups.state()))
    assert page.count('class="heat"') >= 400
    with pytest.raises(running.AnalysisError, match="no score of a model 'linear' that predicts from rows"):
        call(diagnose, lookups.path, "--rows", "--model", "linear")


def test_a_run_without_such_a_model_names_those_to_train(tmp_path: Path) -> None:
    run = make_finished_run(write_table(tmp_path / "all.csv", "binary", 120), tmp_path)
    with pytest.raises(UsageError, match=r"Start a run with --models .*modern_nca.*npt.*tabr"):
        measure_rows(FinishedRun(run))


@pytest.mark.slow
def test_an_npt_that_predicts_from_the_row_itself_is_named(tmp_path: Path) -> None:
    data = write_table(tmp_path / "all.csv", "regression", 240)
    run = make_finished_run(data, tmp_path, model="npt", params=NPT | {"n_steps": 200}, folds=2)
    found = measure_rows(FinishedRun(run))
    assert found.is_independent
    assert "predicts from the row itself" in verdict(found, "NPT")
    assert len(found.heads[0].heads) == 2
    assert not found.maps[1:], "one layer between rows"
    alone = {**NPT, "n_steps": 12, "attention": "attributes"}
    (tmp_path / "alone").mkdir()
    run = make_finished_run(data, tmp_path / "alone", model="npt", params=alone, folds=2)
    with pytest.raises(UsageError, match="uses other rows"):
        measure_rows(FinishedRun(run))


@pytest.mark.parametrize("classes", [False, True])
def test_few_rows_of_two_classes(tmp_path: Path, classes: bool, monkeypatch) -> None:
    """Twenty rows: a fold may hold out one class only, and each model stores a handful of rows."""
    monkeypatch.setattr(ModernNCA, "min_rows", 5)
    data = write_lookups(tmp_path / "all.csv", n_groups=10, each=2, classes=classes)
    params = NCA | {"max_epochs": 1, "n_frequencies": 0}
    run = make_finished_run(data, tmp_path, model="modern_nca", params=params, folds=2)
    found = measure_rows(FinishedRun(run))
    assert found.n_rows == 20
    assert tables_of(found, run.state())
    assert decode(encode(found)) is not None


def test_verdicts_follow_the_score(found: BetweenRowsReady) -> None:
    from tabapp.run.analyses.parts import Gain

    def said(change: float, low: float, high: float) -> str:
        gain = Gain(value=(low + high) / 2, low=low, high=high)
        return verdict(msgspec.structs.replace(found, change=(change, change, change), gain=gain), "NPT")

    assert "hardly change" in said(0.02, -0.5, 0.5)
    assert "not clearly worse" in said(0.3, -0.1, 0.1)
    assert "mislead this NPT" in said(0.3, 0.1, 0.2)
    assert "NPT predicts from other rows" in said(0.3, -0.2, -0.1)
