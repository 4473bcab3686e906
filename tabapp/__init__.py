"""AutoML in the terminal. Only the version lives here: nothing else is imported, so that start-up stays light."""

__version__ = "0.1.0"
