"""The space that unpacked bundles take, and the limit of their size."""

import pytest

from tabapp.bundle.files.archive_checks import LIMIT_VARIABLE, MAX_BYTES, chosen_limit
from tabapp.bundle.files.contents import open_bundle
from tabapp.errors import BundleError, UsageError
from tests.bundle.test_load import members_of, with_manifest, write_zip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_disk_without_space_is_a_sentence(bundles, place, monkeypatch):
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    from tabapp.bundle.prediction.load import load_bundle

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
