"""Who may read a run, and whose plugins run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabapp import metrics, plugin_files
from tabapp.cli.main import run_command_line
from tabapp.cli.stdin import keep_stdin
from tabapp.metrics import registry as metric_registry
from tabapp.models import registry
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run
from tests.run.recording import write_run

METRIC = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
METRIC = None
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A plugin folder with a model file and a metric file that leave a trace when they run."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "hit_rate.py").write_text(METRIC)
    (folder / "mine.py").write_text(METRIC.replace("METRIC", "MODEL"))
    monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(folder))

    def forget() -> None:
        plugin_files._files.cache_clear()  # pyright: ignore[reportPrivateUsage]
        registry.MODELS.forget()
        metric_registry.THIRD_PARTY.forget()

    forget()
    yield folder
    forget()


def refusals(folder: Path) -> list[str]:
    """The reasons why the model and the metric are not loaded; checks that neither has run."""
    reasons = [registry.find("mine").reason or "", metric_registry.THIRD_PARTY.find("hit_rate").reason or ""]
    assert not (folder / "executed").exists()
    return reasons


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o722, 0o770])
def test_plugins_in_a_folder_that_others_may_write_do_not_run(plugins: Path, mode: int) -> None:
    plugins.chmod(mode)
    for reason in refusals(plugins):
        assert f"chmod go-w {plugins}`" in reason


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
def test_a_plugin_file_that_others_may_write_does_not_run(plugins: Path, mode: int) -> None:
    for name in ("mine.py", "hit_rate.py"):
        (plugins / name).chmod(mode)
    for reason, name in zip(refusals(plugins), ("mine.py", "hit_rate.py"), strict=True):
        assert f"chmod go-w {plugins / name}`" in reason


def test_plugins_of_another_user_do_not_run(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = plugins.stat().st_uid
    if owner == 0:
        os.chown(plugins, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    for reason in refusals(plugins):
        assert "belongs to another user" in reason


def test_a_link_to_a_file_that_others_may_replace_does_not_run(plugins: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in ("mine.py", "hit_rate.py"):
        (plugins / name).rename(shared / name)
        (plugins / name).symlink_to(Path("..") / "shared" / name)
    shared.chmod(0o777)
    for reason in refusals(plugins):
        assert f"chmod go-w {shared}`" in reason
    assert not (shared / "executed").exists()


def test_a_folder_that_others_may_replace_holds_no_plugins(plugins: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for reason in refusals(plugins):
        assert f"chmod go-w {tmp_path}`" in reason


def test_a_link_on_the_way_is_followed(
    plugins: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path_factory.mktemp("links") / "to"
    link.symlink_to(tmp_path)
    monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(link / "plugins"))
    tmp_path.chmod(0o770)
    for reason in refusals(plugins):
        assert f"chmod go-w {tmp_path}`" in reason


def test_links_in_a_circle_are_refused(plugins: Path) -> None:
    (plugins / "mine.py").unlink()
    (plugins / "mine.py").symlink_to("mine.py")
    assert "symbolic links" in (registry.find("mine").reason or "")


def test_a_folder_where_others_can_only_add_files_is_safe(plugins: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    metric_registry.THIRD_PARTY.find("hit_rate")
    assert (plugins / "executed").exists()


def test_plugins_that_only_their_owner_may_write_run(plugins: Path) -> None:
    metric_registry.THIRD_PARTY.find("hit_rate")
    assert (plugins / "executed").exists()


def test_a_refused_metric_ends_with_one_sentence(plugins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins.chmod(0o777)
    assert run_command_line(["models"]) == 0
    capsys.readouterr()
    with pytest.raises(Exception, match="chmod go-w") as caught:
        metrics.get("hit_rate")
    assert "\n" not in str(caught.value)


def test_a_run_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        folder = create_run(RunConfig(data="shop.csv"), tmp_path / "runs")
        (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
        with (tmp_path / "rows.csv").open() as rows:
            monkeypatch.setattr("sys.stdin", rows)
            keep_stdin(folder, RunConfig(data="-"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.path.parent.stat().st_mode) == 0o700
    files = [file for file in folder.path.rglob("*") if file.is_file()]
    assert {file.name for file in files} == {"run.json", "run.seal", "stdin.csv"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.fixture
def read_only_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A stopped run in whose folder no file can be opened for writing, even by root."""
    folder = write_run(tmp_path / "runs")
    folder.bundle.write_bytes(b"a bundle")
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    real = os.open

    def read_only(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if str(path).startswith(str(folder.path)) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    return folder


def test_a_read_only_run_is_listed_shown_and_exported(
    read_only_run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not read_only_run.is_running()
    assert run_command_line(["runs"]) == 0
    assert run_command_line(["attach", read_only_run.run, "--plain"]) == 0
    out = tmp_path / "out.tabapp"
    assert run_command_line(["export", read_only_run.run, "-o", str(out)]) == 0
    assert out.read_bytes() == b"a bundle"
    capsys.readouterr()
    assert run_command_line(["resume", read_only_run.run, "--plain", "--trials", "9"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Read-only file system. Copy the run folder" in line
