"""Temporary folders of unpacked bundles, and the limit of their size."""

import os
import subprocess
import sys
import time

import pytest

from tabapp.bundle import unpack
from tabapp.bundle.archive_checks import LIMIT_VARIABLE, MAX_BYTES, chosen_limit
from tabapp.bundle.contents import open_bundle
from tabapp.errors import BundleError, UsageError
from tests.bundle.test_load import members_of, with_manifest, write_zip
from tests.waiting import HANG_SECONDS


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def age(folder, seconds=3600.0):
    """Make a folder look as if it had not changed for a while."""
    then = time.time() - seconds
    os.utime(folder, (then, then))


def abandoned(place, name="tabapp-bundle-x", *, lock=True):
    """The folder of a process that has crashed."""
    folder = place / name
    (folder / "members").mkdir(parents=True)
    (folder / "members" / "model.txt").write_text("left")
    if lock:
        (folder / ".lock").touch()
    age(folder)
    return folder


def test_a_folder_is_private_and_removed(place):
    with unpack.temporary_folder() as folder:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("x")
    assert list(place.iterdir()) == []


def test_a_folder_is_removed_after_an_error(place):
    def fail():
        with unpack.temporary_folder() as folder:
            (folder / "file").write_text("x")
            raise BundleError("broken")

    with pytest.raises(BundleError, match="broken"):
        fail()
    assert list(place.iterdir()) == []


def test_the_folder_of_a_crashed_process_is_removed(place):
    old = abandoned(place)
    with unpack.temporary_folder() as folder:
        assert not old.exists()
        assert folder.exists()


def test_a_killed_process_leaves_its_folder_to_the_next_one(place):
    program = """
import os, sys, tempfile
from tabapp.bundle import unpack
tempfile.tempdir = sys.argv[1]
with unpack.temporary_folder() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-P", "-c", program, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == -9
    (left,) = place.iterdir()
    assert str(left) == done.stdout.strip()
    unpack.remove_stale_folders()
    assert left.exists(), "a young folder may not be locked yet"
    age(left)
    unpack.remove_stale_folders()
    assert not left.exists()


def test_folders_in_use_are_kept(place):
    with unpack.temporary_folder() as folder:
        age(folder)
        with unpack.temporary_folder():
            pass
        assert folder.exists()


@pytest.mark.parametrize("case", ["young", "without a lock", "other name", "file", "link", "lock is a link"])
def test_everything_else_is_kept(place, tmp_path, case):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".lock").touch()
    name = "tabapp-bundle-x"
    if case == "young":
        kept = abandoned(place)
        os.utime(kept)
    elif case == "without a lock":
        kept = abandoned(place, lock=False)
    elif case == "other name":
        kept = abandoned(place, "tabapp-bundled")
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
        (kept / ".lock").symlink_to(outside / ".lock")
        age(kept)
    unpack.remove_stale_folders()
    assert os.path.lexists(kept)
    assert (outside / ".lock").exists()


def test_folders_of_other_users_are_kept(place, monkeypatch):
    kept = abandoned(place)
    monkeypatch.setattr(os, "getuid", lambda: kept.stat().st_uid + 1)
    unpack.remove_stale_folders()
    assert kept.exists()


def test_a_disk_without_space_is_a_sentence(bundles, place, monkeypatch):
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    from tabapp.bundle.load import load_bundle

    with pytest.raises(BundleError, match=r"needs [\d,]+ bytes in .*Set TMPDIR"):
        load_bundle(bundles["binary"])
    assert list(place.iterdir()) == []


# -- the limit of the unpacked size -----------------------------------------------------------------------------------


@pytest.fixture
def large(bundles, tmp_path):
    """A bundle that unpacks to 66 MiB of zeros, more than 100 times its size."""

    def add(manifest, members):
        members["models/zeros"] = bytes(66 * 2**20)
        manifest["members"].append({"path": "models/zeros", "kind": "model", "bytes": 0, "sha256": ""})

    members = with_manifest(members_of(bundles["binary"]), add)
    return write_zip(tmp_path / "large.tabapp", members.items())


def test_the_limit_is_chosen_in_the_environment(large, monkeypatch):
    with pytest.raises(BundleError, match=rf"would unpack to 69,\d+,\d+ bytes .* set {LIMIT_VARIABLE} to 1 \(GiB\)\.$"):
        open_bundle(large)
    monkeypatch.setenv(LIMIT_VARIABLE, "1")
    assert open_bundle(large).manifest.target == "outcome"
    monkeypatch.setenv(LIMIT_VARIABLE, "0.01")
    with pytest.raises(BundleError, match="would unpack"):
        open_bundle(large)


def test_a_smaller_limit_holds_for_ordinary_bundles(bundles, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "0.0000001")
    with pytest.raises(BundleError, match="would unpack"):
        open_bundle(bundles["binary"])


def test_the_limit_is_in_gibibytes(monkeypatch):
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    assert chosen_limit() is None
    monkeypatch.setenv(LIMIT_VARIABLE, "")
    assert chosen_limit() is None
    monkeypatch.setenv(LIMIT_VARIABLE, " 4 ")
    assert chosen_limit() == MAX_BYTES
    monkeypatch.setenv(LIMIT_VARIABLE, "0.5")
    assert chosen_limit() == 2**29


@pytest.mark.parametrize("value", ["much", "0", "-1", "nan", "inf", "8GiB", "1e999", "a" * 500])
def test_a_limit_that_is_no_size_is_a_usage_error(bundles, monkeypatch, value):
    monkeypatch.setenv(LIMIT_VARIABLE, value)
    with pytest.raises(UsageError, match=rf"{LIMIT_VARIABLE} is .*, but must be a number of GiB above 0") as caught:
        open_bundle(bundles["binary"])
    assert len(str(caught.value)) < 200
