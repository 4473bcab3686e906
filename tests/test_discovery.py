"""Plugins are found without an import, and what their classes state is read from the source."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tabapp import discovery
from tabapp.discovery import Discovery, stated
from tabapp.errors import UsageError

SOURCE = """
raise RuntimeError("not to be imported")

class Params:
    title = "of other things"

class Base:
    requires = ("torch",)

class Model(Base):
    name, paper = "model", "none"
    title: str = 'A "model"'  # shown to users
    warms_up = bool(1)

    def requires_nothing(self):
        requires = ()

class Other(Base):
    requires = ("sklearn", "scipy")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `stating` with a module."""
    folder = tmp_path / "stating"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


@pytest.mark.parametrize(
    ("member", "of", "value"),
    [
        ("title", "Model", 'A "model"'),
        ("requires", "Model", None),
        ("requires", "Other", ("sklearn", "scipy")),
        ("warms_up", "Model", None),
        ("name", "Model", None),
        ("title", "Nothing", None),
    ],
)
@pytest.mark.parametrize("module", ["stating.module", "stating"])
def test_literals_that_a_class_states_are_read_without_an_import(
    package: Path, module: str, member: str, of: str, value: object
) -> None:
    assert stated(member, EntryPoint("model", f"{module}:{of}", "group"), None) == value
    assert "stating.module" not in sys.modules


def test_a_file_of_the_plugin_folder_states_members_in_any_class(package: Path) -> None:
    assert stated("requires", None, package / "module.py") == ("torch",)
    assert stated("requires", None, package / "absent.py") is None
    assert stated("requires", EntryPoint("model", "not_installed.module:Model", "group"), None) is None


class Kind:
    """What the discovery of these tests looks for."""


class Good(Kind):
    """A plugin."""


def test_a_plugin_is_found_once_and_errors_become_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {
        name: EntryPoint(name, f"{__name__}:{attribute}", "group")
        for name, attribute in {"good": "Good", "torn": "Absent", "wrong": "SOURCE"}.items()
    }
    monkeypatch.setattr(discovery, "points", lambda group: here)
    kinds = Discovery("kind", Kind, ("group",), dict, lambda module, name: None, lambda name, plugin: None)
    assert isinstance(kinds.get("good"), Good)
    assert kinds.get("good") is kinds.get("good")
    assert kinds.find("absent").reason == "no kind named 'absent' is installed"
    assert (kinds.find("wrong").reason or "").endswith("SOURCE is not a tabapp Kind")
    with pytest.raises(UsageError, match="The kind 'torn' cannot be used: its plugin does not load: AttributeError"):
        kinds.get("torn")
