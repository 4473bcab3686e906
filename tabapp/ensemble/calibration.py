"""The calibration of an ensemble as bundles and events store it. A process that starts quickly imports it: no numpy."""

from __future__ import annotations

import msgspec


class ClassScaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each probability is raised to the power of its class and multiplied by its factor; those of a row are then normalized.

    Attributes:
        powers, factors: one per class, above 0.
    """

    powers: tuple[float, ...]
    factors: tuple[float, ...]


Calibration = float | ClassScaling
"""How probabilities are calibrated: with a temperature, or with a scaling by class."""
