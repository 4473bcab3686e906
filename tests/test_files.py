"""Writes are atomic when any of their system calls fails: readers see the old content or the new content."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tabapp import files
from tabapp.files import Operations
from tests.faults import FailingOperations

OLD, NEW = b"old content", b"the new content, which is longer than the old"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_written_content_is_read_back(tmp_path):
    files.write_bytes(tmp_path / "a", NEW)
    files.write_text(tmp_path / "b", "größer ≥ 1\n")
    files.write_json(tmp_path / "c.json", {"ü": [1, None]})
    assert (tmp_path / "a").read_bytes() == NEW
    assert (tmp_path / "b").read_text(encoding="utf-8") == "größer ≥ 1\n"
    assert files.read_json(tmp_path / "c.json") == {"ü": [1, None]}
    assert names(tmp_path) == ["a", "b", "c.json"]


def test_invalid_json_raises_value_error(tmp_path):
    (tmp_path / "torn.json").write_text('{"a": ')
    with pytest.raises(ValueError, match="Expecting value"):
        files.read_json(tmp_path / "torn.json")


@pytest.mark.parametrize("already_there", [False, True])
def test_failed_write_leaves_the_old_or_the_new_file(tmp_path, monkeypatch, already_there):
    path = tmp_path / "file"
    n_operations = FailingOperations.count(monkeypatch, lambda: files.write_bytes(tmp_path / "other", NEW))
    assert n_operations == 4, "write, fsync, rename, fsync of the folder"
    (tmp_path / "other").unlink()
    for n in range(1, n_operations + 1):
        path.unlink(missing_ok=True)
        if already_there:
            path.write_bytes(OLD)
        with FailingOperations(monkeypatch, n), pytest.raises(OSError, match="No space left"):
            files.write_bytes(path, NEW)
        renamed = n == n_operations
        assert names(tmp_path) == (["file"] if already_there or renamed else []), f"operation {n}"
        if renamed:
            assert path.read_bytes() == NEW
        elif already_there:
            assert path.read_bytes() == OLD


def test_failed_folder_is_complete_or_absent(tmp_path, monkeypatch):
    def fill(path: Path) -> None:
        with files.new_folder(path) as temporary:
            files.write_bytes(temporary / "a", NEW)
            (temporary / "model").mkdir()
            (temporary / "model" / "weights").write_bytes(NEW)

    n_operations = FailingOperations.count(monkeypatch, lambda: fill(tmp_path / "counted"))
    assert n_operations > 8
    for n in range(1, n_operations + 1):
        path = tmp_path / f"folder-{n}"
        with FailingOperations(monkeypatch, n) as faults, pytest.raises(OSError, match="No space left"):
            fill(path)
        assert faults.failed
        if path.exists():
            assert n == n_operations, "only the last operation comes after the rename"
            assert (path / "a").read_bytes() == (path / "model" / "weights").read_bytes() == NEW
        assert not [name for name in names(tmp_path) if name.endswith(".tmp")]


def test_exception_in_the_block_removes_the_folder(tmp_path):
    def fill() -> None:
        with files.new_folder(tmp_path / "folder") as temporary:
            (temporary / "a").write_bytes(OLD)
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fill()
    assert names(tmp_path) == []


def test_first_of_two_equal_folders_is_kept(tmp_path):
    with files.new_folder(tmp_path / "folder") as ours:
        (ours / "a").write_bytes(NEW)
        with files.new_folder(tmp_path / "folder") as theirs:
            (theirs / "a").write_bytes(OLD)
    assert (tmp_path / "folder" / "a").read_bytes() == OLD
    assert names(tmp_path) == ["folder"]


def test_partial_writes_are_completed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "operations", Operations(write=lambda descriptor, data: os.write(descriptor, data[:3])))
    files.write_bytes(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == NEW


def test_content_is_synced_before_the_rename(tmp_path, monkeypatch):
    calls: list[str] = []

    def recording(name, function):
        def call(*arguments):
            calls.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(
        files,
        "operations",
        Operations(recording("write", os.write), recording("fsync", os.fsync), recording("rename", os.replace)),
    )
    files.write_bytes(tmp_path / "file", NEW)
    assert calls == ["write", "fsync", "rename", "fsync"]


def test_sweep_removes_only_temporary_files(tmp_path):
    files.write_json(tmp_path / "run.json", {"kept": True})
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / ".a-0.77.deadbeef.tmp").mkdir()
    (tmp_path / "fits" / ".a-0.77.deadbeef.tmp" / "model").write_bytes(b"half")
    (tmp_path / ".run.json.77.deadbeef.tmp").write_bytes(b"{")
    (tmp_path / ".hidden").write_bytes(b"kept")
    assert files.sweep(tmp_path) == 2
    assert names(tmp_path) == [".hidden", "fits", "run.json"]
    assert names(tmp_path / "fits") == []
    assert json.loads((tmp_path / "run.json").read_text()) == {"kept": True}


def test_error_contains_the_cause(tmp_path, monkeypatch):
    with FailingOperations(monkeypatch, 1), pytest.raises(OSError, match="No space left") as caught:
        files.write_bytes(tmp_path / "file", NEW)
    assert caught.value.errno == errno.ENOSPC
