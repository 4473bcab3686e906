from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabapp.errors import UsageError
from tabapp.run.options.settings import Settings, load_settings, settings_file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("TABAPP_CONFIG", str(path))
    monkeypatch.delenv("TABAPP_THEME", raising=False)
    return path


def test_missing_file_gives_defaults(file: Path) -> None:
    assert settings_file() == file
    assert load_settings() == Settings()


def test_default_path_is_in_the_platform_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TABAPP_CONFIG", raising=False)
    assert settings_file().parts[-2:] == ("tabapp", "config.toml")


def test_load_all_fields(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    general = 'theme = "nord"\nbell = true\ntrust = "~/key.pub"\n'
    file.write_text(general + '[keys]\n"run.pause" = "f5"\n[run]\nbudget = "2m"\nfolds = 3\n')
    assert load_settings() == Settings(
        theme="nord", bell=True, trust="~/key.pub", keys={"run.pause": "f5"}, run={"budget": "2m", "folds": 3}
    )
    monkeypatch.setenv("TABAPP_THEME", "dracula")
    assert load_settings().theme == "dracula"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# mine\nthme = 'x'\n", "line 2 sets 'thme', which is not a key; did you mean 'theme'?"),
        (
            "[colors]\nred = 1\n",
            "line 1 sets 'colors', which is not a key; the keys are theme, bell, trust, keys, run.",
        ),
        ("bell = 'loud'\n", "Expected bool, got str - at $.bell."),
        ("bell = \n", "is not TOML: Invalid value (at line 1, column 8)."),
    ],
)
def test_invalid_file_is_reported_in_one_sentence(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_settings()
    assert str(caught.value).endswith(sentence)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "is not valid: it is nested too deeply."),
        ("a = " + "1" * 5000, "is not TOML: Exceeds the limit"),
        ("#" * (1 << 20) + "\n", "has more than 1,048,576 bytes. Keep only its options."),
    ],
    ids=["deep", "digits", "large"],
)
def test_hostile_file_is_reported_in_one_sentence(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        load_settings()


@pytest.mark.parametrize("place", ["fifo", "folder", "/dev/zero"])
def test_a_configuration_is_a_regular_file(file: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Reading from the others would wait or never end."""
    if place == "fifo":
        os.mkfifo(file)
    elif place == "folder":
        file.mkdir()
    else:
        monkeypatch.setenv("TABAPP_CONFIG", place)
    with pytest.raises(UsageError, match="cannot be read: It is not a regular file"):
        load_settings()


def test_the_null_device_is_an_empty_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABAPP_CONFIG", os.devnull)
    assert load_settings() == Settings()


def test_unreadable_file_is_reported(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings()
