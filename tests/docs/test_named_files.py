"""Every file and module exists that a document, a docstring or a comment names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"(?<![\w./<>-])((?:[\w.-]+/)+\w+\.py)\b")
MODULE = re.compile(r"(?<![\w./@-])((?:tabapp|tabapp_plugins)(?:\.\w+)+)\b(?![/-])")
OPENED_FROM = (ROOT, ROOT / "tabapp", ROOT / "docs")
"""Names are relative to one of these folders, or to the folder of the document."""
EXAMPLES = re.compile(r"^(?:demo|tabapp_example|src|customers)/|NAME|torch/__init__.py|FOLDER|_$")
NOT_MODULES = {"tabapp.css", "tabapp.tcss", "tabapp.plain", "tabapp.presets", "tabapp.variants"}


def documents() -> list[Path]:
    patterns = ("*.md", "*.toml", "*.yml", "tabapp/*.py", "plugins/*.py", "tools/*.py", "docs/*.py", "benchmarks/*.py")
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def file_exists(name: str, document: Path) -> bool:
    return any((folder / name).is_file() for folder in (*OPENED_FROM, document.parent))


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module, or something that the text of a module names."""
    first, *rest = name.split(".")
    path = ROOT / {"tabapp": "tabapp", "tabapp_plugins": "plugins"}[first]
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    module = path / "__init__.py"
    if rest and (path / f"{rest[0]}.py").is_file():
        module = path / f"{rest.pop(0)}.py"
    return not rest or re.search(rf"\b{rest[0]}\b", module.read_text()) is not None


def missing(document: Path) -> Iterator[str]:
    text = document.read_text()
    for name in FILE.findall(text):
        if not EXAMPLES.search(name) and not file_exists(name, document):
            yield name
    for name in MODULE.findall(text):
        if name not in NOT_MODULES and not EXAMPLES.search(name) and not module_exists(name):
            yield name


def test_files_and_modules_that_documents_name_exist():
    read = documents()
    assert ROOT / "ARCHITECTURE.md" in read
    assert {str(path.relative_to(ROOT)): names for path in read if (names := list(missing(path)))} == {}


@pytest.mark.parametrize("name", ["tabapp/worker.py", "engine/fit.py", "tabapp.worker", "tabapp.engine.fit.nothing"])
def test_names_of_what_has_moved_are_found(name, tmp_path):
    (tmp_path / "page.md").write_text(
        f"`{name}` and `tabapp/cli/main.py`, `run/record/state.py`, `tabapp.run.record.state`"
    )
    assert list(missing(tmp_path / "page.md")) == [name]
