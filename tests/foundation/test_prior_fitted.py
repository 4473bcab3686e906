"""The prior-fitted network, whose weights come with tabapp."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tabapp_plugins.foundation import networks

from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.commands.weights import weights as weights_command
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.errors import UsageError
from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.contract import FittedModel, Shape
from tabapp.weights import store
from tabapp.weights.adding import add
from tests.engine.finished_runs import make_run
from tests.foundation.conftest import SPEC, context_of, some_rows, write_table

SHA256 = "f7128c6b19c7bac7d31bfaeb2e124461d88f484fd070b567c47912a41aee0a9d"
NAME = "prior-fitted"


def fitted(n_classes: int, folder: Path) -> tuple[FittedModel, Table]:
    train, valid, new = (some_rows(n, n_classes, seed) for n, seed in ((90, 0), (30, 1), (70, 2)))
    task = "binary" if n_classes == 2 else "multiclass"
    plugin = registry.get("prior_fitted")
    params = plugin.defaults(task, Shape(len(train), 3, 2, n_classes), "cpu")
    return plugin.fit(train, valid, params, context_of(task, n_classes, folder)), new


def test_the_weights_are_those_of_the_model_card() -> None:
    record = store.find(NAME)
    assert record is not None
    assert record.sha256 == SHA256 == hashlib.sha256(record.path.read_bytes()).hexdigest()
    assert record.n_bytes == record.path.stat().st_size <= 10_000_000
    assert store.with_hash(SHA256) == record
    assert store.installed()[NAME] == record
    assert SHA256 in (Path(__file__).parents[2] / "docs" / "background" / "prior.md").read_text()


def test_the_weights_cannot_be_replaced_or_removed(weights_folder: Path, tmp_path: Path) -> None:
    plugin = registry.get("prior_fitted")
    other = tmp_path / "prior-fitted.safetensors"
    other.write_bytes(b"other")
    with pytest.raises(UsageError, match="come with tabapp"):
        add("prior_fitted", plugin.weights[0], other)
    for arguments in (["remove", NAME], ["fetch", NAME, "--accept"], ["add", str(other)]):
        result = CliRunner().invoke(weights_command, arguments)
        assert isinstance(result.exception, UsageError)
        assert "come with tabapp" in str(result.exception)
    # A file in the user's folder is not taken for them.
    weights_folder.mkdir(exist_ok=True)
    (weights_folder / f"{NAME}.json").write_text((store.SHIPPED / f"{NAME}.json").read_text().replace(SHA256, "0" * 64))
    (weights_folder / f"{NAME}.safetensors").write_bytes(b"other")
    record = store.find(NAME)
    assert record is not None
    assert record.sha256 == SHA256
    assert [each.sha256 for each in store.installed().values()].count("0" * 64) == 0


@pytest.mark.parametrize("n_classes", [2, 7])
def test_a_row_gets_the_same_answer_alone_in_a_batch_and_after_loading(n_classes: int, tmp_path: Path) -> None:
    model, new = fitted(n_classes, tmp_path / "fit")
    together = model.predict(new)
    assert together.shape == (70, n_classes)
    alone = np.concatenate([model.predict(new.take(slice(row, row + 1))) for row in range(3)])
    assert np.array_equal(together[:3], alone)
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    loaded = registry.get("prior_fitted").load(tmp_path / "saved")
    loaded.check(SPEC, "binary" if n_classes == 2 else "multiclass", n_classes)
    assert np.array_equal(loaded.predict(new), together)


def test_it_learns_from_its_context(tmp_path: Path) -> None:
    """Two rings, which no linear model separates."""
    random = np.random.default_rng(0)

    def rows(n: int) -> Table:
        numbers = random.normal(size=(n, 3)).astype(np.float32)
        label = (np.hypot(numbers[:, 0], numbers[:, 1]) > 1.2).astype(np.int64)
        return Table(numbers, np.full((n, 2), 2, dtype=np.int32), label)

    train, valid, new = rows(300), rows(60), rows(400)
    plugin = registry.get("prior_fitted")
    params = plugin.defaults("binary", Shape(300, 3, 2, 2), "cpu")
    model = plugin.fit(train, valid, params, context_of("binary", 2, tmp_path))
    assert (model.predict(new).argmax(1) == new.target).mean() > 0.9
    for layer in model.row_weights(new.take(slice(0, 5))):
        assert layer.heads.shape[1:] == (5, 360)
        np.testing.assert_allclose(layer.heads.sum(2), 1, atol=1e-3)
    # Rows attend to rows that are like them more than to others.
    nearest = model.row_neighbors(new.take(slice(0, 100)), 5).index
    labels = np.concatenate([np.asarray(train.target), np.asarray(valid.target)])
    assert (labels[nearest].mean(1).round() == new.target[:100]).mean() > 0.65


def test_it_competes_on_small_tables_with_classes() -> None:
    plugin = registry.get("prior_fitted")
    assert plugin.skipped_by_default("binary", Shape(2_000, 3, 2, 2)) is None
    assert "2,000 rows" in (plugin.skipped_by_default("binary", Shape(2_001, 3, 2, 2)) or "")
    assert "10 classes" in (plugin.supports("multiclass", Shape(500, 3, 2, 11)) or "")
    assert "60 features" in (plugin.supports("binary", Shape(500, 61, 0, 2)) or "")
    assert "regression" not in plugin.tasks


def test_a_bundle_has_the_weights_of_the_version_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FinishedRun(make_run(tmp_path / "runs", write_table(tmp_path), "t", ("prior_fitted",), 3))
    bundle = load_bundle(run.folder.bundle)
    expected = bundle.predictor.predict_frame(bundle.sample)
    networks.forget()
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "none")
    found = load_bundle(run.folder.bundle)
    assert np.array_equal(found.predictor.predict_frame(found.sample).values, expected.values)


def test_a_model_with_the_weights_of_another_version_says_so(tmp_path: Path) -> None:
    model, _ = fitted(2, tmp_path / "fit")
    model.save(tmp_path)
    saved = tmp_path / "model.json"
    saved.write_text(saved.read_text().replace(SHA256, "0" * 64))
    with pytest.raises(UsageError, match="Use the version that made it, or a bundle"):
        registry.get("prior_fitted").load(tmp_path)
