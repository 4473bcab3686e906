"""RealMLP: Holzmüller et al. 2024, Better by Default: Strong Pre-Tuned MLPs and Boosted Trees on Tabular Data."""

from .plugin import RealMLP

__all__ = ["RealMLP"]
