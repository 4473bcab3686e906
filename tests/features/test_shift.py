"""Numbers that single precision would round are shifted and scaled before; others stay bit for bit."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.typed import typed_frame
from tabapp.errors import BundleError
from tabapp.features.arrays import FeatureRecipe
from tabapp.features.prepare import FeaturePreparer
from tabapp.features.shift import Shift, fit_shifts, shifted
from tabapp.features.state import STATE_FILE

GENERATOR = np.random.default_rng(0)
N = 700


def minutes_of_a_year(n: int) -> np.ndarray:
    """Moments written as numbers: yyyymmddhhmm."""
    month, day, hour, minute = (GENERATOR.integers(low, high, n) for low, high in ((1, 13), (1, 29), (0, 24), (0, 60)))
    return 202400000000.0 + month * 10**6 + day * 10**4 + hour * 100 + minute


COARSE = {
    "ticks": 1e10 + GENERATOR.integers(0, 4000, N) / 2,
    "unix seconds of a week": 1.7e9 + GENERATOR.integers(0, 604_800, N),
    "unix milliseconds of a day": 1.7e12 + GENERATOR.integers(0, 86_400_000, N),
    "1e9 ± 600": 1e9 + GENERATOR.normal(0, 200, N),
    "identifiers above 2 ** 24": 2.0**24 + GENERATOR.integers(0, 2000, N),
    "yyyymmddhhmm": minutes_of_a_year(N),
    "zeros and unix seconds": np.where(GENERATOR.random(N) < 0.3, 0.0, 1.7e9 + GENERATOR.integers(0, 1000, N)),
    "negative": -3e9 + GENERATOR.normal(0, 50, N),
    "tiny": 1e-30 * GENERATOR.normal(size=N),
    "tiny and constant in most rows": np.where(GENERATOR.random(N) < 0.9, 0.0, 1e-12 * GENERATOR.normal(size=N)),
}
FINE = {
    "normal": GENERATOR.normal(size=N),
    "prices": GENERATOR.lognormal(12, 1, N),
    "years": GENERATOR.integers(1950, 2024, N).astype(float),
    "parts of years": 2012 + GENERATOR.integers(0, 24, N) / 12,
    "degrees": 52.3 + 0.1 * GENERATOR.normal(size=N),
    "kelvin": 290 + 10 * GENERATOR.normal(size=N),
    "large": 1e30 * GENERATOR.random(N),
    "flags": GENERATOR.integers(0, 2, N).astype(float),
    "counts": GENERATOR.integers(0, 10**6, N).astype(float),
    "constant": np.full(N, 1.7e9 + 0.3),
    "missing": np.full(N, np.nan),
}


@pytest.mark.parametrize("name", COARSE)
def test_coarse_numbers_keep_their_differences(name):
    values = COARSE[name]
    (shift,) = fit_shifts(values[:, None])
    found = shift.apply(values).astype(np.float32).astype(np.float64) / shift.factor + shift.center
    spread = np.quantile(values, 0.75) - np.quantile(values, 0.25) or np.ptp(values)
    np.testing.assert_allclose(found[values != 0], values[values != 0], rtol=1e-15, atol=1e-5 * spread)
    assert np.ptp(shift.apply(values)) > 1e-3


@pytest.mark.parametrize("name", FINE)
def test_other_numbers_are_left_alone(name):
    numbers = np.column_stack([FINE[name]])
    assert fit_shifts(numbers) == ()
    assert shifted(numbers, ()) is numbers


def test_the_result_does_not_depend_on_missing_cells_or_the_order_of_rows():
    values = COARSE["ticks"].copy()
    values[::7] = np.nan
    assert fit_shifts(values[:, None]) == fit_shifts(values[::-1, None])


def test_a_large_table_is_judged_by_some_of_its_rows():
    values = 1e10 + GENERATOR.integers(0, 4000, 100_000) / 2
    assert len(fit_shifts(values[:, None])) == 1


def test_numbers_far_from_the_others_stay_finite():
    shift = Shift(0, 0.0, 2.0**100)
    assert np.isfinite(shift.apply(np.array([1e30, -1e300])).astype(np.float32)).all()


def frame_with(**columns: np.ndarray) -> pl.DataFrame:
    texts = {name: [repr(float(value)) for value in values] for name, values in columns.items()}
    return pl.DataFrame(texts)


def prepared(frame: pl.DataFrame, recipe: FeatureRecipe, target: np.ndarray | None = None):
    schema = infer_schema(frame, target="y")
    typed = typed_frame(frame, schema)
    if target is None:
        return FeaturePreparer.fit(typed, schema, recipe, 0), typed
    return FeaturePreparer.fit_transform(typed, schema, recipe, 0, target)[0], typed


@pytest.mark.parametrize("numeric", ["raw", "quantile", "standard", "robust"])
@pytest.mark.parametrize("name", ["ticks", "1e9 ± 600", "tiny"])
def test_features_follow_the_numbers_in_every_recipe(name, numeric, tmp_path):
    preparer, typed = prepared(
        frame_with(x=COARSE[name], z=FINE["normal"], y=FINE["normal"]), FeatureRecipe(numeric=numeric)
    )
    found = preparer.transform(typed).numeric[:, list(preparer.spec.numeric).index("x")]
    assert len(np.unique(found)) > 0.9 * len(np.unique(COARSE[name]))
    order = np.argsort(COARSE[name], kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    preparer.save(tmp_path)
    loaded = FeaturePreparer.load(tmp_path)
    assert loaded.state == preparer.state
    np.testing.assert_array_equal(loaded.transform(typed).numeric, preparer.transform(typed).numeric)


def test_derived_features_are_computed_before_the_shift():
    start = 1.7e9 + GENERATOR.integers(0, 10**6, N)
    end = start + GENERATOR.integers(1, 100, N)
    target = end - start
    preparer, typed = prepared(
        frame_with(start=start, end=end, y=target), FeatureRecipe(derived=True), target.astype(float)
    )
    names = list(preparer.spec.numeric)
    found = preparer.transform(typed).numeric[:, names.index("start - end")]
    np.testing.assert_array_equal(found, -target)
    assert {preparer.spec.numeric[shift.index] for shift in preparer.state.shifts} >= {"start", "end"}


def test_a_target_encoding_of_a_target_with_a_large_offset_keeps_its_differences():
    level = GENERATOR.integers(0, 70, N)
    target = 1.7e9 + level
    frame = frame_with(x=FINE["normal"], y=target).with_columns(shop=pl.Series([f"s{code}" for code in level]))
    preparer, typed = prepared(frame.select("x", "shop", "y"), FeatureRecipe(target_encoding=True), target)
    (name,) = (name for name in preparer.spec.numeric if name == "shop target mean")
    found = preparer.transform(typed).numeric[:, list(preparer.spec.numeric).index(name)]
    assert np.corrcoef(found, level)[0, 1] > 0.99


def test_states_without_shifts_have_the_fields_of_earlier_versions(tmp_path):
    preparer, _ = prepared(frame_with(x=FINE["prices"], y=FINE["normal"]), FeatureRecipe())
    preparer.save(tmp_path)
    assert "shifts" not in json.loads((tmp_path / STATE_FILE).read_bytes())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([{"index": 5, "center": 0.0, "factor": 1.0}], "out of range"),
        ([{"index": 0, "center": 0.0, "factor": 1.0}] * 2, "twice"),
        ([{"index": 0, "center": 0.0, "factor": 0.0}], "not usable"),
        ([{"index": 0, "center": 0.0, "factor": -1.0}], "not usable"),
        ([{"index": 0, "center": 1e999, "factor": 1.0}], "cannot be read"),
    ],
)
def test_damaged_shifts_are_rejected(changes, problem, tmp_path):
    preparer, _ = prepared(frame_with(x=COARSE["ticks"], y=FINE["normal"]), FeatureRecipe())
    preparer.save(tmp_path)
    state = json.loads((tmp_path / STATE_FILE).read_bytes())
    (tmp_path / STATE_FILE).write_text(json.dumps(state | {"shifts": changes}))
    with pytest.raises(BundleError, match=problem):
        FeaturePreparer.load(tmp_path)
