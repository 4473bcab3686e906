"""The command `weights`: installing, refusing, verifying and removing files, and that nothing connects unless it is asked to."""

from __future__ import annotations

import json
import pickle
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tabapp.cli.commands.weights import weights
from tabapp.errors import UsageError
from tabapp.models import registry
from tabapp.processes.weights_reader import converted
from tabapp.weights import store
from tabapp.weights.adding import add
from tests.foundation.conftest import damaged, published_light

torch = pytest.importorskip("torch")
pytest.importorskip("lightpfn")

N_MUTATED = 60


class Code:
    """An object whose unpickling would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.write_text, (self.path, "executed"))


def light_weights() -> Any:
    plugin = registry.find("lightpfn").plugin
    assert plugin is not None
    return plugin.weights[0]


def light_plugin() -> Any:
    plugin = registry.find("lightpfn").plugin
    assert plugin is not None
    return plugin


def run(*arguments: str) -> str:
    result = CliRunner().invoke(weights, [str(each) for each in arguments], catch_exceptions=False)
    return result.output


def test_air_gapped_installation_takes_three_commands(weights_folder: Path, tmp_path: Path) -> None:
    """The package installed, the file copied: add, verify, list."""
    file = published_light(tmp_path / "copied")
    assert "Installed lightpfn-classifier" in run("add", str(file), "--name", "lightpfn-classifier")
    assert "holds." in run("verify")
    listed = {row["name"]: row for row in json.loads(run("--json"))}
    assert listed["lightpfn-classifier"]["installed"] is True
    assert listed["kumo-small-classifier"]["command"] == "tabapp weights fetch kumo-small"
    assert registry.find("lightpfn").reason is None
    assert "Removed" in run("remove", "lightpfn")
    assert store.find("lightpfn-classifier") is None


@pytest.mark.slow
def test_the_same_file_gives_the_same_hash(weights_folder: Path, tmp_path: Path) -> None:
    file = published_light(tmp_path / "a")
    first = add("lightpfn", light_weights(), file)
    again = add("lightpfn", light_weights(), file)
    assert first.sha256 == again.sha256
    other = published_light(tmp_path / "b", seed=1)
    with pytest.raises(UsageError, match="--replace replaces them"):
        add("lightpfn", light_weights(), other)
    assert add("lightpfn", light_weights(), other, replace=True).sha256 != first.sha256
    assert sorted(path.suffix for path in weights_folder.iterdir()) == [".json", ".safetensors"]


def test_code_in_a_file_is_not_executed(weights_folder: Path, tmp_path: Path) -> None:
    published_light(tmp_path / "copied")
    file, trap = tmp_path / "copied" / "model.pt", tmp_path / "trap"
    torch.save({"state_dict": {"w": torch.zeros(2)}, "extra": Code(trap)}, file)
    with pytest.raises(UsageError, match="cannot be used as lightpfn-classifier"):
        add("lightpfn", light_weights(), file)
    file.write_bytes(pickle.dumps(Code(trap)))
    with pytest.raises(UsageError, match="cannot be used as lightpfn-classifier"):
        add("lightpfn", light_weights(), file)
    assert not trap.exists()
    assert not list(weights_folder.iterdir())


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_damaged_files_get_a_sentence(suffix: str, weights_folder: Path, tmp_path: Path) -> None:
    """Sixty mutations of each format, read by the function that the confined process calls."""
    source = published_light(tmp_path / "published")
    config = source.with_name("config.json")
    if suffix == ".pt":
        from safetensors.torch import load_file

        torch.save(load_file(source), tmp_path / "whole.pt")
        source = tmp_path / "whole.pt"
    content, plugin = source.read_bytes(), registry.find("lightpfn").plugin
    assert plugin is not None
    assert converted(plugin, "lightpfn-classifier", source, config)[1] == ""
    refused = 0
    for how in range(N_MUTATED):
        file = tmp_path / f"damaged{suffix}"
        file.write_bytes(damaged(content, how))
        made, problem = converted(plugin, "lightpfn-classifier", file, config)
        assert bool(made) != bool(problem)
        assert "\n" not in problem
        refused += bool(problem)
    # Changed bytes of a weight give another weight.
    assert refused >= N_MUTATED // 2


@pytest.mark.slow
def test_damaged_files_never_crash_the_caller(weights_folder: Path, tmp_path: Path) -> None:
    source = published_light(tmp_path / "published")
    content = source.read_bytes()
    for how in range(N_MUTATED):
        source.write_bytes(damaged(content, how))
        with suppress(UsageError):
            add("lightpfn", light_weights(), source, replace=True)


@pytest.mark.slow
def test_files_of_other_networks_and_missing_parts_are_refused(weights_folder: Path, tmp_path: Path) -> None:
    file = published_light(tmp_path / "copied")
    config = file.with_name("config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"icl_blocks": 2}))
    with pytest.raises(UsageError, match="does not have the weights of this network"):
        add("lightpfn", light_weights(), file)
    config.unlink()
    with pytest.raises(UsageError, match=r"put config\.json into the same folder"):
        add("lightpfn", light_weights(), file)
    with pytest.raises(UsageError, match="is not a file of weights"):
        add("lightpfn", light_weights(), tmp_path / "weights.zip")
    with pytest.raises(UsageError, match="cannot be read"):
        add("lightpfn", light_weights(), tmp_path / "absent.pt")
    with pytest.raises(UsageError, match=r"Add --name NAME, one of kumo-small-classifier"):
        run("add", str(file.rename(tmp_path / "unknown.safetensors")))
    with pytest.raises(UsageError, match="did you mean 'kumo-small'"):
        run("fetch", "kumo-smale", "--accept")


def test_a_header_of_two_gigabytes_is_refused_without_reading_it(weights_folder: Path, tmp_path: Path) -> None:
    file = published_light(tmp_path / "copied")
    with file.open("r+b") as opened:
        opened.write((2 * 2**30).to_bytes(8, "little"))
        opened.truncate(2 * 2**30 + 8)
    started = time.monotonic()
    made, problem = converted(light_plugin(), "lightpfn-classifier", file, file.with_name("config.json"))
    assert (made, bool(problem)) == (b"", True)
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_weights_of_a_newer_network_are_refused(weights_folder: Path, tmp_path: Path) -> None:
    """They have more arrays, or options that the installed package does not know."""
    from safetensors.torch import load_file, save_file

    file = published_light(tmp_path / "copied")
    arrays = load_file(file)
    save_file(arrays | {"icl.gate": torch.ones(2)}, file)
    with pytest.raises(UsageError, match=r"does not have the weights of this network \('icl\.gate' differs\)"):
        add("lightpfn", light_weights(), file)
    save_file(arrays, file)
    config = file.with_name("config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"gated": True}))
    with pytest.raises(UsageError, match="its configuration is not one of this network"):
        add("lightpfn", light_weights(), file)
    assert not list(weights_folder.iterdir())


def test_a_full_disk_is_reported_before_the_conversion(
    weights_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10, used=9, free=1))
    with pytest.raises(UsageError, match=r"MB left; the conversion of model\.safetensors needs"):
        add("lightpfn", light_weights(), published_light(tmp_path / "copied"))


def test_a_license_must_be_accepted(weights_folder: Path) -> None:
    with pytest.raises(UsageError, match="add --accept to download"):
        run("fetch", "lightpfn")


def test_nothing_connects_but_fetch(light: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt to connect is counted, and only `fetch` makes one."""
    attempts: list[object] = []

    def refuse(*arguments: object, **named: object) -> None:
        attempts.append(arguments)
        raise OSError("no network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    # The library waits between its attempts.
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    run()
    run("--json")
    run("verify")
    for name in (*registry.names(), *registry.variants(), *registry.presets()):
        registry.find(name)
    assert not attempts
    with pytest.raises(UsageError, match=r"cannot be downloaded|forbids downloads"):
        run("fetch", "tabicl", "--accept")


def test_a_filled_cache_is_used_without_a_connection(
    weights_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tabapp.weights import fetching

    file = published_light(tmp_path / "cache")
    monkeypatch.setattr(fetching, "cached", lambda wanted: file)
    assert "Installed lightpfn-classifier" in run("fetch", "lightpfn", "--accept")
