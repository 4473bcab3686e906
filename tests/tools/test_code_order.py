from __future__ import annotations

import numpy as np
import pytest

from benchmarks.code_order import ByFrequency, Recoding
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN, Table

A, B, C = range(FIRST_LEVEL, FIRST_LEVEL + 3)
TRAIN = [C, A, B, C, MISSING, B, C]


def table_of(codes: list[int]) -> Table:
    return Table(numeric=np.zeros((len(codes), 0), np.float32), categorical=np.array(codes, np.int32)[:, None])


def test_codes_follow_the_frequency_of_training_rows() -> None:
    recode = Recoding.of(table_of(TRAIN))

    assert recode(table_of([C, B, A])).categorical[:, 0].tolist() == [A, B, C]


@pytest.mark.parametrize("code", [MISSING, UNSEEN, FIRST_LEVEL + 7])
def test_codes_of_no_training_level_stay(code: int) -> None:
    assert Recoding.of(table_of(TRAIN))(table_of([code])).categorical.item() == code


def test_a_model_learns_and_predicts_with_the_same_codes() -> None:
    class Echo:
        name = "echo"

        def fit(self, train: Table, valid: Table, params: object, context: object) -> Echo:
            self.learned = train.categorical[:, 0].tolist()
            return self

        def predict(self, table: Table) -> np.ndarray:
            return table.categorical[:, 0]

    plugin = ByFrequency(Echo())  # type: ignore[arg-type]

    model = plugin.fit(table_of(TRAIN), table_of([A]), None, None)  # type: ignore[arg-type]

    assert plugin.name == "echo"
    assert model.predict(table_of(TRAIN)).tolist() == model.model.learned == [A, C, B, A, MISSING, B, A]
