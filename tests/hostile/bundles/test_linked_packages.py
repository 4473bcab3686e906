"""Packages behind symbolic links, as some installers make them, in a process that may read the folders of packages only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from tabapp.bundle.confined import sandbox
restricted = sandbox.restrict_files(sandbox.paths_of_libraries())
import linked, linked_files, linked_module
try:
    Path({secret!r}).read_text()
    print(restricted, "read")
except OSError:
    print(restricted, "denied")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of packages: a link to a package, a package of links, a link to a module, and a link to a user's folder."""
    store, folder = tmp_path / "store", tmp_path / "site"
    for name in ("linked", "linked_files"):
        (store / name).mkdir(parents=True)
        (store / name / "__init__.py").write_text("from . import part\n")
        (store / name / "part.py").write_text("")
    (store / "linked_module.py").write_text("")
    (store / "home").mkdir()
    (store / "home" / "secret.txt").write_text("secret")
    (folder / "linked_files").mkdir(parents=True)
    (folder / "linked").symlink_to(store / "linked")
    (folder / "linked_module.py").symlink_to(store / "linked_module.py")
    (folder / "home").symlink_to(store / "home")
    for file in (store / "linked_files").iterdir():
        (folder / "linked_files" / file.name).symlink_to(file)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is of Linux")
def test_linked_packages_are_imported_and_other_links_are_not_followed(folder: Path) -> None:
    secret = str(folder / "home" / "secret.txt")
    program = PROGRAM.format(folder=str(folder), secret=secret)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert not done.stderr
    restricted, read = done.stdout.split()
    assert read == ("denied" if restricted == "True" else "read")
