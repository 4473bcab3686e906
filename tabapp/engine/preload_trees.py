"""Imported by the server that the fits of boosters, forests and linear models are forked from."""

from tabapp.engine.preload import load

load("lightgbm", "xgboost", "catboost")
