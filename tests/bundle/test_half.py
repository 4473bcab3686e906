"""Saved models in half precision."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tabapp.bundle.writing.half_precision import HALF_TOLERANCE, in_half_precision, write_halved
from tabapp.bundle.writing.write import CandidateSource
from tabapp.data.infer import infer_schema
from tabapp.data.typed import typed_frame
from tabapp.features.saved import read_arrays
from tabapp.models import registry
from tests.bundle.making import fit_candidate, text_table


def test_single_precision_arrays_are_halved_and_others_are_not(tmp_path):
    arrays = {
        "weight": np.linspace(0, 1, 9, dtype=np.float32),
        "large": np.array([1e6, 1.0], dtype=np.float32),
        "mean": np.ones(3),
        "codes": np.arange(3, dtype=np.int32),
    }
    (tmp_path / "model").mkdir()
    save_file(arrays, tmp_path / "model" / "a.safetensors", metadata={"note": "kept"})
    assert write_halved(tmp_path / "model", tmp_path / "copy")
    found = load_file(tmp_path / "copy" / "a.safetensors")
    kinds = {name: array.dtype for name, array in found.items()}
    assert kinds == {"weight": np.float16, "large": np.float32, "mean": np.float64, "codes": np.int32}
    expected = {"weight": ("float32", 1), "large": ("float32", 1), "mean": ("float64", 1), "codes": ("int32", 1)}
    read = read_arrays(tmp_path / "copy" / "a.safetensors", expected)
    assert read["weight"].dtype == np.float32
    assert read["weight"] == pytest.approx(arrays["weight"], abs=1e-3)


def test_a_model_without_single_precision_arrays_is_not_copied(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{}")
    assert not write_halved(tmp_path / "model", tmp_path / "copy")


@pytest.mark.parametrize("name", ["mlp", "random_forest"])
def test_only_networks_are_halved(name, tmp_path):
    frame = text_table("binary")
    schema = infer_schema(frame, target="outcome")
    plugin = registry.get(name)
    params = plugin.params_type(**({"max_epochs": 1} if name == "mlp" else {"n_trees": 2}))
    source = fit_candidate(tmp_path / "fits", plugin, params, frame, schema, 1.0, tmp_path / "features")
    assert isinstance(source, CandidateSource)
    typed = typed_frame(frame, schema)
    (tmp_path / "half").mkdir()
    tried: list[str] = []
    (changed,) = in_half_precision([source], schema, typed, tmp_path / "half", tried.append)
    is_halved = [old.model != new.model for old, new in zip(source.folds, changed.folds, strict=True)]
    if name == "random_forest":
        assert is_halved == [False, False]
        assert tried == []
        return
    from tabapp.features.prepare import FeaturePreparer

    assert is_halved == [True, True]
    for old, new in zip(source.folds, changed.folds, strict=True):
        table = FeaturePreparer.load(old.features).transform(typed)
        before, after = (plugin.load(fold.model).predict(table) for fold in (old, new))
        assert 0 < np.abs(before - after).max() <= HALF_TOLERANCE
        sizes = [sum(path.stat().st_size for path in fold.model.iterdir()) for fold in (old, new)]
        assert sizes[1] < 0.7 * sizes[0]
