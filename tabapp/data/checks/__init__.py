"""Checks on a table: each reports something that looks wrong, with the default handling. None of them changes the data.

A check is one function with the `check` decorator, in a module of this package. `registry.py` imports every module here, so a
new check touches its own file and its test.
"""
