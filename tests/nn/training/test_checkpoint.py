"""When training loops write checkpoints."""

from __future__ import annotations

import pytest

from tabapp.nn.training import checkpoint
from tabapp.nn.training.checkpoint import CHECKPOINT_SECONDS, SAVING_SHARE, Saving


@pytest.mark.parametrize("took", [0.1, 8.0])
def test_checkpoints_are_rarer_where_writing_one_takes_long(took: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now)
    saving = Saving()
    now += CHECKPOINT_SECONDS
    assert not saving.is_due()
    now += 0.01
    assert saving.is_due()
    with saving.timed():
        now += took
    pause = max(CHECKPOINT_SECONDS, took / SAVING_SHARE)
    now += pause - 0.01
    assert not saving.is_due()
    now += 0.02
    assert saving.is_due()
