import pytest

from tabapp.bundle.writing.write import write_bundle
from tests.bundle.making import make_contents, register_linear, text_table

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


class Made(dict):
    """Bundles by task, each made when a test first asks for it."""

    def __init__(self, tmp_path_factory):
        super().__init__()
        self._factory = tmp_path_factory

    def __missing__(self, task):
        with pytest.MonkeyPatch.context() as monkeypatch:
            register_linear(monkeypatch)
            folder = self._factory.mktemp(task)
            write_bundle(folder / f"{task}.tabapp", make_contents(folder, task))
        self[task] = folder / f"{task}.tabapp"
        return self[task]


@pytest.fixture(scope="package")
def bundles(tmp_path_factory):
    """The path of a bundle for each task."""
    return Made(tmp_path_factory)


@pytest.fixture(scope="package")
def rows():
    """Thirty new rows as text, for each task."""
    return {task: text_table(task, n_rows=30, seed=7) for task in ("binary", "multiclass", "regression")}
