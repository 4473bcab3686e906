"""Temporary folders: private, and removed even if their process is killed."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tabapp
from tabapp.errors import BundleError
from tabapp.temporary import LOCK, TemporaryFolder, remove_abandoned_folders
from tests.waiting import HANG_SECONDS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def age(folder: Path, seconds: float = 3600.0) -> None:
    """Make a folder look as if it had not changed for a while."""
    then = time.time() - seconds
    os.utime(folder, (then, then))


def abandoned(place: Path, name: str = "tabapp-bundle-x", *, lock: bool = True) -> Path:
    """The folder of a process that was killed."""
    folder = place / name
    folder.mkdir(mode=0o700)
    (folder / "members").mkdir()
    (folder / "members" / "model.txt").write_text("left")
    if lock:
        (folder / LOCK).touch()
    age(folder)
    return folder


def test_a_folder_is_private_and_removed(place: Path) -> None:
    with TemporaryFolder("bundle") as name:
        folder = Path(name)
        assert folder.parent == place
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / LOCK)] == [0o700, 0o600]
        (folder / "file").write_text("x")
    assert list(place.iterdir()) == []


def test_a_folder_is_removed_after_an_error(place: Path) -> None:
    def fail() -> None:
        with TemporaryFolder("bundle") as name:
            (Path(name) / "file").write_text("x")
            raise BundleError("broken")

    with pytest.raises(BundleError, match="broken"):
        fail()
    assert list(place.iterdir()) == []


def test_a_folder_can_be_removed_twice(place: Path) -> None:
    folder = TemporaryFolder("serve")
    folder.cleanup()
    folder.cleanup()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", ["bundle", "serve", "table", "stdin", "export", "fit", "estimator"])
def test_the_folder_of_a_killed_process_is_removed_whatever_it_contains(place: Path, kind: str) -> None:
    old = abandoned(place, f"tabapp-{kind}-x")
    with TemporaryFolder("bundle") as folder:
        assert not old.exists()
        assert Path(folder).exists()


def test_a_killed_process_leaves_its_folder_to_the_next_one(place: Path) -> None:
    program = """
import os, sys, tempfile
from tabapp.temporary import TemporaryFolder
tempfile.tempdir = sys.argv[1]
with TemporaryFolder("table") as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-P", "-c", program, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == -9
    (left,) = place.iterdir()
    assert str(left) == done.stdout.strip()
    remove_abandoned_folders()
    assert left.exists(), "a young folder may not be locked yet"
    age(left)
    remove_abandoned_folders()
    assert not left.exists()


def test_folders_in_use_are_kept(place: Path) -> None:
    with TemporaryFolder("bundle") as name:
        age(Path(name))
        with TemporaryFolder("serve"):
            pass
        assert Path(name).exists()


@pytest.mark.parametrize(
    "case", ["young", "without a lock", "other name", "open to others", "file", "link", "lock is a link"]
)
def test_everything_else_is_kept(place: Path, tmp_path: Path, case: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / LOCK).touch()
    name = "tabapp-bundle-x"
    if case == "young":
        kept = abandoned(place)
        os.utime(kept)
    elif case == "without a lock":
        kept = abandoned(place, lock=False)
    elif case == "other name":
        kept = abandoned(place, "other-bundle-x")
    elif case == "open to others":
        kept = abandoned(place)
        kept.chmod(0o755)
    elif case == "file":
        kept = place / name
        kept.write_text("x")
        age(kept)
    elif case == "link":
        kept = place / name
        kept.symlink_to(outside)
        age(outside)
    else:
        kept = abandoned(place, lock=False)
        (kept / LOCK).symlink_to(outside / LOCK)
        age(kept)
    remove_abandoned_folders()
    assert os.path.lexists(kept)
    assert (outside / LOCK).exists()


def test_folders_of_other_users_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = abandoned(place)
    monkeypatch.setattr(os, "getuid", lambda: kept.stat().st_uid + 1)
    remove_abandoned_folders()
    assert kept.exists()


def test_all_temporary_folders_of_tabapp_follow_this_rule() -> None:
    package = Path(tabapp.__file__).parent
    made = re.compile(r"\b(mkdtemp|TemporaryDirectory)\(")
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if made.search(file.read_text())}
    assert found == set()
