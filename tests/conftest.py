"""What all tests share: nothing of the developer's own configuration, and nothing written to their folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("TABAPP_CONFIG", str(folder / "no-config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("TABAPP_THEME", raising=False)
    if "TABAPP_PLUGINS_DIR" not in os.environ:
        monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(folder / "no-plugins"))
