"""Which target of a run with several this view shows."""

from __future__ import annotations

import msgspec

from tabapp.run.record.folder import RunFolder
from tabapp.run.record.state import RunState


class ShownTarget:
    """Follows the target that the run works on, until the user chooses one that has ended."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._chosen: int | None = None
        """The place of the chosen target; None follows the run."""

    def state_of(self, state: RunState) -> RunState:
        """The state to draw: that of the shown target, with the feed of the whole run."""
        index = self._index(state)
        if index is None or index >= len(state.targets):
            return state
        own = state.targets[index].state
        if own is None:
            return state
        return msgspec.structs.replace(
            own, seq=state.seq, feed=state.feed, resources=state.resources, targets=state.targets, target_index=index
        )

    def folder_of(self, state: RunState) -> RunFolder:
        """The folder of the run of the shown target; that of the whole run if it has a single target."""
        index = state.target_index if self._index(state) is None else self._index(state)
        if index is None or index >= len(state.targets) or not state.targets[index].folder:
            return self._folder
        return RunFolder(self._folder.path / state.targets[index].folder)

    def move_on(self, state: RunState) -> str:
        """Show the next target: those that have ended, and the current one. Returns a sentence for the user."""
        if len(state.targets) < 2:
            return "This run has a single target."
        usable = [
            index
            for index, view in enumerate(state.targets)
            if view.state is not None or (state.finished is None and index == state.target_index)
        ]
        if len(usable) < 2:
            return "The other targets have no results yet."
        shown = self._index(state)
        place = usable.index(shown) if shown in usable else usable.index(state.target_index or 0)
        index = usable[(place + 1) % len(usable)]
        self._chosen = index if state.targets[index].state is not None else None
        return f"Target {index + 1} of {len(state.targets)}: {state.targets[index].target}"

    def _index(self, state: RunState) -> int | None:
        """The place of the target to show, None for the current one. At the end it is the first, with its own bundle."""
        if self._chosen is None and state.finished is not None and state.targets:
            return state.target_index
        return self._chosen
