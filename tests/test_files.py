"""Every write survives the failure of any of its system calls: readers see the old content or the new, whole."""

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


def test_what_is_written_is_read(tmp_path):
    files.write_bytes(tmp_path / "a", NEW)
    files.write_text(tmp_path / "b", "größer ≥ 1\n")
    files.write_json(tmp_path / "c.json", {"ü": [1, None]})
    assert (tmp_path / "a").read_bytes() == NEW
    assert (tmp_path / "b").read_text(encoding="utf-8") == "größer ≥ 1\n"
    assert files.read_json(tmp_path / "c.json") == {"ü": [1, None]}
    assert names(tmp_path) == ["a", "b", "c.json"]


def test_what_is_not_json_is_a_value_error(tmp_path):
    (tmp_path / "torn.json").write_text('{"a": ')
    with pytest.raises(ValueError, match="Expecting value"):
        files.read_json(tmp_path / "torn.json")


@pytest.mark.parametrize("already_there", [False, True])
def test_a_file_is_old_or_new_whichever_operation_fails(tmp_path, monkeypatch, already_there):
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


def test_a_folder_appears_whole_or_not_at_all_whichever_operation_fails(tmp_path, monkeypatch):
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


def test_a_folder_whose_block_fails_leaves_nothing(tmp_path):
    def fill() -> None:
        with files.new_folder(tmp_path / "folder") as temporary:
            (temporary / "a").write_bytes(OLD)
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fill()
    assert names(tmp_path) == []


def test_of_two_that_make_one_folder_the_first_stands(tmp_path):
    with files.new_folder(tmp_path / "folder") as ours:
        (ours / "a").write_bytes(NEW)
        with files.new_folder(tmp_path / "folder") as theirs:
            (theirs / "a").write_bytes(OLD)
    assert (tmp_path / "folder" / "a").read_bytes() == OLD
    assert names(tmp_path) == ["folder"]


def test_a_write_that_the_system_splits_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "operations", Operations(write=lambda descriptor, data: os.write(descriptor, data[:3])))
    files.write_bytes(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == NEW


def test_everything_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls: list[str] = []

    def noting(name, function):
        def call(*arguments):
            calls.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(
        files,
        "operations",
        Operations(noting("write", os.write), noting("fsync", os.fsync), noting("rename", os.replace)),
    )
    files.write_bytes(tmp_path / "file", NEW)
    assert calls == ["write", "fsync", "rename", "fsync"]


def test_sweep_removes_only_what_is_half_written(tmp_path):
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


def test_a_failure_names_its_cause(tmp_path, monkeypatch):
    with FailingOperations(monkeypatch, 1), pytest.raises(OSError, match="No space left") as caught:
        files.write_bytes(tmp_path / "file", NEW)
    assert caught.value.errno == errno.ENOSPC
