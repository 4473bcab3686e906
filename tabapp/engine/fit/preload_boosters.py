"""Imported by the server that the fits of boosters are forked from, if scikit-learn is not needed for their features."""

from tabapp.engine.fit.preload import load
from tabapp.models.stated import BOOSTERS

load(*BOOSTERS, built_in=True)
