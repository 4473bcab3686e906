"""The rows that a model receives, whether it stops early, reuses steps, learns soft targets or is trained in a group."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tabapp.features.arrays import Table
from tabapp.models.contract import FitStopped, Params
from tabapp.models.prepared_fit import PreparedFit, Split, train_group

TARGET = np.array([0, 1, 0, 1, 1, 0])
PLACES = np.array([5, 1, 2, 4])
STOPPING = np.array([False, True, False, False])


def table_of() -> Table:
    numeric = np.arange(6, dtype=np.float32)[:, None]
    return Table(numeric, np.zeros((6, 0), np.int32), TARGET)


class Recorder:
    """Keeps the numbers of the rows that it receives."""

    def __init__(self, *, refits: bool = True, fails: bool = False) -> None:
        self.refits, self.fails = refits, fails
        self.given: list[list[float]] = []
        self.tables: list[Table] = []

    def _take(self, *tables: Table) -> Any:
        if self.fails:
            raise FitStopped
        self.tables += tables
        self.given = [table.numeric[:, 0].tolist() for table in tables]
        return SimpleNamespace()

    def fit(self, train: Table, valid: Table, params: Params, context: Any) -> Any:
        return self._take(train, valid)

    def refit(self, train: Table, params: Params, summaries: Any, context: Any) -> Any:
        return self._take(train) if self.refits else None

    def fit_group(self, fits: Any) -> list[Any]:
        return [None if self.fails else self._take(fit.train, fit.valid) for fit in fits]


def prepared(plugin: Recorder, folder: Path, split: Split, **options: Any) -> PreparedFit:
    folder.mkdir()
    context: Any = SimpleNamespace(folder=folder)
    return PreparedFit(plugin, Params(), split, context, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("places", [PLACES, None])
def test_rows_are_those_that_the_model_receives(tmp_path: Path, places: Any) -> None:
    table = table_of() if places is not None else table_of().take(PLACES)
    for number, (plugin, pilots) in enumerate(
        ((Recorder(), ()), (Recorder(refits=False), ({},)), (Recorder(), ({"trees": 3},)))
    ):
        trained = prepared(plugin, tmp_path / str(number), Split(table, STOPPING, places), pilots=pilots).train()
        received = [row for rows in plugin.given for row in rows]
        assert received == table.numeric[trained.places, 0].tolist()
        assert plugin.given == ([[5, 1, 2, 4]] if number == 2 else [[5, 2, 4], [1]])
        assert not (tmp_path / str(number)).exists()


def test_soft_targets_give_both_parts_weights(tmp_path: Path) -> None:
    plugin = Recorder()
    soft = np.eye(2)[TARGET] * 0.8 + 0.1
    prepared(plugin, tmp_path / "fit", Split(table_of(), STOPPING, PLACES, soft)).train()
    train, valid = plugin.tables
    assert plugin.given[0] == [5, 5, 2, 2, 4, 4]
    assert train.weight == pytest.approx([0.9, 0.1, 0.9, 0.1, 0.1, 0.9])
    assert valid.target.tolist() == [1]
    assert valid.weight.tolist() == [1.0]


def test_a_group_shares_the_tables_of_a_split(tmp_path: Path) -> None:
    plugin = Recorder()
    one, other = Split(table_of(), STOPPING, PLACES), Split(table_of().take(np.arange(4)), STOPPING)
    fits = [prepared(plugin, tmp_path / str(n), split) for n, split in enumerate((one, one, other))]
    trained = train_group(fits)
    assert [each.places.tolist() for each in trained] == [[5, 2, 4, 1], [5, 2, 4, 1], [0, 2, 3, 1]]
    first, _, second, _, third, _ = plugin.tables
    assert first is second is not third


@pytest.mark.parametrize("together", [True, False])
def test_folders_are_removed_when_a_fit_is_stopped(tmp_path: Path, together: bool) -> None:
    fits = [prepared(Recorder(fails=True), tmp_path / str(n), Split(table_of(), STOPPING, PLACES)) for n in range(2)]
    with pytest.raises(FitStopped):
        _ = train_group(fits) if together else [fit.train() for fit in fits]
    assert not (tmp_path / "0").exists()
    assert (tmp_path / "1").exists() == (not together)
