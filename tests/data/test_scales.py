"""Ordered categories and the rank feature that is computed from them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.kinds.scales import order_of
from tabapp.data.typed import typed_frame
from tabapp.features.arrays import FeatureRecipe
from tabapp.features.prepare import FeaturePreparer


@pytest.mark.parametrize(
    ("levels", "order"),
    [
        (["high", "low", "medium"], ["low", "medium", "high"]),
        (["Ideal", "Fair", "Very Good", "Good", "Premium"], ["Fair", "Good", "Very Good", "Premium", "Ideal"]),
        (["TA", "Ex", "Gd", "Fa"], ["Fa", "TA", "Gd", "Ex"]),
        (["L", "S", "XL", "M"], ["S", "M", "L", "XL"]),
        (["Mar", "Jan", "Dec"], ["Jan", "Mar", "Dec"]),
        (["tertiary", "unknown", "primary", "secondary"], ["primary", "secondary", "tertiary"]),
        (["30-39", "18-29", "40+", "<18"], ["<18", "18-29", "30-39", "40+"]),
        (["1 to 5", "over 10", "6 to 10"], ["1 to 5", "6 to 10", "over 10"]),
        (["10,000+", "500+", "0", "1,000,000+"], ["0", "500+", "10,000+", "1,000,000+"]),
        (["<10k", ">20k", "10k-20k", "Unknown"], ["<10k", "10k-20k", ">20k"]),
        (["65 years or older", "18-24 years old", "Under 18"], ["Under 18", "18-24 years old", "65 years or older"]),
        (
            ["$100,000 or more", "Less than $25,000", "$25,000 to $49,999"],
            ["Less than $25,000", "$25,000 to $49,999", "$100,000 or more"],
        ),
        (["5 or fewer", "11 or more", "6 to 10"], ["5 or fewer", "6 to 10", "11 or more"]),
        (["2 stars", "1 star", "10 stars"], ["1 star", "2 stars", "10 stars"]),
        (["2.5 baths", "3-bath", "1 bath"], ["1 bath", "2.5 baths", "3-bath"]),
        (
            ["4 out of 5 stars", "2 out of 5 stars", "1 out of 5 stars"],
            ["1 out of 5 stars", "2 out of 5 stars", "4 out of 5 stars"],
        ),
        (["1 stop", "non-stop", "2 stops"], ["non-stop", "1 stop", "2 stops"]),
        (["None", "2 times", "1 time"], ["None", "1 time", "2 times"]),
        (["no", "maybe", "yes"], []),
        (["no fence", "1 stop", "2 stops"], []),
        (["3rd", "1st", "2nd"], ["1st", "2nd", "3rd"]),
        (["3+", "0", "2", "1"], ["0", "1", "2", "3+"]),
        (["12a", "13b", "14a"], []),
        (["1 kg", "2 m", "3 kg"], []),
        (["2 stars", "2 star", "1 star"], []),
        (["1,00", "2,00", "3,00"], []),
        (["red", "green", "blue"], []),
        (["low", "high"], []),
        (["low", "medium", "purple"], []),
        (["Low", "low", "high"], []),
        (["A-1", "B-2", "C-3"], []),
        (["10-19", "ten", "20-29"], []),
        (["12", "13", "20"], []),
        (["1.2.3-4", "5-6", "7-8"], []),
    ],
)
def test_order_of_levels(levels: list[str], order: list[str]) -> None:
    assert order_of(levels) == tuple(order)


def table() -> pl.DataFrame:
    sizes = [["small", "large", "medium", "unknown", ""][i % 5] for i in range(100)]
    return pl.DataFrame(
        {"size": sizes, "x": [str(i % 13) for i in range(100)], "y": [["a", "b", "b"][i % 3] for i in range(100)]}
    )


@pytest.mark.parametrize("numeric", ["raw", "quantile"])
def test_ordered_category_has_a_code_and_a_rank(numeric: str) -> None:
    schema = infer_schema(table(), target="y")
    column = schema.column("size")
    assert (column.kind, column.order) == ("categorical", ("small", "medium", "large"))
    assert "small < medium < large" in column.reason
    typed = typed_frame(table(), schema)
    preparer = FeaturePreparer.fit(typed, schema, FeatureRecipe(numeric=numeric), 0)  # type: ignore[arg-type]
    assert "size" in preparer.spec.categorical
    ranks = preparer.transform(typed).numeric[:5, preparer.spec.numeric.index("size rank")]
    assert ranks[0] < ranks[2] < ranks[1]
    unseen = preparer.transform(typed.with_columns(size=pl.lit("gigantic")))
    if numeric == "quantile":
        assert np.isfinite(unseen.numeric).all()
    else:
        assert np.isnan(unseen.numeric[:, preparer.spec.numeric.index("size rank")]).all()
        assert np.isnan(ranks[3:5]).all()
