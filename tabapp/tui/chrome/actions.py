"""Every action a key can do, once: key bindings, footer, help and command palette are all made from this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

from tabapp.run.state import RunState

View = Literal["run", "data", "table", "models", "tuning", "explain", "predict", "runs", "log"]
Scope = Literal["everywhere", "run", "data", "table", "models", "tuning", "explain", "predict", "runs", "log"]
Phase = Literal["reading", "ready", "starting", "during", "after"]

ALWAYS: tuple[Phase, ...] = ("reading", "ready", "starting", "during", "after")
UNSTARTED: tuple[Phase, ...] = ("reading", "ready")
READY: tuple[Phase, ...] = ("ready",)
STARTING: tuple[Phase, ...] = ("starting",)
DURING: tuple[Phase, ...] = ("during",)
STARTED: tuple[Phase, ...] = ("during", "after")
PHASE_TEXTS: dict[Phase, str] = {
    "reading": "while the file is read",
    "ready": "when the plan is ready",
    "starting": "while a start waits",
    "during": "during the run",
    "after": "after the run",
}

TABS: tuple[tuple[str, View, str], ...] = (
    ("1", "run", "Run"),
    ("2", "data", "Data"),
    ("3", "models", "Models"),
    ("4", "tuning", "Tuning"),
    ("5", "explain", "Explain"),
    ("6", "predict", "Predict"),
    ("7", "runs", "Runs"),
    ("8", "log", "Log"),
)


REMAPPED: dict[str, str] = {}
"""The user's own keys by action id, in place of those below; set once, before the first screen is shown."""


