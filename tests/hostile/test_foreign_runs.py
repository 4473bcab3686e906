"""Runs and bundles from elsewhere choose nothing outside of the run folder: no file to read or write, and no host to connect to."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tabapp import user_folders
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record import origin
from tabapp.run.record.confining import bundle_of, own_config, reject_outside
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.resuming import resumed_config, save_resumed
from tabapp.run.record.state import RunState
from tests.run.recording import finished, write_run

USAGE = 2
SECRET = "a secret"


@dataclass(frozen=True)
class Listener:
    """A port on this machine that counts who connects to it."""

    socket: socket.socket

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def count(self) -> int:
        """The connections so far: the system completes them before anyone accepts them."""
        connections = 0
        self.socket.setblocking(False)
        while True:
            try:
                self.socket.accept()[0].close()
            except BlockingIOError:
                return connections
            connections += 1


@pytest.fixture
def listener() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Listener(server)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text(SECRET)
    return path


def foreign_run(place: Path, run: str = "20260102-030405-shop-a1b2", **options: object) -> RunFolder:
    """An interrupted run that somebody else configured, unpacked from an archive."""
    folder = write_run(place, run)
    (folder.path / "run.json").write_text(json.dumps({"data": "/data/shop.csv", "target": "bought", **options}))
    return folder


def test_a_foreign_run_does_not_choose_a_cluster(tmp_path: Path, listener: Listener, capfd) -> None:
    folder = foreign_run(tmp_path / "runs", executor="ray", address=listener.address)
    words = ["resume", str(folder.path), "--trials", "9", "--plain", "--runs-dir", str(tmp_path / "runs")]
    assert run_command_line(words) == USAGE
    (sentence,) = capfd.readouterr().err.splitlines()
    assert "used a Ray cluster" in sentence
    assert "--executor ray --address ADDRESS" in sentence
    assert listener.count() == 0


def test_own_runs_need_the_cluster_on_each_command_line(tmp_path: Path) -> None:
    config = RunConfig(data="/data/shop.csv", executor="ray", address="10.0.0.1:6379")
    folder = write_run(tmp_path, config=config)
    with pytest.raises(UsageError, match="used a Ray cluster"):
        resumed_config(folder, None, 9)
    with pytest.raises(UsageError, match="used a Ray cluster"):
        resumed_config(folder, None, 9, address="10.0.0.1:6379")
    local = resumed_config(folder, None, 9, executor="local")
    assert (local.executor, local.address) == ("local", None)
    moved = resumed_config(folder, None, 9, executor="ray", address="10.0.0.2:6379")
    assert (moved.executor, moved.address) == ("ray", "10.0.0.2:6379")
    assert resumed_config(folder, None, 9, executor="ray").address is None
    with pytest.raises(UsageError, match="Add --executor ray"):
        resumed_config(folder, None, 9, executor="local", address="10.0.0.2:6379")


def test_the_configuration_of_the_user_chooses_the_cluster_of_earlier_runs(tmp_path: Path, monkeypatch) -> None:
    from tabapp.cli.cluster import chosen_cluster

    config = tmp_path / "config.toml"
    config.write_text('[run]\nexecutor = "ray"\naddress = "10.0.0.3:6379"\n')
    monkeypatch.setenv("TABAPP_CONFIG", str(config))
    on_ray = RunConfig(data="x", executor="ray", address="evil:1")
    assert chosen_cluster(on_ray, None, None) == ("ray", "10.0.0.3:6379")
    assert chosen_cluster(on_ray, "local", None) == ("local", None)
    assert chosen_cluster(RunConfig(data="x"), None, None) == (None, None)


def test_the_files_of_own_runs_are_kept(tmp_path: Path) -> None:
    config = RunConfig(data="/data/shop.csv", test="/data/test.csv", unlabelled="/data/more.csv", out="/data/o.tabapp")
    folder = write_run(tmp_path / "runs", config=config)
    assert resumed_config(folder, None, 9) == msgspec.structs.replace(config, trials=9)
    moved = RunFolder(tmp_path / "moved" / folder.run)
    moved.path.parent.mkdir()
    folder.path.rename(moved.path)
    assert own_config(moved) == config


def test_the_files_of_foreign_runs_are_named_and_not_used(tmp_path: Path, secret: Path) -> None:
    options = {"test": str(secret), "unlabelled": str(secret), "out": str(tmp_path / "precious")}
    folder = foreign_run(tmp_path / "runs", data=str(secret), **options)
    (folder.path / "plan.json").write_text("{}")
    said: list[str] = []
    config = resumed_config(folder, None, 9, warn=said.append)
    assert config.data == str(folder.path / secret.name)
    assert (config.test, config.unlabelled, config.out) == (None, None, None)
    (sentence,) = said
    assert all(f"--{name} {path!r}" in sentence for name, path in options.items())
    assert resumed_config(folder, None, 9, out="mine.tabapp").out == "mine.tabapp"
    save_resumed(folder, config)
    assert folder.config() == config
    assert folder.is_own(), "what this user has confirmed by resuming is then this user's own"


def test_the_files_in_the_folder_of_a_foreign_run_are_read(tmp_path: Path) -> None:
    folder = foreign_run(tmp_path, data="/their/runs/r/stdin.csv", test="test.arrow", unlabelled="/their/more.arrow")
    for name in ("stdin.csv", "test.arrow", "more.arrow"):
        (folder.path / name).write_text("x")
    config = resumed_config(folder, None, 9, warn=lambda sentence: pytest.fail(sentence))
    found = [config.data, config.test, config.unlabelled]
    assert found == [str(folder.path / name) for name in ("stdin.csv", "test.arrow", "more.arrow")]


def test_a_foreign_run_that_has_not_read_its_table_is_refused(tmp_path: Path, secret: Path) -> None:
    folder = foreign_run(tmp_path / "runs", data=str(secret))
    with pytest.raises(UsageError, match=r"has not read its table .*secret.csv.* Copy the table to .*secret.csv"):
        resumed_config(folder, None, 9)
    shutil.copy(secret, folder.path)
    assert resumed_config(folder, None, 9).data == str(folder.path / secret.name)


@pytest.mark.parametrize("damage", ["changed", "no seal", "another key", "no key"])
def test_a_configuration_that_this_user_did_not_write_is_foreign(tmp_path: Path, monkeypatch, damage: str) -> None:
    folder = write_run(tmp_path / "runs", config=RunConfig(data="/data/shop.csv", out="/data/o.tabapp"))
    assert own_config(folder).out == "/data/o.tabapp"
    path = folder.path / "run.json"
    match damage:
        case "changed":
            path.write_bytes(path.read_bytes().replace(b"o.tabapp", b"p.tabapp"))
        case "no seal":
            (folder.path / origin.SEAL).unlink()
        case "another key":
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
            write_run(tmp_path / "others")
            assert origin.key_file().is_file()
        case _:
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    assert not folder.is_own()
    assert own_config(folder).out is None


def test_the_key_is_private_and_created_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = write_run(tmp_path / "runs")
    key = origin.key_file()
    content = key.read_bytes()
    assert (key.stat().st_mode & 0o777, len(content)) == (0o600, origin.KEY_BYTES)
    write_run(tmp_path / "runs", "20260102-030405-cars-c3d4")
    assert key.read_bytes() == content
    assert folder.is_own()
    assert [path.name for path in key.parent.iterdir()] == [key.name]


def test_a_run_is_created_without_a_place_for_the_key(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    for number, place in enumerate((tmp_path / "file", user_folders.NOWHERE)):
        monkeypatch.setattr(origin, "state_folder", lambda place=place: place)
        folder = write_run(tmp_path / str(number))
        assert folder.config().data == "/data/shop.csv"
        assert not folder.is_own()
        assert not (folder.path / origin.SEAL).exists()


def test_commands_in_a_foreign_folder_name_nothing_outside_of_it() -> None:
    for name in ("data", "test", "unlabelled", "out", "executor", "address"):
        with pytest.raises(UsageError, match=f"--{name} is chosen when a run is created"):
            reject_outside({"metric": "roc_auc", name: "/etc/passwd"})
    reject_outside(dict.fromkeys(["metric", "budget", "models", "kinds", "ignore"]))


def test_a_command_may_name_only_a_file_that_the_owner_has_written_into_the_configuration() -> None:
    own = RunConfig(data="/data/shop.csv", test="/data/test.csv", executor="ray", address="10.0.0.1")
    reject_outside({"test": "/data/test.csv"}, own)
    for options in (
        {"test": "/etc/passwd"},
        {"unlabelled": "/data/test.csv"},
        {"data": "/data/shop.csv"},
        {"executor": "ray"},
        {"address": "10.0.0.1"},
    ):
        with pytest.raises(UsageError, match="is chosen when a run is created"):
            reject_outside(options, own)


def test_the_run_of_a_target_is_inside_of_the_whole_run() -> None:
    def after(folder: str, index: int = 0) -> RunState:
        return reduce(RunState(), ev.TargetStarted(index=index, target="a", targets=("a",), folder=folder, seq=1))

    assert after("targets/1-a").targets[0].folder == "targets/1-a"
    for folder in (
        "/etc",
        "..",
        "targets/../..",
        "targets/1-a/../..",
        "targets/1-a\n",
        "x\0",
        "~",
        "a" * 10_000,
        "\x1b[2J",
    ):
        assert after(folder).targets[0].folder == ""
    for index in (-1, 1, 10**9):
        assert after("targets/1-a", index).targets == ()


def test_a_screen_offers_the_bundle_of_the_run_or_of_the_user(tmp_path: Path, secret: Path) -> None:
    folder = write_run(tmp_path / "runs")
    for named in (str(secret), f"{folder.path}/../../secret.csv", "x\0y", "a" * 10_000):
        assert bundle_of(folder, finished(folder.run, bundle=named), is_own=False) == folder.bundle
    assert bundle_of(folder, finished(folder.run, bundle=str(secret)), is_own=True) == secret
    inner = folder.path / "targets" / "1-a"
    inner.mkdir(parents=True)
    (inner / "model.tabapp").write_text("")
    named = str(inner / "model.tabapp")
    assert bundle_of(folder, finished(folder.run, bundle=named), is_own=False) == inner / "model.tabapp"
