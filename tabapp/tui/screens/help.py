"""The help of a screen: its panels and its keys."""

from __future__ import annotations

from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import MOVING_HELP, Phase, View, actions_for
from tabapp.tui.chrome.help_texts import PANELS, SCREENS
from tabapp.tui.content import Content
from tabapp.tui.viewmodels.texts import MUTED
from tabapp.tui.widgets.plan import warning_line


def help_content(view: View, focused: str | None, state: RunState, phase: Phase) -> Content:
    """The help of a screen, with the focused panel first."""
    panels = sorted(SCREENS[view], key=lambda name: name != focused)
    parts: list[Content] = []
    for name in panels:
        title, text = PANELS[name]
        parts.append(Content.assemble((title, "bold $primary"), "\n", text))
        if name == "checks" and state.schema is not None:
            parts.append(Content("\n").join([warning_line(warning) for warning in state.schema.warnings]))
    keys = [Content.styled("Keys", "bold $primary")]
    for action in actions_for(view):
        style = "bold $foreground" if phase in action.phases else MUTED
        keys.append(
            Content.assemble(
                (f"{action.shown_key:>6}  ", style), (action.help, "" if phase in action.phases else MUTED)
            )
        )
    keys.append(Content.styled(f"\n{MOVING_HELP}", MUTED))
    return Content("\n\n").join([*parts, Content("\n").join(keys)])
