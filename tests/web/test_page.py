"""The process that serves one browser page, tested without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabapp.web import page as page_module
from tabapp.web.page import Page
from tests.run.recording import write_run


@pytest.mark.parametrize("start_engine", [False, True])
async def test_opening_another_run_replaces_the_page(tmp_path: Path, monkeypatch, start_engine: bool) -> None:
    here, there = (write_run(tmp_path, f"20260102-030405-shop-{tail}") for tail in ("a1b2", "c3d4"))
    started, opened = [], []
    monkeypatch.setattr(page_module, "start_detached_engine", started.append)
    app = Page(here, runs_dir=tmp_path)
    monkeypatch.setattr(app, "open_url", lambda url, *, new_tab: opened.append((url, new_tab)))
    async with app.run_test(size=(100, 30)):
        app.open_run(there, start_engine=start_engine)
        assert app.is_running
    assert opened == [(f"?run={there.run}", False)]
    assert started == ([there] if start_engine else [])
