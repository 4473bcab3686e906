"""Base of screens with a model under the cursor: actions that steer the model or the budget during a run."""

from __future__ import annotations

from tabapp.run.options.units import format_duration
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.commands import MAXIMUM_SHARE, MINIMUM_SHARE
from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import ENDED, has_started, phase_of
from tabapp.tui.dialogs.basic import Decision, Option
from tabapp.tui.screens.base import NO_MODEL, RunView
from tabapp.tui.session import next_run
from tabapp.tui.viewmodels.texts import share_text

MORE_TIME = {"1": 60, "5": 300, "h": 3600}
LIVE = ("ok", "running", "queued")


class SteerableView(RunView):
    """Actions on the model under the cursor, each of which another action can undo."""

    def steered_model(self) -> str | None:
        """The model under the cursor."""
        raise NotImplementedError

    def _steered(self) -> ev.LeaderboardRow | None:
        """The row of the model under the cursor if it can be steered now; warns if not."""
        model = self.steered_model()
        row = next((row for row in self.snapshot.state.leaderboard if row.model == model), None)
        if not self.is_under_way():
            return None
        if row is None:
            self.warn(NO_MODEL)
            return None
        if row.model == "ensemble":
            self.notify("The ensemble consists of the other models; choose one of them.", severity="warning")
            return None
        if row.status not in LIVE and not row.held:
            self.notify(f"{row.title} cannot be steered: {row.reason or row.status}.", severity="warning")
            return None
        return row

    def action_pause(self) -> None:
        if self.is_under_way():
            self.tabapp.send(cmd.Resume() if self.snapshot.state.paused else cmd.Pause())

    def action_stop_model(self) -> None:
        row = self._steered()
        if row is None:
            return
        if row.held == "stopped":
            self._resume(row)
            return
        dialog = Decision(
            f"Stop {row.title}?",
            "Its running fits end and its further trials are canceled. Its results so far stay on the leaderboard; "
            "press x to resume the model.",
            [Option("stop", f"Stop {row.title}", key="y", dangerous=True)],
        )
        self.tabapp.push_screen(
            dialog, lambda answer: self.tabapp.send(cmd.StopModel(model=row.model)) if answer else None
        )

    def action_pause_model(self) -> None:
        row = self._steered()
        if row is None:
            return
        if row.held:
            self._resume(row)
            return
        self.tabapp.send(cmd.PauseModel(model=row.model))
        self.notify(f"{row.title} is paused. Press the same key to resume it.")

    def _resume(self, row: ev.LeaderboardRow) -> None:
        self.tabapp.send(cmd.ResumeModel(model=row.model))
        self.notify(f"{row.title} is resumed.")

    def action_ensemble(self) -> None:
        row = self._steered()
        if row is None:
            return
        self.tabapp.send(cmd.IncludeModel(model=row.model, include=row.left_out))
        words = (
            "can join the ensemble again"
            if row.left_out
            else "is excluded from the ensemble; press i to include it again"
        )
        self.notify(f"{row.title} {words}.")

    def action_more(self) -> None:
        state = self.snapshot.state
        if self.snapshot.phase in ENDED:
            next_run.ask_for_more(self.tabapp, self.tabapp.folder)
            return
        row = next((row for row in state.leaderboard if row.model == self.steered_model()), None)
        if self.is_under_way():
            dialog = Decision("More budget", *self._more_options(state, row))
            self.tabapp.push_screen(dialog, lambda answer: self._give_more(answer, row))

    def _more_options(self, state: RunState, row: ev.LeaderboardRow | None) -> tuple[str, list[Option]]:
        options: list[Option] = []
        if row is not None and row.model != "ensemble" and (row.status in LIVE or row.held):
            now = f"now {share_text(row.share)}"
            if row.share < MAXIMUM_SHARE:
                options.append(Option("+", f"{row.title}: double its share of the time", now, key="+"))
            if row.share > MINIMUM_SHARE:
                options.append(Option("-", f"{row.title}: half its share of the time", now, key="-"))
        if state.deadline is not None or state.paused:
            options += [
                Option(key, f"The whole run: {format_duration(seconds)} more", key=key)
                for key, seconds in MORE_TIME.items()
            ]
            options.append(Option("b", "The whole run: 1m less", key="b"))
            return "For the model or for the whole run. Each change can be undone here.", options
        return "The run has no time limit: it ends when every model has completed its trials.", options

    def _give_more(self, answer: str | None, row: ev.LeaderboardRow | None) -> None:
        if answer in ("+", "-") and row is not None:
            share = row.share * 2 if answer == "+" else row.share / 2
            self.tabapp.send(cmd.ShareModel(model=row.model, share=share))
            self.notify(f"{row.title} gets {share_text(share)} of the time.")
        elif answer in MORE_TIME:
            self.tabapp.send(cmd.Extend(seconds=MORE_TIME[answer]))
        elif answer == "b":
            self.tabapp.send(cmd.Extend(seconds=-60))

    def action_resume(self) -> None:
        """Resume a run without an engine; a complete one needs more time."""
        if self.snapshot.phase not in ENDED:
            self.warn("The run is in progress.")
        elif self.snapshot.state.finished is not None and self.snapshot.state.finished.status == "ok":
            next_run.ask_for_more(self.tabapp, self.tabapp.folder)
        else:
            next_run.resume(self.tabapp, self.tabapp.folder)

    def action_clone(self) -> None:
        """Open a new run of the same plan; this one continues if it is in progress."""
        if has_started(self.snapshot.state):
            next_run.clone(self.tabapp, self.tabapp.folder)
        else:
            self.warn("The run has not started, so its plan can still be changed on screen 2.")

    def is_under_way(self) -> bool:
        """Whether fits can be steered now; warns if not."""
        state = self.snapshot.state
        phase = phase_of(state)
        if self.snapshot.replay is not None:
            self.warn("This is a replay: the run cannot be changed.")
            return False
        if phase == "during" and state.stage == "fitting" and self.tabapp.trouble is None:
            return True
        words = (
            "has not started; press ctrl+r on screen 2 to start it"
            if not has_started(state)
            else "has finished fitting and is saving the best models"
            if phase == "during" and self.tabapp.trouble is None
            else "has ended"
        )
        self.notify(f"The run {words}.", severity="warning")
        return False
