"""Dialogs for the labels of a run: its name, note, tags and pin."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tabapp.errors import TabappError
from tabapp.run.lists.description import RunDescription
from tabapp.run.record.labels import RunLabels, parse_name, parse_tags, read_labels, save_labels
from tabapp.tui.dialogs.basic import Ask
from tabapp.tui.session.next_run import Opener

Done = Callable[[], None]


def rename(app: Opener, run: RunDescription, done: Done) -> None:
    """Ask for the name of a run; an empty one restores the name of its start."""
    dialog = Ask(
        f"Rename {run.run}", "Its name in lists and commands; empty restores the first one.", run.name, parse_name
    )
    app.push_screen(dialog, lambda name: _save(app, run, done, name=name) if name is not None else None)


def write_note(app: Opener, run: RunDescription, done: Done) -> None:
    """Ask for the note of a run."""
    dialog = Ask(
        f"Note on {run.title}", "What this run tries, or what you learned from it.", run.labels.note, str.strip
    )
    app.push_screen(dialog, lambda note: _save(app, run, done, note=note) if note is not None else None)


def write_tags(app: Opener, run: RunDescription, done: Done) -> None:
    """Ask for the tags of a run."""
    dialog = Ask(
        f"Tags of {run.title}",
        "Words separated by spaces. The filter tag:WORD finds them.",
        " ".join(run.labels.tags),
        str.strip,
    )
    app.push_screen(dialog, lambda text: _save(app, run, done, tags=parse_tags(text)) if text is not None else None)


def pin(app: Opener, run: RunDescription, done: Done) -> None:
    """Pin a run to the top of lists, or unpin it."""
    pinned = not run.labels.pinned

    def say() -> None:
        # The mark of the open run, or of a marked one, takes the place of that of a pinned run.
        app.notify(f"The run is {'pinned to' if pinned else 'no longer at'} the top of the list.", timeout=3)
        done()

    _save(app, run, say, pinned=pinned)


def _save(app: Opener, run: RunDescription, done: Done, **changes: object) -> None:
    """Change the labels as they are now on disk; another view may have changed them meanwhile."""
    try:
        labels: RunLabels = msgspec.structs.replace(read_labels(run.folder.path), **changes)
        save_labels(run.folder.path, labels)
    except TabappError as error:
        app.notify(str(error), title="Not saved", severity="error", timeout=8)
        return
    done()
