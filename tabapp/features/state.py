"""The state of a `FeaturePreparer` that is saved as JSON."""

from __future__ import annotations

import msgspec

from tabapp.features.arrays import FeatureRecipe, FeatureSpec
from tabapp.features.columns import Step
from tabapp.features.derived import Derived
from tabapp.features.shift import Shift

STATE_VERSION, STATE_FILE = 2, "features.json"


class EncodedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target-encoded category.

    Attributes:
        step: index of its `CategoricalStep`.
        names: names of its features.
    """

    step: int
    names: tuple[str, ...]


class PreparerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The state of a `FeaturePreparer` as JSON; its arrays are stored next to it.

    Attributes:
        version: version of this format.
        steps: one per data column.
        encoded: target-encoded categories; their numbers follow those of the steps.
        derived: features made from two columns, of the numbers of the steps; they follow the target-encoded categories.
        kept_numeric: indices of the numbers that are not constant.
        shifts: those of kept numbers that single precision would round too coarsely; none for the recipes "standard" and
            "robust", which scale in double precision.
        indicators: indices of the numbers that get a missing indicator.
        kept_categorical: indices of the categorical steps that are not constant.
        spec: the columns of the tables.
    """

    version: int = STATE_VERSION
    recipe: FeatureRecipe
    steps: tuple[Step, ...]
    encoded: tuple[EncodedColumn, ...] = ()
    derived: tuple[Derived, ...] = ()
    kept_numeric: tuple[int, ...]
    shifts: tuple[Shift, ...] = ()
    indicators: tuple[int, ...]
    kept_categorical: tuple[int, ...]
    spec: FeatureSpec


def decode_state(data: bytes) -> PreparerState:
    """Read the JSON of a state.

    Raises:
        ValueError: it is damaged, or of an unsupported version.
    """
    try:
        state = msgspec.json.decode(data, type=PreparerState)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    if state.version != STATE_VERSION:
        raise ValueError(f"the features have format {state.version}, which this version cannot read")
    return state
