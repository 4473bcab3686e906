"""Imported by the server that the fits of deep models are forked from."""

from tabapp.engine.preload import SKLEARN, load

OPTIMIZER = "torch._dynamo"
"""Imported by the first optimizer of a process, which takes most of a second in every fit if its server has not done it."""

load(SKLEARN, "torch", OPTIMIZER, "tabapp.nn.plugin")
