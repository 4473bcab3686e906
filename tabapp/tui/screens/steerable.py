"""What a user can do to a model or to the clock while a run goes on. Screens with a model under their cursor take it in."""

from __future__ import annotations

from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.bounds import MAXIMUM_SHARE, MINIMUM_SHARE
from tabapp.run.config import format_duration
from tabapp.run.state import RunState
from tabapp.tui.chrome.actions import has_started, phase_of
from tabapp.tui.dialogs.basic import Decision, Option
from tabapp.tui.screens.base import NO_MODEL, RunView
from tabapp.tui.viewmodels.texts import share_text

MORE_TIME = {"1": 60, "5": 300, "h": 3600}
LIVE = ("ok", "running", "queued")


class Steering(RunView):
    """The actions on the model under the cursor, each of which can be taken back by another."""

    def steered_model(self) -> str | None:
        """The model under the cursor."""
        raise NotImplementedError

    def _steered(self) -> ev.LeaderboardRow | None:
        """The row of the model under the cursor, if it can be steered now; says why where it cannot."""
        model = self.steered_model()
        row = next((row for row in self.snapshot.state.leaderboard if row.model == model), None)
        if not self.is_under_way():
            return None
        if row is None:
            self.warn(NO_MODEL)
            return None
        if row.model == "ensemble":
            self.notify("The ensemble is made of the other models; choose one of those.", severity="warning")
            return None
        if row.status not in LIVE and not row.held:
            self.notify(f"{row.title} is not being fitted: {row.reason or row.status}.", severity="warning")
            return None
        return row

    def action_stop_model(self) -> None:
        row = self._steered()
        if row is None:
            return
        if row.held == "stopped":
            self._go_on(row)
            return
        dialog = Decision(
            f"Stop {row.title}?",
            "Its fit is ended and its other trials are not run. What it has reached stays on the leaderboard; "
            "k on it again lets it go on.",
            [Option("stop", f"Stop {row.title}", key="y")],
        )
        self.tabapp.push_screen(
            dialog, lambda answer: self.tabapp.send(cmd.StopModel(model=row.model)) if answer else None
        )

    def action_pause_model(self) -> None:
        row = self._steered()
        if row is None:
            return
        if row.held:
            self._go_on(row)
            return
        self.tabapp.send(cmd.PauseModel(model=row.model))
        self.notify(f"{row.title} gets no further fits until you let it go on with the same key.")

    def _go_on(self, row: ev.LeaderboardRow) -> None:
        self.tabapp.send(cmd.ResumeModel(model=row.model))
        self.notify(f"{row.title} goes on.")

    def action_ensemble(self) -> None:
        row = self._steered()
        if row is None:
            return
        self.tabapp.send(cmd.IncludeModel(model=row.model, include=row.left_out))
        words = "may be in the ensemble again" if row.left_out else "is kept out of the ensemble; i again takes it back"
        self.notify(f"{row.title} {words}.")

    def action_more(self) -> None:
        state = self.snapshot.state
        row = next((row for row in state.leaderboard if row.model == self.steered_model()), None)
        if self.is_under_way():
            dialog = Decision("More budget", *self._more_options(state, row))
            self.tabapp.push_screen(dialog, lambda answer: self._give_more(answer, row))

    def _more_options(self, state: RunState, row: ev.LeaderboardRow | None) -> tuple[str, list[Option]]:
        options: list[Option] = []
        if row is not None and row.model != "ensemble" and (row.status in LIVE or row.held):
            now = f"now {share_text(row.share)}"
            if row.share < MAXIMUM_SHARE:
                options.append(Option("+", f"{row.title}: twice the share of the time, its trials first", now, key="+"))
            if row.share > MINIMUM_SHARE:
                options.append(Option("-", f"{row.title}: half the share", now, key="-"))
        if state.deadline is not None or state.paused:
            options += [
                Option(key, f"The whole run: {format_duration(seconds)} more", key=key)
                for key, seconds in MORE_TIME.items()
            ]
            options.append(Option("b", "The whole run: 1m less", key="b"))
            return "For a model, or for the run. All of it can be taken back here.", options
        return "The run has no clock: it ends when every model has had its trials.", options

    def _give_more(self, answer: str | None, row: ev.LeaderboardRow | None) -> None:
        if answer in ("+", "-") and row is not None:
            share = row.share * 2 if answer == "+" else row.share / 2
            self.tabapp.send(cmd.ShareModel(model=row.model, share=share))
            self.notify(f"{row.title} gets {share_text(share)} of its due of the time.")
        elif answer in MORE_TIME:
            self.tabapp.send(cmd.Extend(seconds=MORE_TIME[answer]))
        elif answer == "b":
            self.tabapp.send(cmd.Extend(seconds=-60))

    def is_under_way(self) -> bool:
        """Whether fits can still be steered; says why where not."""
        state = self.snapshot.state
        phase = phase_of(state)
        if phase == "during" and state.stage == "fitting" and self.tabapp.trouble is None:
            return True
        words = (
            "has not started; ctrl+r on screen 2 starts it"
            if not has_started(state)
            else "is past fitting; the best so far is being saved"
            if phase == "during" and self.tabapp.trouble is None
            else "has ended"
        )
        self.notify(f"The run {words}.", severity="warning")
        return False
