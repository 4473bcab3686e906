"""Imported by the server that the fits of deep models are forked from."""

from tabapp.engine.preload import load

load("torch")
