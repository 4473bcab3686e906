"""Fixtures of the hostile tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tabapp.bundle.confined import box
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import LoadedBundle


@pytest.fixture(scope="module")
def shared_process() -> Iterator[None]:
    """Each bundle is loaded once in a confined process, which all commands of the module use in turn. It is verified each time."""
    loaded: dict[Path, LoadedBundle] = {}

    class SharedBox(box.Box):
        def __init__(self, path: Path, *, trust: Path | None = None, **options: object) -> None:
            self.path, self.contents = path, open_bundle(path, trust=trust)

        def __exit__(self, *_: object) -> None:
            pass

        def load(self, **options: float) -> LoadedBundle:
            if self.path not in loaded:
                with own_box(self.path) as new:
                    loaded[self.path] = new.load(**options)
            return loaded[self.path]

    own_box = box.Box
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(box, "Box", SharedBox)
        yield
