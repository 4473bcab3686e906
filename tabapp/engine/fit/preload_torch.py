"""Imported by the server that the fits of deep models are forked from."""

from contextlib import suppress

from tabapp.engine.fit.preload import SKLEARN, load

COMPILER = "torch._dynamo"
"""Imported by the first optimizer of a process, which takes most of a second in every fit if its server has not done it."""

load(SKLEARN, "torch", "tabapp.nn.plugin")
with suppress(Exception):
    from tabapp.nn.training.uncompiled import leave_compiler

    if not leave_compiler():
        load(COMPILER)
