"""xRFM: Beaglehole et al. 2025, xRFM: Accurate, scalable, and interpretable feature learning models for tabular data."""

from .plugin import XRFM

__all__ = ["XRFM"]
