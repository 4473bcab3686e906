"""AMFormer: Cheng et al. 2024, Arithmetic Feature Interaction Is Necessary for Deep Tabular Learning."""

from .plugin import AMFormer

__all__ = ["AMFormer"]
