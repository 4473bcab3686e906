"""Signed bundles: keys of OpenSSL and ssh-keygen, and every way in which a signature does not match."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest

from tabapp.bundle.files import signature
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.files.signing import write_signed
from tabapp.bundle.prediction.load import load_bundle
from tabapp.errors import BundleError, UsageError
from tests.bundle.test_load import change_record, members_of, with_manifest, write_zip

pytest.importorskip("cryptography", reason="the extra `sign` is not installed")
openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def call(*command, **options):
    subprocess.run(list(map(str, command)), check=True, capture_output=True, **options)


def openssl_keys(folder, algorithm="ed25519", *more):
    private, public = folder / f"{algorithm}.pem", folder / f"{algorithm}.pub.pem"
    call("openssl", "genpkey", "-algorithm", algorithm, "-out", private, *more)
    call("openssl", "pkey", "-in", private, "-pubout", "-out", public)
    return private, public


def ssh_keys(folder, passphrase=""):
    private = folder / "id"
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", private)
    return private, folder / "id.pub"


@pytest.fixture
def keys(tmp_path):
    """A pair of keys made by cryptography itself, in PEM."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, private, public = Ed25519PrivateKey.generate(), tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def signed(bundles, keys, tmp_path):
    write_signed(bundles["binary"], tmp_path / "signed.tabapp", keys[0])
    return tmp_path / "signed.tabapp"


def assert_not_trusted(path, key, match):
    with pytest.raises(BundleError, match=match) as caught:
        open_bundle(path, trust=key)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert str(key) in str(caught.value)


def test_a_signed_bundle_is_trusted_and_otherwise_the_same(bundles, signed, keys):
    contents = open_bundle(signed, trust=keys[1])
    assert contents.is_signed
    assert load_bundle(signed).drift == 0
    members = members_of(signed)
    assert len(members.pop("manifest.sig")) == 64
    assert members == members_of(bundles["binary"])
    assert not open_bundle(bundles["binary"]).is_signed


def test_equal_bundles_have_equal_signatures(bundles, signed, keys, tmp_path):
    write_signed(bundles["binary"], tmp_path / "again.tabapp", keys[0])
    assert (tmp_path / "again.tabapp").read_bytes() == signed.read_bytes()


@openssl
def test_keys_of_openssl(bundles, tmp_path):
    private, public = openssl_keys(tmp_path)
    write_signed(bundles["binary"], tmp_path / "signed.tabapp", private)
    assert open_bundle(tmp_path / "signed.tabapp", trust=public).is_signed


@openssl
def test_openssl_verifies_a_signature(signed, keys, tmp_path):
    with zipfile.ZipFile(signed) as archive:
        archive.extractall(tmp_path / "members")
    files = ["-in", tmp_path / "members/manifest.json", "-sigfile", tmp_path / "members/manifest.sig"]
    call("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", keys[1], "-rawin", *files)


@ssh_keygen
@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_keys_of_ssh_keygen(bundles, tmp_path, passphrase):
    private, public = ssh_keys(tmp_path, passphrase)
    write_signed(bundles["binary"], tmp_path / "signed.tabapp", private, lambda: passphrase)
    assert open_bundle(tmp_path / "signed.tabapp", trust=public).is_signed


@openssl
@ssh_keygen
@pytest.mark.parametrize("program", ["openssl", "ssh-keygen"])
def test_an_encrypted_key_needs_its_passphrase(bundles, tmp_path, program):
    if program == "openssl":
        private, _ = openssl_keys(tmp_path)
        call("openssl", "pkcs8", "-topk8", "-in", private, "-out", tmp_path / "id", "-passout", "pass:right")
    else:
        ssh_keys(tmp_path, "right")
    for passphrase, match in ((None, "is encrypted"), (lambda: "wrong", "cannot be decrypted")):
        with pytest.raises(UsageError, match=match):
            write_signed(bundles["binary"], tmp_path / "a.tabapp", tmp_path / "id", passphrase)
    write_signed(bundles["binary"], tmp_path / "a.tabapp", tmp_path / "id", lambda: "right")


def test_a_bundle_without_a_signature_is_not_trusted(bundles, keys):
    assert_not_trusted(bundles["binary"], keys[1], "has no signature")


