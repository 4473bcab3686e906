"""Imported by the server that the fits of boosters are forked from, if scikit-learn is not needed for their features."""

from tabapp.engine.fit.preload import load

load("lightgbm", "xgboost", "catboost", lean=True)
