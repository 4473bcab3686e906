"""The user's own keys, theme and bell, and where copied text goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabapp.errors import UsageError
from tabapp.run.options.settings import Settings
from tabapp.tui.chrome import clipboard
from tabapp.tui.chrome.actions import ACTIONS, REMAPPED
from tabapp.tui.chrome.keymap import check_keys, use_keys
from tabapp.tui.chrome.theme import check_theme, use_theme


@pytest.fixture(autouse=True)
def forget_keys():
    yield
    REMAPPED.clear()


class Seen:
    """What `use_keys` and `use_theme` ask of an app."""

    def __init__(self) -> None:
        self.keymap, self.theme, self.registered = {}, "", []

    def set_keymap(self, keymap):
        self.keymap = keymap

    def register_theme(self, theme):
        self.registered.append(theme.name)


def test_keys_replace_those_of_the_action_wherever_they_are_shown() -> None:
    seen, pause = Seen(), next(action for action in ACTIONS if action.id == "run.pause")
    before = pause.shown_key
    use_keys(seen, Settings(keys={"run.pause": "f5,ctrl+y"}))
    assert seen.keymap == {"run.pause": "f5,ctrl+y"}
    assert pause.shown_key == "f5" != before
    use_keys(seen, Settings())
    assert pause.shown_key == before


def test_every_action_can_have_another_key() -> None:
    for action in ACTIONS:
        assert check_keys(Settings(keys={action.id: "f12"})) == {action.id: "f12"}


def test_no_two_actions_of_a_screen_have_one_key_from_the_start() -> None:
    assert check_keys(Settings(keys={action.id: action.keys for action in ACTIONS})) is not None


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'run\\.pause'"):
        check_keys(Settings(keys={"run.puse": "f5"}))
    with pytest.raises(UsageError, match="did you mean 'ansi-dark'"):
        check_theme(Settings(theme="ansi-drak"))


def test_the_theme_of_the_configuration_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    seen = Seen()
    use_theme(seen, Settings())
    assert seen.theme == ""
    use_theme(seen, Settings(theme="textual-light"))
    assert seen.theme == "textual-light"
    monkeypatch.delenv("TEXTUAL_THEME")
    use_theme(seen, Settings())
    assert seen.theme == "tabapp"


class Notified:
    def __init__(self) -> None:
        self.titles: list[str] = []

    def notify(self, text, *, title, markup):
        self.titles.append(title)


async def test_what_is_copied_goes_to_the_system_or_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, file, pasted = Notified(), tmp_path / "cache" / "copied.txt", tmp_path / "pasted"
    monkeypatch.setattr(clipboard, "copies_file", lambda: file)
    monkeypatch.setattr(clipboard, "clipboard_command", lambda: None)
    await clipboard.copy_to_system(app, "tabapp data.csv — é")
    assert file.read_text() == "tabapp data.csv — é"
    monkeypatch.setattr(clipboard, "clipboard_command", lambda: ["sh", "-c", f"cat > {pasted}"])
    await clipboard.copy_to_system(app, "two")
    assert pasted.read_text() == "two"
    monkeypatch.setattr(clipboard, "clipboard_command", lambda: ["sh", "-c", "exit 1"])
    await clipboard.copy_to_system(app, "three")
    assert file.read_text() == "three"
    assert app.titles == [
        f"Copied to the terminal's clipboard and {file}", "Copied to the clipboard",
        f"Copied to the terminal's clipboard and {file}",
    ]  # fmt: skip


def test_the_clipboard_of_the_far_end_of_ssh_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert clipboard.clipboard_command() is not None
    monkeypatch.setenv("SSH_CONNECTION", "a b c d")
    assert clipboard.clipboard_command() is None
