import pytest

from tabapp.bundle.writing.write import write_bundle
from tests.bundle.making import make_contents, register_linear


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="package")
def _whole_package():
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        yield


@pytest.fixture(scope="package")
def contents(_whole_package, tmp_path_factory):
    return {task: make_contents(tmp_path_factory.mktemp(task), task) for task in ("binary", "multiclass", "regression")}


@pytest.fixture(scope="package")
def bundles(_whole_package, contents, tmp_path_factory):
    """A bundle for each task."""
    folder = tmp_path_factory.mktemp("bundles")
    for task, content in contents.items():
        write_bundle(folder / f"{task}.tabapp", content)
    return {task: folder / f"{task}.tabapp" for task in contents}
