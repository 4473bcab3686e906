"""Plans that come from elsewhere or go there: presets, the user's editor, and pasted commands."""

from __future__ import annotations

import os
import shlex
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from tabapp.errors import TabappError, UsageError, option
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.places import is_same_file
from tabapp.run.options.plan_file import columns_named, defaults, plan_toml, read_plan
from tabapp.run.protocol.child import start_child
from tabapp.run.protocol.pasted import MODULE, PASTED, Rejected
from tabapp.temporary import TemporaryFolder
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Option
from tabapp.tui.session.host import Host
from tabapp.tui.session.plan.editing import PlanEditing
from tabapp.tui.session.plan.presets import check_name, delete_preset, load_preset, preset_names, save_preset
from tabapp.tui.viewmodels.plan_fields import NOT_ON_SCREEN

SAVE, DELETE = "save", "delete"


class PlanExchange:
    """Fills the plan from a preset, an editor or a command, and saves it as a preset."""

    def __init__(self, app: Host, plan: PlanEditing) -> None:
        self._app = app
        self._plan = plan

    def _warn(self, error: TabappError | str) -> None:
        self._app.notify(str(error), title="The plan is unchanged", severity="warning", timeout=8)

    # -- presets ------------------------------------------------------------------------------------------------------

    def choose_preset(self) -> None:
        """Ask which preset to use, or to save or delete one."""
        names = preset_names()
        options = [Option(f"use {name}", name, "replaces the options that it sets") for name in names]
        options.append(Option(SAVE, "save this plan as a preset…"))
        if names:
            options.append(Option(DELETE, "delete a preset…"))
        self._app.push_screen(Choice("Presets of plans", options), self._chosen)

    def _chosen(self, answer: str | None) -> None:
        if answer == SAVE:
            dialog = Ask(
                "Save the plan as a preset",
                "A name. The preset has all options that differ from their defaults.",
                "",
                check_name,
            )
            self._app.push_screen(dialog, lambda name: self._save(name) if name else None)
        elif answer == DELETE:
            options = [Option(name, name) for name in preset_names()]
            self._app.push_screen(Choice("Delete a preset", options), lambda name: self._delete(name) if name else None)
        elif answer:
            self.use_preset(answer.removeprefix("use "))

    def _save(self, name: str) -> None:
        if name not in preset_names():
            self._write(name)
            return
        question = f"There is a preset {name}. Replace it?"
        options = [Option("replace", "Replace it", key="r")]
        self._app.push_screen(
            Decision("Save the plan as a preset", question, options),
            lambda answer: self._write(name) if answer == "replace" else None,
        )

    def _write(self, name: str) -> None:
        try:
            path = save_preset(name, self._app.planning.config)
        except UsageError as error:
            self._app.notify(str(error), severity="error")
        else:
            self._app.notify(f"Saved the preset {name} to {path}.")

    def _delete(self, name: str) -> None:
        try:
            delete_preset(name)
        except UsageError as error:
            self._app.notify(str(error), severity="error")
        else:
            self._app.notify(f"Deleted the preset {name}.")

    def use_preset(self, name: str) -> None:
        """Set the options of a preset. Those that name columns which the table lacks are left out."""
        try:
            found = load_preset(name)
            self._check_tables(found)
        except TabappError as error:
            self._warn(error)
            return
        schema = self._app.snapshot().state.schema
        present = {column.name for column in schema.columns} if schema is not None else set[str]()
        absent = [field for field, columns in columns_named(found).items() if not present.issuperset(columns)]
        for field in absent:
            del found[field]
        if absent:
            names = {option.field: option.name for option in OPTIONS.values()}
            flags = ", ".join(option(names[field]) for field in absent)
            self._app.notify(f"The table has other columns, so the preset does not set {flags}.", severity="warning")
        self._plan.change(found)

    # -- the editor ---------------------------------------------------------------------------------------------------

    def edit_as_text(self, app: App[Any], text: str | None = None) -> None:
        """Open the plan in $EDITOR, and use what it saves.

        Args:
            text: of an earlier attempt that was not valid.
        """
        before = plan_toml(self._app.planning.config, tuple(NOT_ON_SCREEN))
        try:
            with TemporaryFolder("plan") as folder:
                file = Path(folder) / "plan.toml"
                file.write_text(before if text is None else text, encoding="utf-8")
                with app.suspend():
                    problem = _edit(file)
                after = file.read_text(encoding="utf-8")
        except SuspendNotSupported:
            self._warn("There is no terminal for an editor here.")
            return
        except (OSError, UnicodeDecodeError) as error:
            self._warn(f"The plan cannot be edited: {error}.")
            return
        app.refresh(layout=True)
        if problem:
            self._warn(problem)
        elif after != before:
            self._use_text(app, after)

    def _use_text(self, app: App[Any], text: str) -> None:
        try:
            found = read_plan(text, "The edited plan")
            self._check_tables(found)
        except TabappError as error:
            self._ask_again(app, text, str(error))
            return
        kept = {OPTIONS[name].field for name in NOT_ON_SCREEN}
        options = {field: value for field, value in {**defaults(), **found}.items() if field not in kept}
        self._plan.change(options, lambda refusal: self._ask_again(app, text, refusal) if refusal else None)

    def _ask_again(self, app: App[Any], text: str, reason: str) -> None:
        options = [Option("edit", "Edit it again", key="e")]
        self._app.push_screen(
            Decision("The plan is unchanged", reason, options, stay="Discard the text"),
            lambda answer: self.edit_as_text(app, text) if answer == "edit" else None,
        )

    # -- a pasted command ---------------------------------------------------------------------------------------------

    async def use_command(self, text: str) -> None:
        """Fill the plan from a command that starts a run. A process with the command line's own parser reads it."""
        try:
            process = await start_child(MODULE, stdin=PIPE)
            output, _ = await process.communicate(text.encode())
            answer = PASTED.decode(output)
        except (OSError, UsageError) as error:
            self._warn(f"The pasted command cannot be read: {error}.")
            return
        if isinstance(answer, Rejected):
            self._warn(answer.message)
            return
        config = self._app.planning.config
        kept = {OPTIONS[name].field for name in NOT_ON_SCREEN}
        unlike = [name for name in kept if answer.options[name] != getattr(config, name)]
        if unlike:
            self._warn(f"{option(unlike[0])} is chosen when a run is created. Start tabapp with the pasted command.")
            return
        options = {field: value for field, value in answer.options.items() if field not in kept}
        self._plan.change(options, self._say_pasted if is_same_file(answer.data, config.data) else self._say_other)

    def _say_pasted(self, refusal: str) -> None:
        if refusal:
            self._warn(refusal)
        else:
            self._app.notify("The plan is that of the pasted command. u undoes it.", timeout=5)

    def _say_other(self, refusal: str) -> None:
        if refusal:
            self._warn(refusal)
        else:
            self._app.notify(
                "The pasted command is for another table; its options apply to this one. u undoes them.",
                severity="warning",
                timeout=8,
            )

    def _check_tables(self, found: dict[str, Any]) -> None:
        """Check files that are named, and give them whole paths.

        Raises:
            TabappError: a file does not exist.
        """
        for each in OPTIONS.values():
            path = found.get(each.field)
            if each.completion in ("tables", "files") and path:
                found[each.field] = self._plan.checked(each, str(path))


def _edit(file: Path) -> str:
    """Run the user's editor on a file; returns why it failed, or an empty text."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(command), str(file)], check=False).returncode
    except (OSError, ValueError) as error:
        return f"The editor {command!r} cannot be started: {error}. Set EDITOR to another one."
    return f"The editor {command!r} ended with code {code}." if code else ""
