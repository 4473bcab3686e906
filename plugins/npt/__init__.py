"""Non-Parametric Transformer: Kossen et al. 2021, Self-Attention Between Datapoints: Going Beyond Individual Input-Output
Pairs in Deep Learning.
"""

from .plugin import NPT

__all__ = ["NPT"]
