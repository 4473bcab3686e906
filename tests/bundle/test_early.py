"""The process of a bundle's models that starts before the bundle is read."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tabapp.bundle.confined.box import load_boxed
from tabapp.bundle.confined.early_start import EarlyProcess
from tabapp.errors import BundleError
from tests.bundle.making import text_table
from tests.bundle.portable import make_bundle


def test_a_bundle_takes_the_process_that_was_started_for_it(tmp_path):
    bundle = make_bundle(tmp_path, "regression", ["linear"])
    rows = text_table("regression", n_rows=20, seed=1).drop("outcome", "joined")
    with EarlyProcess(bundle, "cpu") as early:
        assert early._process is not None
        pid = early._process.pid
        predictor = load_boxed(bundle, early=early).predictor
        other = load_boxed(bundle, early=early).predictor
    assert predictor.pid == pid != other.pid
    # It outlives the block, without the unpacked bundle.
    assert predictor.predict_frame(rows).values.tolist() == other.predict_frame(rows).values.tolist()


def test_a_process_that_no_bundle_takes_ends_with_the_block(tmp_path):
    bundle = tmp_path / "a.tabapp"
    with EarlyProcess(bundle, "cpu") as early, ExitStack() as stack:
        process = early._process
        assert process is not None
        assert process.is_running
        assert early.take(tmp_path / "b.tabapp", "cpu", stack) is None
        assert early.take(bundle, "cuda", stack) is None
    assert not process.is_running
    assert not process.unpacked.exists()


def test_an_invalid_bundle_ends_the_process(tmp_path):
    bundle = tmp_path / "a.tabapp"
    bundle.write_bytes(b"no bundle")
    with EarlyProcess(bundle, "cpu") as early:
        process = early._process
        with pytest.raises(BundleError):
            load_boxed(bundle, early=early)
        assert process is not None
        assert not process.is_running
