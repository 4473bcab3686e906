"""The folders of the user: configuration, data, state and cache, also for a user without a home folder, as in many containers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

NOWHERE = Path(os.devnull, "no-home-folder")
"""The folder of a user without a home folder. Nothing exists in it, and nothing can be created in it."""


def config_folder() -> Path:
    """The folder of the configuration and the user's own plugins."""
    from platformdirs import user_config_path

    return _found(user_config_path)


def data_folder() -> Path:
    """The folder of the user's data."""
    from platformdirs import user_data_path

    return _found(user_data_path)


def state_folder() -> Path:
    """The folder of what programs keep between their runs."""
    from platformdirs import user_state_path

    return _found(user_state_path)


def cache_folder() -> Path:
    """The folder of what may be removed."""
    from platformdirs import user_cache_path

    return _found(user_cache_path)


def _found(path_of: Callable[[str], Path]) -> Path:
    try:
        path = path_of("tabapp")
    except RuntimeError:
        return NOWHERE
    # Earlier versions of platformdirs return `~/…` unchanged.
    return path if path.is_absolute() else NOWHERE
