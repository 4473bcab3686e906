"""Custom keys: the section `[keys]` of the configuration, checked against the known actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.settings import Settings, settings_file
from tabapp.tui.chrome.actions import ACTIONS, REMAPPED

if TYPE_CHECKING:
    from textual.app import App


def check_keys(settings: Settings) -> dict[str, str]:
    """Keys by action id, in the format of Textual's keymap.

    Raises:
        UsageError: an id is unknown (the nearest one is suggested), or two actions of one screen would share a key.
    """
    known = {action.id for action in ACTIONS}
    for name in settings.keys:
        if name not in known:
            hint = did_you_mean(name, known) or "; docs/guide/terminal.md lists the actions."
            raise UsageError(f"The configuration {settings_file()} is not valid: there is no action {name!r}{hint}")
    taken: dict[tuple[str, str, str], str] = {}
    for action in ACTIONS:
        keys = settings.keys.get(action.id, action.keys)
        for key in (part.strip() for part in keys.split(",")):
            for phase in action.phases:
                other = taken.setdefault((action.scope, phase, key), action.id)
                if other != action.id and (action.id in settings.keys or other in settings.keys):
                    raise UsageError(
                        f"The configuration {settings_file()} is not valid: {key!r} would be the key of both "
                        f"{other!r} and {action.id!r}."
                    )
    return dict(settings.keys)


def use_keys(app: App[Any], settings: Settings) -> None:
    """Apply the configuration's keys to the bindings and wherever keys are shown.

    Raises:
        UsageError: as `check_keys`.
    """
    keys = check_keys(settings)
    REMAPPED.clear()
    REMAPPED.update(keys)
    app.set_keymap(keys)