@dataclass(frozen=True)
class Action:
    """Something a user can do.

    Attributes:
        id: stable name, for remapping keys.
        keys: as Textual names them, comma-separated; the first is shown.
        action: the Textual action that does it, on the screen unless it says `app.`.
        scope: the screen that has it.
        phases: when it makes sense: while the file is read, when the plan is ready, when the start has been requested,
            during the run, after its end.
        name: "noun: verb", for the palette.
        label: a word for the footer; empty to stay out of it.
        help: what it does, as a sentence.
    """

    id: str
    keys: str
    action: str
    scope: Scope
    phases: tuple[Phase, ...]
    name: str
    label: str
    help: str

    @property
    def shown_key(self) -> str:
        """The first key as people write it, with the user's own keys in place."""
        first = REMAPPED.get(self.id, self.keys).split(",")[0]
        names = {"question_mark": "?", "slash": "/", "plus": "+", "left": "←/→", "right": "←/→", "escape": "esc"}
        return names.get(first, first)


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("data.start", "ctrl+r", "start", "data", UNSTARTED, "run: start", "Start",
           "Start the run as planned. While the file is being read, the run starts as soon as the plan is ready."),
    Action("data.cancel_start", "escape", "cancel_start", "data", STARTING, "run: cancel the start", "Cancel start",
           "Cancel a start that waits for the plan."),
    Action("data.target", "t", "pick_target", "data", READY, "plan: choose target", "Target",
           "Choose the column to predict."),
    Action("data.metric", "m", "pick_metric", "data", READY, "plan: choose metric", "Metric",
           "Choose what models are compared by."),
    Action("data.budget", "b", "pick_budget", "data", READY, "plan: choose budget", "Budget",
           "Choose how long the whole run may take."),
    Action("data.validation", "v", "pick_validation", "data", READY, "plan: choose validation", "",
           "Choose how models are scored."),
    Action("data.quality", "right", "quality(1)", "data", READY, "plan: higher quality", "",
           "Higher quality: more models and trials."),
    Action("data.quality.lower", "left", "quality(-1)", "data", READY, "plan: lower quality", "",
           "Lower quality: fewer, quicker models."),
    Action("data.include", "space", "toggle_column", "data", READY, "column: include or leave out", "Include",
           "Include the column under the cursor, or leave it out."),
    Action("data.table", "p,enter", "table", "data", ALWAYS, "data: look at all rows", "Rows",
           "Show all rows of the table, at the column under the cursor: to scroll, search, filter and sort."),
    Action("data.filter", "slash", "filter", "data", ALWAYS, "columns: filter", "Filter",
           "Show only columns whose name or kind contains a text."),
    Action("data.copy", "y", "copy_command", "data", ALWAYS, "command: copy", "",
           "Copy the command that starts the same run without a screen."),
    Action("table.close", "escape,p", "close", "table", ALWAYS, "table: back to the columns", "Back",
           "Go back to the columns and the plan."),
    Action("table.search", "slash", "search", "table", ALWAYS, "table: search", "Search",
           "Find a text in any column; its places are marked."),
    Action("table.next", "n", "find(1)", "table", ALWAYS, "table: next place", "Next",
           "Go to the next row that has the text."),
    Action("table.previous", "N", "find(-1)", "table", ALWAYS, "table: previous place", "",
           "Go to the previous row that has the text."),
    Action("table.filter", "f", "filter", "table", ALWAYS, "table: filter", "Filter",
           "Show only rows that fit a query, such as: age>40 city:york -smoker:yes."),
    Action("table.sort", "s", "sort", "table", ALWAYS, "table: sort by this column", "Sort",
           "Sort by the column under the cursor: upwards, downwards, as in the file, in turn."),
    Action("table.column", "c", "pick_column", "table", ALWAYS, "table: go to column", "Column",
           "Go to a column by its name."),
    Action("table.cell", "enter", "cell", "table", ALWAYS, "cell: read in full", "Cell",
           "Show the whole text of the cell under the cursor."),
    Action("table.copy", "y", "copy", "table", ALWAYS, "cell: copy", "Copy",
           "Copy the whole text of the cell under the cursor."),
    Action("run.pause", "p,space", "pause", "run", DURING, "run: pause or resume", "Pause",
           "Pause the run, or let it go on. Running fits finish."),
    Action("run.details", "enter", "details", "run", STARTED, "model: details", "Details",
           "Show the model under the cursor: trials, parameters, failures."),
    Action("run.stop_model", "k", "stop_model", "run", DURING, "model: stop or go on", "Stop",
           "Stop the model under the cursor, or let it go on; what it has reached stays."),
    Action("run.more", "plus", "more", "run", DURING, "model or run: more budget", "More",
           "Give the model under the cursor a larger share of the time, or the whole run more time; both can be taken back."),
    Action("run.pause_model", "P", "pause_model", "run", DURING, "model: pause or go on", "",
           "Give the model under the cursor no further fits, or let it go on."),
    Action("run.ensemble", "i", "ensemble", "run", DURING, "model: keep out of the ensemble or take back", "",
           "Keep the model under the cursor out of the ensemble, or take it back in."),
    Action("run.finish", "f", "finish", "run", DURING, "run: finish now", "Finish",
           "Stop fitting, keep the best so far, and save the bundle."),
    Action("run.sort", "s", "sort", "run", STARTED, "leaderboard: sort by next column", "Sort",
           "Sort by rank, name, fit time or trials in turn."),
    Action("run.filter", "slash", "filter", "run", STARTED, "leaderboard: filter", "Filter",
           "Show only rows that contain a text."),
    Action("run.charts", "c", "charts", "run", STARTED, "panels: leaderboard or charts", "",
           "On a narrow terminal: swap leaderboard and charts."),
    Action("models.mark", "space", "mark", "models", ALWAYS, "model: mark to compare", "Compare",
           "Mark the model under the cursor; two that are marked stand side by side, one is compared with the cursor's."),
    Action("models.unmark", "u", "unmark", "models", ALWAYS, "models: take the marks away", "",
           "Take all marks away."),
    Action("models.details", "enter", "details", "models", ALWAYS, "model: all details", "Details",
           "Show all that is known of the model: its trials, and its failures with their traceback."),
    Action("models.copy", "y", "copy_parameters", "models", ALWAYS, "model: copy hyper-parameters", "Copy",
           "Copy the hyper-parameters of the model's best trial as JSON."),
    Action("models.more", "plus", "more", "models", DURING, "model or run: more budget", "More",
           "Give the model under the cursor a larger share of the time, or the whole run more time; both can be taken back."),
    Action("models.pause_model", "p", "pause_model", "models", DURING, "model: pause or go on", "",
           "Give the model under the cursor no further fits, or let it go on."),
    Action("models.ensemble", "i", "ensemble", "models", DURING, "model: keep out of the ensemble or take back", "",
           "Keep the model under the cursor out of the ensemble, or take it back in."),
    Action("models.picture", "right", "picture(1)", "models", ALWAYS, "picture: next", "Picture",
           "Show the next picture: learning curve, confusion, ROC, calibration, or residuals."),
    Action("models.picture.previous", "left", "picture(-1)", "models", ALWAYS, "picture: previous", "",
           "Show the previous picture."),
    Action("models.charts", "c", "charts", "models", ALWAYS, "panels: numbers or pictures", "",
           "On a narrow terminal: swap folds and hyper-parameters with the pictures."),
    Action("tuning.stop_model", "k", "stop_model", "tuning", DURING, "model: stop or go on", "Stop",
           "End the fit of the model under the cursor and run no more trials of it, or let it go on."),
    Action("tuning.more", "plus", "more", "tuning", DURING, "model or run: more budget", "More",
           "Give the model under the cursor a larger share of the time, or the whole run more time; both can be taken back."),
    Action("tuning.pause_model", "p", "pause_model", "tuning", DURING, "model: pause or go on", "Pause",
           "Give the model under the cursor no further fits, or let it go on."),
    Action("tuning.ensemble", "i", "ensemble", "tuning", DURING, "model: keep out of the ensemble or take back", "",
           "Keep the model under the cursor out of the ensemble, or take it back in."),
    Action("tuning.model", "m", "pick_model", "tuning", ALWAYS, "trials: choose model", "Model",
           "Show the trials of one model only, or of all."),
    Action("tuning.details", "enter", "details", "tuning", ALWAYS, "trial: details", "Details",
           "Show the trial under the cursor: folds, hyper-parameters against the defaults, failure."),
    Action("tuning.parameter", "right", "parameter(1)", "tuning", ALWAYS, "slice: next hyper-parameter", "Parameter",
           "Show the score over the next hyper-parameter."),
    Action("tuning.parameter.previous", "left", "parameter(-1)", "tuning", ALWAYS, "slice: previous hyper-parameter",
           "", "Show the score over the previous hyper-parameter."),
    Action("tuning.charts", "c", "charts", "tuning", ALWAYS, "panels: best so far or what decides", "",
           "On a narrow terminal: swap the best so far with what decides."),
    Action("tuning.sort", "s", "sort", "tuning", ALWAYS, "trials: sort by next column", "Sort",
           "Sort by newest, score, time or model in turn."),
    Action("tuning.filter", "slash", "filter", "tuning", ALWAYS, "trials: filter", "Filter",
           "Show only trials that fit a query, such as: model:xgb score>.93 -pruned max_depth<6."),
    Action("tuning.copy", "y", "copy_parameters", "tuning", ALWAYS, "trial: copy hyper-parameters", "Copy",
           "Copy the hyper-parameters of the trial under the cursor as JSON."),
    Action("predict.choose", "o,enter", "choose", "predict", ALWAYS, "prediction: choose file", "File",
           "Choose the file whose rows are to be predicted; it is held against the training data at once."),
    Action("predict.start", "ctrl+r", "start", "predict", ALWAYS, "prediction: start", "Predict",
           "Predict every row of the file and write the predictions."),
    Action("predict.output", "w", "output", "predict", ALWAYS, "prediction: choose where to write", "Write to",
           "Choose the .csv or .parquet file for the predictions."),
    Action("predict.keep", "i", "keep", "predict", ALWAYS, "prediction: with or without the input columns", "Input columns",
           "Put the columns of the file in front of the predictions, or leave them out."),
    Action("predict.fill", "m", "fill", "predict", ALWAYS, "prediction: go on without missing columns, or not", "",
           "Take columns that the file lacks, or that hold something else than in training, as missing; or refuse them."),
    Action("predict.stop", "x", "stop", "predict", ALWAYS, "prediction: stop", "Stop",
           "Stop what is going on; nothing is written."),
    Action("predict.copy", "y", "copy_command", "predict", ALWAYS, "prediction: copy the command", "",
           "Copy the command that does the same without a screen."),
    Action("runs.open", "enter", "open", "runs", ALWAYS, "run: open", "Open",
           "Show the run under the cursor instead of this one, which goes on by itself."),
    Action("runs.resume", "r", "resume", "runs", ALWAYS, "run: resume", "Resume",
           "Go on with a run that was stopped or killed."),
    Action("runs.delete", "d", "delete", "runs", ALWAYS, "run: delete", "Delete",
           "Delete the folder of a run that is not at work, its bundle included; asks first."),
    Action("runs.sort", "s", "sort", "runs", ALWAYS, "runs: sort by next column", "Sort",
           "Sort by newest, best score, status or file in turn."),
    Action("runs.filter", "slash", "filter", "runs", ALWAYS, "runs: filter", "Filter",
           "Show only runs that fit a query, such as: data:titanic status:ok best>.8."),
    Action("runs.copy", "y", "copy_command", "runs", ALWAYS, "run: copy its attach command", "",
           "Copy the command that shows the run under the cursor."),
    Action("runs.refresh", "f5", "refresh", "runs", ALWAYS, "runs: read again", "",
           "Look again which runs there are."),
    Action("log.search", "slash", "filter", "log", ALWAYS, "log: search", "Search",
           "Find a text; its places are marked."),
    Action("log.next", "n", "find(1)", "log", ALWAYS, "log: next place", "Next",
           "Go to the next place that has the text."),
    Action("log.previous", "N", "find(-1)", "log", ALWAYS, "log: previous place", "",
           "Go to the previous place that has the text."),
    Action("log.level", "l", "level", "log", ALWAYS, "log: level", "Level",
           "Show everything, no single fits, warnings and errors only, or the engine's own output, in turn."),
    Action("log.follow", "f", "follow", "log", ALWAYS, "log: follow", "Follow",
           "Go to the end, and stay there while lines come."),
    Action("log.details", "enter", "details", "log", ALWAYS, "log: read the line", "",
           "Show the line under the cursor in full."),
    Action("explain.sort", "a", "sort", "explain", STARTED, "importance: other method first", "Attention ⇄ Permutation",
           "Sort by attention or by permutation importance."),
    Action("explain.charts", "c", "charts", "explain", ALWAYS, "panels: notes, effect or weak slices", "Panels",
           "On a narrow terminal: show how to read the importances, the effect of a feature, or the weak slices, in turn."),
    Action("run.export", "e", "app.export", "everywhere", STARTED, "bundle: export", "Export",
           "Copy the bundle to a file of your choice."),
    Action("view.run", "1", "app.view('run')", "everywhere", ALWAYS, "screen: Run", "",
           "Go to the Run screen."),
    Action("view.data", "2", "app.view('data')", "everywhere", ALWAYS, "screen: Data", "",
           "Go to the Data screen."),
    Action("view.models", "3", "app.view('models')", "everywhere", ALWAYS, "screen: Models", "",
           "Go to the Models screen."),
    Action("view.tuning", "4", "app.view('tuning')", "everywhere", ALWAYS, "screen: Tuning", "",
           "Go to the Tuning screen."),
    Action("view.explain", "5", "app.view('explain')", "everywhere", ALWAYS, "screen: Explain", "",
           "Go to the Explain screen."),
    Action("view.predict", "6", "app.view('predict')", "everywhere", ALWAYS, "screen: Predict", "",
           "Go to the Predict screen."),
    Action("view.runs", "7", "app.view('runs')", "everywhere", ALWAYS, "screen: Runs", "",
           "Go to the Runs screen."),
    Action("view.log", "8", "app.view('log')", "everywhere", ALWAYS, "screen: Log", "",
           "Go to the Log screen."),
    Action("app.theme", "ctrl+t", "app.change_theme", "everywhere", ALWAYS, "theme: change", "",
           "Choose other colours."),
    Action("app.help", "question_mark,f1", "app.help", "everywhere", ALWAYS, "help: this screen", "Help",
           "Explain this screen and its numbers, and list its keys."),
    Action("app.quit", "q,ctrl+q,ctrl+c", "app.request_quit", "everywhere", ALWAYS, "tabapp: quit", "Quit",
           "Leave; asks first while a run is going on."),
    Action("app.palette", "ctrl+p", "app.command_palette", "everywhere", ALWAYS, "palette: open", "",
           "Find any action by name."),
)
# fmt: on

MOVING_HELP = "↑ ↓ j  move · g G  first, last · tab  next panel · esc  back · mouse  click and wheel"


def phase_of(state: RunState) -> Phase:
    """The phase of a run; "starting" is known only to the view in which the start was requested."""
    if state.finished is not None or state.stage == "done":
        return "after"
    if state.stage == "ready":
        return "ready"
    return "reading" if state.stage in ("starting", "reading") else "during"


def has_started(state: RunState) -> bool:
    """Whether the run has begun fitting or has ended."""
    return phase_of(state) in STARTED


def actions_for(scope: Scope, phase: Phase | None = None) -> list[Action]:
    """The actions of a screen and those that are everywhere, in the order of the list; only those of a phase if given."""
    return [
        action
        for action in ACTIONS
        if action.scope in (scope, "everywhere") and (phase is None or phase in action.phases)
    ]


def bindings_for(scope: Scope) -> list[Binding]:
    """Key bindings of one scope, with ids by which a keymap can replace their keys."""
    return [
        Binding(
            action.keys,
            action.action,
            action.help,
            show=False,
            id=action.id,
        )
        for action in ACTIONS
        if action.scope == scope
    ]
