"""`export --sign`, and `--trust` of the commands that read a bundle."""

from __future__ import annotations

import json
import shutil

import pytest

from tabapp.api.runs import Run
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import BundleError, UsageError
from tests.bundle.making import make_contents, register_linear, text_table
from tests.tui import recordings

pytest.importorskip("cryptography", reason="the extra `sign` is not installed")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("bundle")
        write_bundle(folder / "model.tabapp", make_contents(folder))
        return folder / "model.tabapp"


@pytest.fixture
def run(bundle, tmp_path, monkeypatch):
    """A finished run with a bundle."""
    register_linear(monkeypatch)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    folder = recordings.make_run(tmp_path / "runs")
    recordings.Recorder(folder).write(*recordings.finished())
    shutil.copy(bundle, folder.bundle)
    return folder


@pytest.fixture
def keys(tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, private, public = Ed25519PrivateKey.generate(), tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return str(private), str(public)


@pytest.fixture
def signed(run, keys, tmp_path, capsys):
    path = tmp_path / "signed.tabapp"
    assert run_command_line(["export", "last", "-o", str(path), "--sign", keys[0]]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    return str(path)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.csv"
    text_table("binary", n_rows=30, seed=7).write_csv(path)
    return str(path)


def sentence(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


def test_a_signed_bundle_is_used_with_its_key(signed, keys, data, capsys):
    assert run_command_line(["predict", signed, data, "--trust", keys[1]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 31
    assert run_command_line(["inspect", signed, "--trust", keys[1]]) == 0
    assert f"by {keys[1]}" in " ".join(capsys.readouterr().out.split())
    assert run_command_line(["inspect", signed]) == 0
    assert "not checked; --trust PUBKEY checks it" in " ".join(capsys.readouterr().out.split())


def test_inspect_reports_the_signature_as_json(signed, bundle, keys, capsys):
    for arguments, expected in (
        ([signed], (True, None)),
        ([signed, "--trust", keys[1]], (True, keys[1])),
        ([str(bundle)], (False, None)),
    ):
        assert run_command_line(["inspect", *arguments, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["signed"], facts["signed_by"]) == expected


def test_every_command_rejects_a_bundle_that_the_key_has_not_signed(bundle, keys, data, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    for command in (
        ["predict", str(bundle), data],
        ["predict", str(bundle), data, "--check"],
        ["evaluate", str(bundle), data],
        ["inspect", str(bundle)],
        ["impute", data, "-o", out, "--model", str(bundle)],
    ):
        assert run_command_line([*command, "--trust", keys[1]]) == 5, command
        assert "has no signature" in sentence(capsys)
    assert not (tmp_path / "out.csv").exists()


def test_keys_that_cannot_be_used_are_exit_code_2(run, bundle, keys, data, tmp_path, capsys):
    missing, out = str(tmp_path / "missing.pem"), str(tmp_path / "out.tabapp")
    for command in (
        ["predict", str(bundle), data, "--trust", missing],
        ["predict", str(bundle), data, "--trust", keys[0]],
        ["export", "last", "-o", out, "--sign", missing],
        ["export", "last", "-o", out, "--sign", keys[1]],
        ["export", "last", "-o", f"{missing}/out.tabapp", "--sign", keys[0]],
        ["impute", data, "-o", str(tmp_path / "out.csv"), "--trust", keys[1]],
    ):
        assert run_command_line(command) == 2, command
        sentence(capsys)
    assert not (tmp_path / "out.tabapp").exists()


def test_an_encrypted_key_without_a_terminal_is_a_sentence(run, keys, tmp_path, capsys):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    encrypted = tmp_path / "encrypted.pem"
    encryption = form.BestAvailableEncryption(b"secret")
    key = Ed25519PrivateKey.generate().private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)
    encrypted.write_bytes(key)
    assert run_command_line(["export", "last", "-o", str(tmp_path / "out.tabapp"), "--sign", str(encrypted)]) == 2
    assert "asks for its passphrase" in sentence(capsys)


def test_the_python_api_signs_and_trusts(run, bundle, keys, tmp_path):
    import tabapp

    path = Run(run).export(tmp_path / "api.tabapp", sign=keys[0])
    assert len(tabapp.load(path, trust=keys[1]).predict(text_table("binary", n_rows=5))) == 5
    with pytest.raises(BundleError, match="has no signature"):
        tabapp.load(bundle, trust=keys[1])
    with pytest.raises(UsageError, match="cannot be read"):
        Run(run).export(tmp_path / "other.tabapp", sign=tmp_path / "missing.pem")
