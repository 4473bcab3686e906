"""A cache of fits on many tables, on which schedulers, ensembles and calibrations are compared in seconds."""
