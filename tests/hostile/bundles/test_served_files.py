"""A served file that is replaced by something that is no bundle file: a FIFO, a device, a folder, more bytes than the disk has."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tabapp.errors import BundleError
from tabapp.files import copy_regular
from tests.bundle.making import make_contents, register_linear
from tests.waiting import HANG_SECONDS

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from tabapp.bundle.writing.write import write_bundle
from tabapp.serve import bundles as bundles_module
from tabapp.serve.bundles import ServedBundle
from tests.serve.serving import load_here


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)
    monkeypatch.setattr(bundles_module, "load_boxed", load_here)


@pytest.fixture
def made(tmp_path):
    """A served bundle, the content of its file, and the log."""
    path = tmp_path / "model.tabapp"
    write_bundle(path, make_contents(tmp_path, "binary"))
    (folder := tmp_path / "copies").mkdir()
    log = []
    bundle = ServedBundle("model", path, folder, n_processes=1, trust=None, device="cpu", log=log.append)
    yield bundle, path.read_bytes(), log
    bundle.close()


def checked(bundle) -> None:
    """Look at the file as often as a reload takes, in a thread that would stay if it waited for ever."""

    def check() -> None:
        for _ in range(2):
            bundle.check()

    thread = threading.Thread(target=check, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive(), "the watcher waits for the file"


def replace(path: Path, make) -> None:
    path.unlink(missing_ok=True)
    make(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


NO_FILES = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "folder": Path.mkdir,
    "sparse file": sparse,
    "link to nothing": lambda path: path.symlink_to("nothing"),
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_and_the_loaded_version_stays(made, tmp_path, kind):
    bundle, content, log = made
    loaded = bundle.health().digest
    replace(bundle.path, NO_FILES[kind])
    checked(bundle)
    assert bundle.health().predicts
    assert bundle.health().digest == loaded
    assert len(list((tmp_path / "copies").iterdir())) == 1
    if kind != "link to nothing":
        assert bundle.counts["refused"] == 1
        assert "is refused, and the loaded version stays" in log[-1]
        assert bundle.health().problem.startswith("The new file was refused: 'model' cannot be read (")
    # A model process that ends is restarted meanwhile.
    bundle.version.processes[0].kill()
    checked(bundle)
    assert bundle.counts["restarted"] == 1
    if bundle.path.is_dir():
        bundle.path.rmdir()
    replace(bundle.path, lambda path: path.write_bytes(content))
    checked(bundle)
    assert bundle.counts["reloaded"] == 1
    assert bundle.health().problem == ""


def test_a_link_to_a_bundle_is_loaded(made, tmp_path):
    bundle, content, _ = made
    (tmp_path / "other.tabapp").write_bytes(content)
    replace(bundle.path, lambda path: path.symlink_to("other.tabapp"))
    checked(bundle)
    assert bundle.counts["reloaded"] == 1


@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "sparse file"])
def test_a_start_with_what_is_no_file_is_refused(tmp_path, kind):
    NO_FILES[kind](path := tmp_path / "model.tabapp")
    with pytest.raises(BundleError, match=r"cannot be read \((not a regular file|too large)\)"):
        ServedBundle("model", path, tmp_path, n_processes=1, trust=None, device="cpu", log=print)


def test_a_copy_is_bounded_by_the_size_of_the_file(tmp_path):
    (source := tmp_path / "source").write_bytes(b"x" * 100)
    copy_regular(source, tmp_path / "copy", most_bytes=100)
    assert (tmp_path / "copy").read_bytes() == b"x" * 100
    with pytest.raises(OSError, match="too large"):
        copy_regular(source, tmp_path / "other", most_bytes=99)
