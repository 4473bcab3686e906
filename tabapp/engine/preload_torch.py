"""Imported by the server that the fits of deep models are forked from."""

from tabapp.engine.preload import SKLEARN, load

load(SKLEARN, "torch")
