"""No file that differs from the manifest is loaded, and every problem is reported in one sentence."""

import hashlib
import json
import random
import warnings
import zipfile

import msgspec
import numpy as np
import pytest

from tabapp.bundle.files import archive as archive_module
from tabapp.bundle.files import archive_checks
from tabapp.bundle.files.archive_checks import is_safe_path
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.files.records import TARGETS_VERSION
from tabapp.bundle.prediction.load import _difference, load_bundle
from tabapp.errors import BundleError


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path, members):
    """Write (name, content) pairs, including duplicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
    return path


def with_manifest(members, change):
    """The members with a manifest that lists them correctly, after `change(manifest, members)`."""
    manifest = json.loads(members["manifest.json"])
    members = dict(members)
    change(manifest, members)
    for listed in manifest["members"]:
        content = members.get(listed["path"])
        if content is not None:
            listed["bytes"], listed["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    members["manifest.json"] = json.dumps(manifest).encode()
    return members


def assert_rejected(path, match=None):
    """Opening and loading both fail with one sentence that names the file, before any loader is called."""

    def fail(*_, **__):
        raise AssertionError("a loader was reached")

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("tabapp.bundle.prediction.load.load_predictor", fail)
        with pytest.raises(BundleError) as caught:
            open_bundle(path)
        with pytest.raises(BundleError) as caught_again:
            load_bundle(path)
    assert str(caught.value) == str(caught_again.value)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    assert sentence.endswith(".")
    if match:
        assert match in sentence


@pytest.fixture
def members(bundles):
    return members_of(bundles["binary"])


@pytest.fixture
def place(tmp_path):
    return tmp_path / "changed.tabapp"


def damages(content, generator):
    """Ways to damage the bytes of a member, by name."""
    position = generator.randrange(len(content))
    flipped = bytearray(content)
    flipped[position] ^= 1 << generator.randrange(8)
    return {
        "cut in half": content[: len(content) // 2],
        "last byte lost": content[:-1],
        "one bit flipped": bytes(flipped),
        "emptied": b"",
        "doubled": content * 2,
        "zeroed": bytes(len(content)),
    }


def test_untouched_copy_is_accepted(members, place):
    contents = open_bundle(write_zip(place, members.items()))
    assert contents.manifest.target == "outcome"
    assert contents.schema.task == "binary"


def test_every_member_damaged_in_every_way_is_rejected(members, place):
    generator = random.Random(0)
    for name, content in members.items():
        for damage, changed in damages(content, generator).items():
            if name == "manifest.json" and damage in ("one bit flipped", "last byte lost"):
                continue  # the manifest has no checksum, and its last byte is a newline
            assert_rejected(write_zip(place, {**members, name: changed}.items()), name)


def test_every_member_removed_or_renamed_is_rejected(members, place):
    for name in members:
        rest = {key: content for key, content in members.items() if key != name}
        assert_rejected(write_zip(place, rest.items()), name)
        assert_rejected(write_zip(place, {**rest, f"{name}.bak": members[name]}.items()), name)


def test_member_that_is_not_listed_is_rejected(members, place):
    assert_rejected(write_zip(place, {**members, "models/extra.json": b"{}"}.items()), "models/extra.json")


def test_swapped_members_are_rejected(members, place):
    one, two = "models/test_linear-0/0/coefficients.json", "models/test_linear-0/1/coefficients.json"
    assert_rejected(write_zip(place, {**members, one: members[two], two: members[one]}.items()), one)


NAMES = [
    *(
        "../escaped.txt",
        "/absolute.txt",
        "models/../../escaped",
        "models//double",
        "./here",
        "models/.",
        "..",
        "C:/windows",
    ),
    *(
        "back\\slash",
        "models/",
        "nul\0byte",
        "new\nline",
        "spa ce",
        ".hidden",
        "-rf",
        "ümlaut",
        "a" * 200,
        "a/" * 300 + "a",
    ),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_unsafe_names_are_rejected_even_if_listed(members, place, name):
    def add(manifest, members):
        manifest["members"].append({"path": name, "kind": "model", "bytes": 0, "sha256": ""})
        members[name] = b"x"

    assert not is_safe_path(name)
    assert_rejected(write_zip(place, with_manifest(members, add).items()))


def test_duplicate_name_is_rejected_ignoring_case(members, place):
    assert_rejected(write_zip(place, [*members.items(), ("schema.json", members["schema.json"])]), "schema.json")
    assert_rejected(write_zip(place, [*members.items(), ("SCHEMA.json", members["schema.json"])]), "two members named")


def test_file_used_as_a_folder_is_rejected(members, place):
    assert_rejected(write_zip(place, {**members, "models": b"x"}.items()), "inside another member")


def test_member_listed_twice_is_rejected(members, place):
    def change(manifest, members):
        manifest["members"].append(manifest["members"][0])

    assert_rejected(write_zip(place, with_manifest(members, change).items()), "twice")


def test_symbolic_links_and_encryption_are_rejected(members, place):
    write_zip(place, [(name, content) for name, content in members.items() if name != "sample.csv"])
    with zipfile.ZipFile(place, "a") as archive:
        info = zipfile.ZipInfo("sample.csv")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    assert_rejected(place, "plain file")

    data = bytearray(write_zip(place, members.items()).read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 8] |= 1
    place.write_bytes(data)
    assert_rejected(place, "encrypted")


def test_unknown_compression_is_rejected(members, place):
    with zipfile.ZipFile(place, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert_rejected(place, "compression method")


def test_zip_bombs_are_rejected_by_their_declared_size(members, place, monkeypatch):
    bomb = {**members, "models/zeros": bytes(70 * 2**20)}
    assert_rejected(write_zip(place, bomb.items()), "unpack")
    monkeypatch.setattr(archive_checks, "MAX_BYTES", 1000)
    assert_rejected(write_zip(place, members.items()), "unpack")


def test_too_many_members_are_rejected(members, place, monkeypatch):
    monkeypatch.setattr(archive_checks, "MAX_MEMBERS", 5)
    assert_rejected(write_zip(place, members.items()), "members")


def test_member_with_a_wrong_declared_size_is_rejected(members, place):
    data = write_zip(place, members.items()).read_bytes()
    name = b"models/test_linear-0/0/coefficients.json"
    at = data.rfind(name) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    size = int.from_bytes(data[at + 24 : at + 28], "little")
    for wrong in (size - 1, size + 1, 0, 2**32 - 2):
        place.write_bytes(data[: at + 24] + wrong.to_bytes(4, "little") + data[at + 28 :])
        assert_rejected(place)


GARBAGE = [
    *(
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"format_version": "one"}',
        b'{"format_version": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
    ),
    *(b'{"format_version": 0}', b'{"format_version": -5}', b'{"format_version": 1e999}', b'"' + b"a" * 1000),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_invalid_manifest_is_rejected(members, place, garbage):
    assert_rejected(write_zip(place, {**members, "manifest.json": garbage}.items()), "manifest.json")


@pytest.mark.parametrize("member", ["schema.json", "ensemble.json"])
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_invalid_records_are_rejected_even_with_correct_checksums(members, place, member, garbage):
    changed = with_manifest(members, lambda manifest, members: members.update({member: garbage}))
    assert_rejected(write_zip(place, changed.items()), member)


def test_too_large_manifest_is_rejected(members, place, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_JSON_BYTES", 100)
    assert_rejected(write_zip(place, members.items()), "too large")


def test_bundle_of_a_later_format_asks_for_an_update(members, place):
    manifest = {"format_version": TARGETS_VERSION + 1, "created_by": "tabapp 9.0", "members": "elsewhere"}
    assert_rejected(write_zip(place, {**members, "manifest.json": json.dumps(manifest)}.items()), "Update tabapp")


def test_unknown_field_is_rejected_by_name(members, place):
    changed = with_manifest(members, lambda manifest, members: manifest.update(loader="os.system"))
    assert_rejected(write_zip(place, changed.items()), "loader")


def change_record(members, member, change):
    def edit(manifest, members):
        record = json.loads(members[member])
        change(record)
        members[member] = json.dumps(record).encode()

    return with_manifest(members, edit)


SCALE = {"predictions": [1.0, 2.0], "factors": [1.0, 2.0]}
SCALING = {"powers": [1.0, 1.0], "factors": [1.0, 1.0]}
CONTRADICTIONS = {
    "weights": ("ensemble.json", lambda e: e["candidates"][0].update(weight=5.0)),
    "negative weight": ("ensemble.json", lambda e: e["candidates"][0].update(weight=-0.25)),
    "no candidate": ("ensemble.json", lambda e: e.update(candidates=[])),
    "no fold": ("ensemble.json", lambda e: e["candidates"][0].update(folds=[])),
    "folder outside": ("ensemble.json", lambda e: e["candidates"][0]["folds"][0].update(model="../../etc")),
    "folder not held": ("ensemble.json", lambda e: e["candidates"][0]["folds"][0].update(features="features/999")),
    "too few half-widths": ("ensemble.json", lambda e: e.update(half_widths=[1.0, 2.0])),
    "half-widths that shrink": ("ensemble.json", lambda e: e.update(half_widths=[float(-i) for i in range(101)])),
    "a scale that falls": ("ensemble.json", lambda e: e.update(interval_scale=SCALE | {"predictions": [2.0, 1.0]})),
    "a scale without factors": ("ensemble.json", lambda e: e.update(interval_scale=SCALE | {"factors": [1.0]})),
    "a factor below 0": ("ensemble.json", lambda e: e.update(interval_scale=SCALE | {"factors": [1.0, -1.0]})),
    "a temperature of 0": ("ensemble.json", lambda e: e.update(temperature=0.0)),
    "a scaling beside a temperature": ("ensemble.json", lambda e: e.update(scaling=SCALING, temperature=0.8)),
    "a power of 0": ("ensemble.json", lambda e: e.update(scaling=SCALING | {"powers": [0.0, 1.0]})),
    "a power too few": ("ensemble.json", lambda e: e.update(scaling=SCALING | {"powers": [1.0]})),
    "a probability times 0": ("ensemble.json", lambda e: e.update(scaling=SCALING | {"factors": [1.0, 0.0]})),
    "another target": ("schema.json", lambda s: s.update(target="age")),
    "another task": ("schema.json", lambda s: s.update(task="regression")),
    "other classes": ("schema.json", lambda s: s.update(classes=["a", "b"])),
    "column twice": ("schema.json", lambda s: s["columns"].append(s["columns"][0])),
    "no feature": ("schema.json", lambda s: [c.update(role="ignore") for c in s["columns"] if c["role"] == "feature"]),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_inconsistent_bundle_is_rejected(members, place, name):
    member, change = CONTRADICTIONS[name]
    write_zip(place, change_record(members, member, change).items())
    assert_rejected(place, "is inconsistent")


def test_truncated_file_is_rejected_at_every_length(bundles, place):
    data = bundles["binary"].read_bytes()
    for share in range(0, 100, 4):
        place.write_bytes(data[: len(data) * share // 100])
        assert_rejected(place)
    place.write_bytes(data[:-1])
    assert_rejected(place)


def test_random_damage_never_crashes_and_is_always_detected(bundles, place):
    """Some bytes of zip headers have no effect; if a change is accepted, all members were still verified."""
    data, generator = bundles["binary"].read_bytes(), random.Random(1)
    sentences = []
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(generator.choice([1, 1, 8])):
            changed[generator.randrange(len(data))] = generator.randrange(256)
        place.write_bytes(changed)
        try:
            open_bundle(place)
        except BundleError as error:
            sentences.append(str(error))
    assert len(sentences) > 200
    assert not [sentence for sentence in sentences if "\n" in sentence]


@pytest.mark.parametrize("content", [b"", b"PK", b"hello", b"a,b\n1,2\n", bytes(1000)], ids=range(5))
def test_other_files_are_rejected(place, content):
    place.write_bytes(content)
    assert_rejected(place, "not a tabapp bundle")


def test_zip_without_manifest_missing_file_and_folder_are_rejected(tmp_path, place):
    assert_rejected(write_zip(place, [("data.csv", b"a,b\n")]), "manifest.json")
    assert_rejected(tmp_path / "missing.tabapp", "no bundle")
    assert_rejected(tmp_path, "Cannot read")


def test_plugin_that_is_not_installed_is_named(members, place):
    def rename(ensemble):
        ensemble["candidates"][0]["model"] = "mystery"

    write_zip(place, change_record(members, "ensemble.json", rename).items())
    assert open_bundle(place).ensemble.candidates[0].model == "mystery"
    with pytest.raises(BundleError, match="mystery"):
        load_bundle(place)


@pytest.mark.parametrize("name", ["os:system", "tabapp_plugins.mlp", "builtins.eval", "../x"])
def test_models_are_found_by_plugin_name_only(members, place, name):
    def rename(ensemble):
        ensemble["candidates"][0]["model"] = name

    write_zip(place, change_record(members, "ensemble.json", rename).items())
    with pytest.raises(BundleError, match="not usable here"):
        load_bundle(place)


def test_unknown_hyper_parameter_is_rejected(members, place):
    def add(ensemble):
        ensemble["candidates"][0]["params"]["surprise"] = 1

    write_zip(place, change_record(members, "ensemble.json", add).items())
    with pytest.raises(BundleError, match="surprise"):
        load_bundle(place)


@pytest.mark.parametrize("member", ["models/test_linear-0/0/coefficients.json", "features/000/features.json"])
def test_model_that_does_not_load_is_reported_in_one_sentence(members, place, member):
    changed = with_manifest(members, lambda manifest, members: members.update({member: b"[1, 2"}))
    write_zip(place, changed.items())
    with pytest.raises(BundleError, match="does not load") as caught:
        load_bundle(place)
    assert "\n" not in str(caught.value)


def test_model_that_predicts_differently_than_when_saved_is_rejected(members, place):
    name = "models/test_linear-0/0/coefficients.json"
    scaled = [[1.5 * value for value in row] for row in msgspec.json.decode(members[name])]
    changed = with_manifest(members, lambda manifest, members: members.update({name: msgspec.json.encode(scaled)}))
    write_zip(place, changed.items())
    with pytest.raises(BundleError, match="differently"):
        load_bundle(place)


def test_temporary_folder_is_removed(bundles, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    load_bundle(bundles["binary"])
    assert list(tmp_path.iterdir()) == []


def test_difference_of_probabilities_is_absolute():
    stored = np.array([[0.25, 0.75], [0.5, 0.5]])
    assert _difference(stored, stored, None) == 0
    assert _difference(stored + np.array([[0, 0.125], [0, 0]]), stored, None) == 0.125
    assert np.isnan(_difference(stored, stored * [[np.nan, 1]], None))


def test_difference_of_numbers_is_relative_to_their_spread_or_interval():
    stored = np.array([[10.0, 9.0, 11.0], [14.0, 13.0, 15.0]])
    assert _difference(stored + 1, stored, 1.0) == pytest.approx(1 / 4, rel=1e-5)
    assert _difference(stored + 1, stored, 100.0) == pytest.approx(1 / 100, rel=1e-5)
    assert _difference(stored * [[1, 1, np.nan]], stored * [[1, 1, np.nan]], 0.0) == 0
    assert np.isnan(_difference(stored, stored * [[1, np.inf, 1]], 1.0) * 0)


def test_rounding_to_float32_is_a_difference_only_in_bundles_that_predict_in_double_precision():
    """Two neighboring float32 numbers near 2**24 differ by 1, more than the whole spread of the predictions."""
    stored = np.array([[2.0**24, 2.0**24, 2.0**24]])
    assert _difference(stored + 2, stored, 0.5, is_single=True) == 0
    assert _difference(stored + 6, stored, 0.5, is_single=True) > 1
    assert _difference(stored + 2, stored, 0.5) == 4
