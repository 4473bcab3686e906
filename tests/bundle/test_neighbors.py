"""The training rows on which predictions rest, through the bundle and the process that loads it."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.confined.box import load_boxed
from tabapp.bundle.files.records import TRAINING_ROWS, TrainingRows
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.prediction.neighbors import is_valid
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands.explain import explain
from tabapp.data.infer import infer_schema
from tabapp.errors import BundleError
from tabapp.models import registry
from tabapp.models.contract import RowNeighbors
from tests.bundle.making import fit_candidate, make_contents, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip
from tests.cli.test_predicting import call

N_ROWS = 400


@pytest.fixture(scope="module")
def bundle(_whole_package, tmp_path_factory):
    """ModernNCA on two folds beside linear models; a row of the file before the first one has no target."""
    folder = tmp_path_factory.mktemp("neighbors")
    frame = text_table("regression", n_rows=N_ROWS)
    schema = infer_schema(frame, target="outcome")
    plugin = registry.get("modern_nca")
    params = plugin.params_type(max_epochs=1)
    candidate = fit_candidate(folder / "nca", plugin, params, frame, schema, 1.0, folder / "features")
    rows = np.arange(N_ROWS)
    folds = []
    for fold in candidate.folds:
        training = rows % 2 != fold.fold
        order = np.concatenate([rows[training & (rows % 5 != 0)], rows[training & (rows % 5 == 0)]])
        folds.append(replace(fold, rows=(order + 1).tolist()))
    contents = make_contents(folder, "regression")
    contents = replace(
        contents,
        schema=schema,
        candidates=[replace(candidate, folds=folds)],
        sample=frame.head(7).drop("outcome"),
        targets={int(row) + 1: float(value) for row, value in zip(rows, frame["outcome"], strict=True)},
    )
    write_bundle(folder / "model.tabapp", contents)
    return folder / "model.tabapp", frame


@pytest.mark.slow
def test_neighbors_name_rows_of_the_file_with_their_targets(bundle):
    path, frame = bundle
    loaded = load_boxed(path)
    typed = loaded.predictor.typed_rows(frame.head(6))[0]
    found = loaded.neighbors(typed)
    assert [len(each) for each in found] == [5] * 6
    for row, neighbors in enumerate(found):
        weights = [each.weight for each in neighbors]
        assert weights == sorted(weights, reverse=True)
        assert 0 < sum(weights) <= 1 + 1e-6
        assert all(each.target == float(frame["outcome"][each.row - 1]) for each in neighbors)
        assert neighbors[0].row == row + 1, "the row itself is a training row of one fold, and nearest to itself"
    local = load_bundle(path).neighbors(typed)
    assert [[each.row for each in row] for row in local] == [[each.row for each in row] for row in found]


@pytest.mark.slow
def test_explain_shows_the_values_of_training_rows(bundle, tmp_path):
    path, frame = bundle
    training, other, data = (tmp_path / f"{name}.csv" for name in ("training", "other", "data"))
    pl.concat([frame.head(1).with_columns(outcome=pl.lit(None, pl.String)), frame]).write_csv(training)
    frame.with_columns(outcome=pl.lit("0.0")).write_csv(other)
    frame.head(2).drop("outcome").write_csv(data)
    words = [path, data, "--row", "1", "--training"]
    (row,) = json.loads(call(explain, *words, training, "--json").stdout)["rows"]
    found = row["neighbours"]
    for each in found:
        cells = frame.row(each["row"] - 1, named=True)
        assert each["values"] == {name: cells[name] for name in row["contributions"]}
    assert f"training row {found[0]['row']}" in call(explain, *words, training).stdout
    assert "other targets" in call(explain, *words, other).stderr


@pytest.mark.slow
def test_training_rows_that_contradict_the_bundle_are_refused(bundle, tmp_path):
    path, _ = bundle
    for change in (
        lambda rows: msgspec.structs.replace(rows, numbers={"models/other/0": (1,)}),
        lambda rows: msgspec.structs.replace(rows, targets={}),
        lambda rows: msgspec.structs.replace(rows, targets={**rows.targets, -1: 0.0}),
    ):
        members = members_of(path)
        rows = msgspec.json.encode(change(msgspec.json.decode(members[TRAINING_ROWS], type=TrainingRows)))
        changed = with_manifest(members, lambda manifest, members, rows=rows: members.update({TRAINING_ROWS: rows}))
        with pytest.raises(BundleError, match="training row"):
            load_bundle(write_zip(tmp_path / "changed.tabapp", changed.items()))


@pytest.mark.parametrize(
    ("index", "weight"),
    [
        ([[0, 5]], [[0.5, 0.2]]),
        ([[0, -1]], [[0.5, 0.2]]),
        ([[0, 1]], [[0.5, np.nan]]),
        ([[0, 1]], [[1.5, 0.0]]),
        ([[0, 1]], [[0.5]]),
        ([[0, 1], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]),
    ],
)
def test_neighbors_that_cannot_be_are_refused(index, weight):
    found = RowNeighbors(np.array(index), np.array(weight))
    assert not is_valid(found, n_rows=1, n_stored=5)
