"""Bundles of several targets: written, verified, rejected where they are damaged, and read by the commands."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.files.records import FORMAT_VERSION, MANIFEST, TARGETS_VERSION
from tabapp.bundle.files.targets import file_of, target_files
from tabapp.bundle.files.write_targets import write_targets
from tabapp.cli.main import run_command_line
from tabapp.errors import BundleError, UsageError
from tests.formats.make import HERE, PREDICTIONS, ROWS, TARGETS

FIXTURE = HERE / f"targets_{TARGETS_VERSION}"
WHOLE = FIXTURE / TARGETS


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes], *, link: str | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK if name == link else stat.S_IFREG) << 16
            archive.writestr(info, data)
    return path


def changed(content: dict[str, bytes], **fields: Any) -> dict[str, bytes]:
    manifest = {**json.loads(content[MANIFEST]), **fields}
    return {**content, MANIFEST: json.dumps(manifest).encode()}


def test_the_bundle_of_each_target_is_an_ordinary_bundle():
    with target_files(WHOLE) as files:
        assert [file.target for file in files] == ["price", "city"]
        found = [open_bundle(file.path) for file in files]
        assert [contents.manifest.task for contents in found] == ["regression", "multiclass"]
        assert {contents.manifest.format_version for contents in found} == {FORMAT_VERSION}
        for contents in found:
            # No target is a feature of another.
            assert {"price", "city"}.isdisjoint(column.name for column in contents.schema.features)
        paths = [file.path for file in files]
    assert not any(path.exists() for path in paths)


def test_a_bundle_of_one_target_is_its_own_file(tmp_path):
    with target_files(WHOLE) as files:
        one = tmp_path / "one.tabapp"
        one.write_bytes(file_of(files, "city", WHOLE).path.read_bytes())
        with pytest.raises(UsageError, match=r"did you mean 'city'|targets are 'price', 'city'"):
            file_of(files, "town", WHOLE)
    with target_files(one) as files:
        assert [(file.target, file.path) for file in files] == [(None, one)]


def test_written_bundles_are_read_again(tmp_path):
    with target_files(WHOLE) as files:
        manifest = write_targets(tmp_path / "new.tabapp", [file.path for file in files], run="a", name="n")
    assert [each.target for each in manifest.targets] == ["price", "city"]
    old, new = members(WHOLE), members(tmp_path / "new.tabapp")
    assert {name: data for name, data in old.items() if name.startswith("targets/")}.items() <= new.items()


def test_predictions_are_those_of_the_fixture(tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert run_command_line(["predict", str(WHOLE), str(FIXTURE / ROWS), "-o", str(out)]) == 0
    found, expected = pl.read_csv(out), pl.read_csv(FIXTURE / PREDICTIONS)
    assert found.columns == expected.columns
    assert found["city_prediction"].to_list() == expected["city_prediction"].to_list()
    assert found["price_prediction"].to_list() == pytest.approx(expected["price_prediction"].to_list(), rel=1e-5)
    assert "20 predictions of price, city" in capsys.readouterr().err


def hostile() -> dict[str, tuple[dict[str, bytes], str]]:
    """Changed members of a bundle, and words of the error, by what is wrong."""
    content = members(WHOLE)
    first, second = (name for name in sorted(content) if name.startswith("targets/"))
    manifest = json.loads(content[MANIFEST])
    swapped = [{**each, "path": path} for each, path in zip(manifest["targets"], (second, first), strict=True)]
    twice = [manifest["targets"][0]] * 2
    listed = manifest["members"]
    return {
        "a byte of a bundle": (
            {**content, first: content[first][:900] + b"\0\1" + content[first][902:]},
            "does not match",
        ),
        "a missing bundle": ({name: data for name, data in content.items() if name != first}, "missing"),
        "an unlisted bundle": ({**content, "targets/3-x.tabapp": b"x"}, "does not list"),
        "a path outside": ({**content, "../x.tabapp": b"x"}, "not allowed"),
        "swapped targets": (changed(content, targets=swapped), "predicts"),
        "a target twice": (changed(content, targets=twice), "inconsistent"),
        "no target": (changed(content, targets=[]), "inconsistent"),
        "fewer targets than bundles": (changed(content, targets=manifest["targets"][:1]), "inconsistent"),
        "a list of numbers": (changed(content, targets=[1, 2]), "not valid"),
        "an unknown field": (changed(content, code="import os"), "code"),
        "a newer version": (changed(content, format_version=TARGETS_VERSION + 1), "Update tabapp"),
        "no version": (changed(content, format_version=0), "does not exist"),
        "a bundle of another kind": (
            changed(content, members=[{**each, "kind": "model"} for each in listed]),
            "inconsistent",
        ),
    }


@pytest.mark.parametrize("name", hostile())
def test_a_changed_bundle_is_rejected_in_one_sentence(name, tmp_path, capsys):
    content, words = hostile()[name]
    path = write(tmp_path / "bad.tabapp", content)
    assert run_command_line(["predict", str(path), str(FIXTURE / ROWS)]) == 5
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_link_is_rejected(tmp_path):
    content = members(WHOLE)
    path = write(tmp_path / "bad.tabapp", content, link=next(iter(content)))
    with pytest.raises(BundleError, match="not a plain file"), target_files(path):
        pass


def test_a_bundle_in_a_bundle_of_targets_has_one_target(tmp_path):
    """Bundles of several targets are not nested."""
    import hashlib

    content = members(WHOLE)
    manifest = json.loads(content[MANIFEST])
    inner = WHOLE.read_bytes()
    target = manifest["targets"][0]
    listed = [
        {**each, "bytes": len(inner), "sha256": hashlib.sha256(inner).hexdigest()}
        if each["path"] == target["path"]
        else each
        for each in manifest["members"]
    ]
    path = write(tmp_path / "bad.tabapp", {**changed(content, members=listed), target["path"]: inner})
    with (
        pytest.raises(BundleError, match=r"bad\.tabapp \(target 'price'\) predicts several targets"),
        target_files(path),
    ):
        pass


def test_other_commands_name_the_way_to_one_target(tmp_path, capsys):
    assert run_command_line(["explain", str(WHOLE), str(FIXTURE / ROWS)]) == 5
    assert "tabapp export" in capsys.readouterr().err
    one = tmp_path / "one.tabapp"
    assert run_command_line(["export", str(WHOLE), "--target", "price", "-o", str(one)]) == 0
    assert open_bundle(one).manifest.target == "price"
