"""Imported by the server that the fits of forests and linear models are forked from, and those of other authors' boosters."""

from tabapp.engine.fit.preload import SKLEARN, load
from tabapp.models.stated import BOOSTERS

ESTIMATORS = ("sklearn.ensemble", "sklearn.feature_extraction.text", "sklearn.linear_model", "sklearn.neighbors")
"""They take a tenth of a second in every fit that would import one."""

load(*BOOSTERS, SKLEARN, *ESTIMATORS)
