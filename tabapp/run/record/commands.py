"""Commands that views send to the engine of a run, as lines of `commands.jsonl`.

A command states the wanted result instead of toggling, so reading one twice has no further effect.
"""

from __future__ import annotations

from typing import Any

from tabapp.run.record.messages import Message, Vocabulary

MINIMUM_SHARE, MAXIMUM_SHARE = 1 / 8, 8.0
"""A user's factor on a model's share of the time."""


class Command(Message, frozen=True, kw_only=True, tag_field="command"):
    """The base of all commands."""


class Start(Command, tag="start", frozen=True, kw_only=True):
    """Start the run as planned."""


class ChangePlan(Command, tag="plan", frozen=True, kw_only=True):
    """Replace options of the run before it starts; `options` are fields of `RunConfig`."""

    options: dict[str, Any]


class Pause(Command, tag="pause", frozen=True, kw_only=True):
    """Pause the budget and start no further fits."""


class Resume(Command, tag="resume", frozen=True, kw_only=True):
    """Continue a paused run."""


class Extend(Command, tag="extend", frozen=True, kw_only=True):
    """Add seconds to the budget; a negative number removes them."""

    seconds: float


class Finish(Command, tag="finish", frozen=True, kw_only=True):
    """Stop fitting and export the best models so far."""


class Interrupt(Command, tag="interrupt", frozen=True, kw_only=True):
    """Finish, and report the run as interrupted."""


class Abort(Command, tag="abort", frozen=True, kw_only=True):
    """Stop without a bundle."""


class ModelCommand(Command, frozen=True, kw_only=True):
    """The base of the commands for one model. A resumed run applies their sum again."""

    model: str


class StopModel(ModelCommand, tag="stop_model", frozen=True, kw_only=True):
    """Stop the model's fits and run no further trials of it."""


class PauseModel(ModelCommand, tag="pause_model", frozen=True, kw_only=True):
    """Start no further fits of the model; running fits complete."""


class ResumeModel(ModelCommand, tag="resume_model", frozen=True, kw_only=True):
    """Undo `stop_model` or `pause_model`."""


class ShareModel(ModelCommand, tag="share_model", frozen=True, kw_only=True):
    """Scale the model's share of the time; 1 is an equal share."""

    share: float


class IncludeModel(ModelCommand, tag="ensemble", frozen=True, kw_only=True):
    """Allow the model in the ensemble, or exclude it."""

    include: bool


AnyCommand = (
    Start
    | ChangePlan
    | Pause
    | Resume
    | Extend
    | Finish
    | Interrupt
    | Abort
    | StopModel
    | PauseModel
    | ResumeModel
    | ShareModel
    | IncludeModel
)

COMMANDS: Vocabulary[AnyCommand] = Vocabulary("command", "command", AnyCommand)
