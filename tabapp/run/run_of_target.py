"""The run of one target, for commands that work on a single one."""

from __future__ import annotations

from tabapp.column_names import ColumnNames
from tabapp.errors import UsageError, option
from tabapp.run.record.folder import RunFolder


def run_of_target(folder: RunFolder, target: str | None) -> RunFolder:
    """The run of one target of a run with several; the run itself if it has a single target.

    Raises:
        UsageError: the run has several targets, and `target` is none of them.
    """
    state = folder.state()
    runs = {view.target: folder.path / view.folder for view in state.targets if view.folder}
    own = None if state.plan is None else state.plan.target
    if target is not None:
        target = ColumnNames(runs or ([] if own is None else [own])).one(target)
    if not runs and target in (None, own):
        return folder
    if target not in runs:
        shown = f"its targets are {', '.join(map(repr, runs))}" if runs else "it has a single target"
        raise UsageError(f"Choose a target of the run {folder.run} with {option('target')}; {shown}.")
    return RunFolder(runs[target])
