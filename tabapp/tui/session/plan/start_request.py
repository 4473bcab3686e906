"""A request to start the run, which waits until the engine has made a plan."""

from __future__ import annotations

from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.tui.chrome.actions import has_started
from tabapp.tui.session.host import Host
from tabapp.tui.viewmodels.texts import StartStage

WAITING = "The run starts when the plan is ready. Press esc to cancel the start."


class StartRequest:
    """Keeps a request to start until it can be sent, and withdraws it when the plan is refused or the engine stops.

    Attributes:
        stage: "" without a request, "waiting" for a plan, or "sent" to the engine.
    """

    def __init__(self, app: Host) -> None:
        self._app = app
        self.stage: StartStage = ""

    def make(self) -> None:
        """Start the run now, or as soon as there is a plan. A second request changes nothing."""
        if self.stage == "sent":
            return
        if self._app.trouble is not None:
            self._app.notify(self._app.trouble, title="Not started", severity="error")
            return
        self.stage = "waiting"
        self.send_if_planned()
        if self.stage == "waiting":
            self._app.notify(WAITING, title="Start requested", timeout=4)

    def cancel(self) -> None:
        """Withdraw a request that waits for a plan."""
        if self.stage == "sent":
            self._app.notify(
                "The engine has already received the start. Press F on screen 1 to finish the run.", severity="warning"
            )
        elif self.stage == "waiting":
            self.stage = ""
            self._app.notify("The run does not start until you press ctrl+r again.", title="Start canceled")
        else:
            self._app.notify("There is no waiting start to cancel.", severity="warning")

    def on_refusal(self, event: ev.PlanRefused) -> None:
        """Withdraw a waiting request: the plan is not the one that the user asked for."""
        if self.stage == "waiting":
            self.stage = ""
            self._app.notify(
                f"{event.message} The plan is unchanged. Press ctrl+r to start the run.",
                title="Not started",
                severity="warning",
                timeout=8,
            )

    def send_if_planned(self) -> bool:
        """Send a waiting request once there is a plan and no change of it is pending.

        Returns:
            Whether the requested run has just begun.
        """
        if not self.stage:
            return False
        state = self._app.snapshot().state
        if has_started(state) or self._app.trouble is not None:
            self.stage = ""
            return state.stage == "fitting"
        if (
            self.stage == "waiting"
            and state.stage == "ready"
            and state.plan is not None
            and not self._app.planning.waits
        ):
            self.stage = "sent"
            self._app.send(cmd.Start())
        return False