def test_a_signature_by_another_key_is_not_trusted(bundles, keys, tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    other = tmp_path / "other.pem"
    other.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    write_signed(bundles["binary"], tmp_path / "a.tabapp", other)
    assert_not_trusted(tmp_path / "a.tabapp", keys[1], "signature does not match")


def test_any_change_with_correct_checksums_breaks_the_signature(signed, keys, tmp_path):
    members = members_of(signed)
    changes = {
        "schema": change_record(members, "schema.json", lambda schema: schema["columns"][0].update(missing=99)),
        "manifest": with_manifest(members, lambda manifest, members: manifest.update(name="other")),
        "sample": with_manifest(members, lambda manifest, members: members.update({"sample.csv": b"size\n1\n"})),
        "signature": {**members, "manifest.sig": bytes(64)},
    }
    for changed in changes.values():
        assert_not_trusted(write_zip(tmp_path / "a.tabapp", changed.items()), keys[1], "signature does not match")
    damaged = {**members, "schema.json": members["schema.json"] + b" "}
    with pytest.raises(BundleError, match=r"'schema.json' .* does not match manifest"):
        open_bundle(write_zip(tmp_path / "a.tabapp", damaged.items()), trust=keys[1])


@pytest.mark.parametrize("size", [0, 63, 65, 10**6])
def test_a_signature_of_another_size_is_refused_without_a_key_too(signed, keys, tmp_path, size):
    path = write_zip(tmp_path / "a.tabapp", {**members_of(signed), "manifest.sig": b"x" * size}.items())
    for trust in (None, keys[1]):
        with pytest.raises(BundleError, match=f"has {size:,} bytes instead of 64"):
            open_bundle(path, trust=trust)


def test_a_member_cannot_be_called_like_the_signature(signed, keys, tmp_path):
    def list_it(manifest, members):
        manifest["members"].append({"path": "manifest.sig", "kind": "card", "bytes": 64, "sha256": ""})

    path = write_zip(tmp_path / "a.tabapp", with_manifest(members_of(signed), list_it).items())
    with pytest.raises(BundleError, match=r"manifest\.sig"):
        open_bundle(path)


def test_a_signed_bundle_is_not_signed_again(signed, keys, tmp_path):
    with pytest.raises(UsageError, match="has a signature already"):
        write_signed(signed, tmp_path / "again.tabapp", keys[0])


def test_a_damaged_bundle_is_not_signed(bundles, keys, tmp_path):
    members = members_of(bundles["binary"])
    path = write_zip(tmp_path / "a.tabapp", {**members, "schema.json": members["schema.json"] + b" "}.items())
    with pytest.raises(BundleError, match="does not match"):
        write_signed(path, tmp_path / "signed.tabapp", keys[0])
    assert not (tmp_path / "signed.tabapp").exists()


KEY_FILES = {"empty": b"", "text": b"hello", "pem": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
             "private pem": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
             "openssh": b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
             "line": b"ssh-ed25519 AAAA", "bytes": bytes(range(256)), "large": b"a" * 10**6}  # fmt: skip


@pytest.mark.parametrize("name", KEY_FILES)
def test_files_that_are_no_keys_are_refused_in_a_sentence(bundles, tmp_path, name):
    key = tmp_path / "key"
    key.write_bytes(KEY_FILES[name])
    for read in (lambda: open_bundle(bundles["binary"], trust=key), lambda: signature.read_private_key(key)):
        with pytest.raises(UsageError) as caught:
            read()
        assert str(key) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_keys_that_cannot_be_read_are_refused_in_a_sentence(bundles, tmp_path):
    for key in (tmp_path / "missing", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            open_bundle(bundles["binary"], trust=key)


def test_a_private_key_is_no_public_key_and_the_reverse(bundles, keys):
    with pytest.raises(UsageError, match="is a private key, but a public one is needed"):
        open_bundle(bundles["binary"], trust=keys[0])
    with pytest.raises(UsageError, match="is not a private key"):
        signature.read_private_key(keys[1])


@openssl
def test_other_kinds_of_keys_are_refused(bundles, tmp_path):
    for algorithm, *more in (("x25519",), ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")):
        private, public = openssl_keys(tmp_path, algorithm, *more)
        with pytest.raises(UsageError, match="is not an Ed25519 key"):
            signature.read_private_key(private)
        with pytest.raises(UsageError, match="is not an Ed25519 key"):
            open_bundle(bundles["binary"], trust=public)


def test_without_the_package_the_sentence_names_the_extra(bundles, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"tabapp\[sign\]"):
        open_bundle(bundles["binary"], trust=keys[1])
