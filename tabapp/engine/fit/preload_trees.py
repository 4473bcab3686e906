"""Imported by the server that the fits of forests and linear models are forked from, and those of other authors' boosters."""

from tabapp.engine.fit.preload import SKLEARN, load
from tabapp.models.stated import BOOSTERS

load(SKLEARN, *BOOSTERS)
