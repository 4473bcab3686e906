from __future__ import annotations

import pytest

from tabapp.tui.viewmodels.texts import brief, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, " 0.0000"),
        (-0.01234, "-0.0123"),
        (9.99996, "     10"),
        (12.345, "  12.35"),
        (-999.94, " -999.9"),
        (7664.2, "  7,664"),
        (-99_999.4, "-99,999"),
        (99_999.6, "   100k"),
        (838_700.0, "   839k"),
        (-1_234_567.0, " -1.23M"),
        (1e30, "  1e+30"),
    ],
)
def test_an_importance_takes_seven_cells(value: float, text: str) -> None:
    assert signed(value) == text
    assert len(text) == 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0001234, "0.000123"),
        (8.04e-06, "8.04e-06"),
        (12.345, "12.3"),
        (263_451.2, "263,451"),
        (999_999.9, "1.00M"),
        (-2.5e9, "-2.50G"),
        (float("nan"), "nan"),
        (20, "20"),
        ("relu", "relu"),
        (True, "True"),
    ],
)
def test_a_value_takes_few_characters(value: object, text: str) -> None:
    assert brief(value) == text
