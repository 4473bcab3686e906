"""All actions in one list, from which key bindings, footer, help and command palette are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

from tabapp.run.record.state import RunState

View = Literal[
    "run", "data", "table", "models", "tuning", "explain", "predict", "row", "runs", "log", "diagnose", "door"
]
Scope = Literal["everywhere", "replay", View]
Phase = Literal["reading", "ready", "starting", "during", "after", "stopped", "replaying"]

ALWAYS: tuple[Phase, ...] = ("reading", "ready", "starting", "during", "after", "stopped", "replaying")
UNSTARTED: tuple[Phase, ...] = ("reading", "ready")
READY: tuple[Phase, ...] = ("ready",)
STARTING: tuple[Phase, ...] = ("starting",)
DURING: tuple[Phase, ...] = ("during",)
STARTED: tuple[Phase, ...] = ("during", "after", "stopped", "replaying")
ENDED: tuple[Phase, ...] = ("after", "stopped")
STEERED_OR_ENDED: tuple[Phase, ...] = ("during", "after", "stopped")
REPLAYING: tuple[Phase, ...] = ("replaying",)

TABS: tuple[tuple[str, View, str], ...] = (
    ("1", "run", "Run"),
    ("2", "data", "Data"),
    ("3", "models", "Models"),
    ("4", "tuning", "Tuning"),
    ("5", "explain", "Explain"),
    ("6", "predict", "Predict"),
    ("7", "runs", "Runs"),
    ("8", "log", "Log"),
    ("9", "diagnose", "Diagnose"),
)


REMAPPED: dict[str, str] = {}
"""Keys from the user's configuration by action id. They replace the keys below and are set before the first screen is shown."""


@dataclass(frozen=True)
class Action:
    """An action of the user.

    Attributes:
        id: stable name, used to remap keys.
        keys: as Textual names them, comma-separated; the first is shown.
        action: the Textual action to run, on the screen unless it starts with `app.`.
        scope: the screen to which it belongs.
        phases: when it is available: while the file is read, when the plan is ready, when the start has been requested,
            during the run, after its end, after its engine has stopped, in a replay.
        name: "noun: verb", for the palette.
        label: a word for the footer; empty to omit it there.
        help: what it does, as a sentence.
        typed: the Textual action that its keys run, if not that of the mouse and the palette.
    """

    id: str
    keys: str
    action: str
    scope: Scope
    phases: tuple[Phase, ...]
    name: str
    label: str
    help: str
    typed: str = ""

    @property
    def shown_key(self) -> str:
        """The first key as written in texts, with the user's configuration applied."""
        first = REMAPPED.get(self.id, self.keys).split(",")[0]
        names = {
            "question_mark": "?", "comma": ",", "full_stop": ".", "less_than_sign": "<", "greater_than_sign": ">",
            "slash": "/", "plus": "+", "number_sign": "#", "asterisk": "*",
            "left": "←/→", "right": "←/→", "escape": "esc",
        }  # fmt: skip
        return names.get(first, first)


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("data.start", "ctrl+r", "start", "data", UNSTARTED, "run: start", "Start",
           "Start the run as planned. While the file is being read, the run starts as soon as the plan is ready."),
    Action("data.cancel_start", "escape", "cancel_start", "data", STARTING, "run: cancel the start", "Cancel start",
           "Cancel a start that is waiting for the plan."),
    Action("data.target", "t", "edit('target')", "data", READY, "plan: choose target", "Target",
           "Choose the column to predict, or type several: a,b."),
    Action("data.also_target", "T", "toggle_target", "data", READY, "column: make it a target or not", "",
           "Predict the column under the cursor too, or no longer. A run with several targets works on one after the other."),
    Action("data.metric", "m", "edit('metric')", "data", READY, "plan: choose metric", "Metric",
           "Choose the metric by which models are compared."),
    Action("data.budget", "b", "edit('budget')", "data", READY, "plan: choose budget", "Budget",
           "Choose the time limit of the whole run."),
    Action("data.validation", "v", "edit('validation')", "data", READY, "plan: choose validation", "",
           "Choose how models are scored."),
    Action("data.models", "M", "edit('models')", "data", READY, "plan: choose models", "Models",
           "Choose the models that compete, with the expected time of each on this table."),
    Action("data.quality", "right,l", "step(1)", "data", READY, "plan: next value", "",
           "In the plan, choose the next value of the field under the cursor; elsewhere, the next higher quality."),
    Action("data.quality.lower", "left,h", "step(-1)", "data", READY, "plan: previous value", "",
           "In the plan, choose the previous value of the field under the cursor; elsewhere, the next lower quality."),
    Action("data.reset", "backspace,delete", "reset", "data", READY, "plan: default of the field", "",
           "Give the field under the cursor of the plan its default."),
    Action("data.undo", "u", "undo", "data", READY, "plan: undo", "",
           "Undo the last change of the plan."),
    Action("data.presets", "P", "presets", "data", READY, "plan: presets", "Presets",
           "Use a saved plan, or save this one under a name."),
    Action("data.editor", "E", "editor", "data", READY, "plan: edit as text", "",
           "Open the plan as TOML in $EDITOR. It is checked when the editor closes."),
    Action("data.include", "space", "toggle_column", "data", READY, "column: include or ignore", "Include",
           "Include the column under the cursor as a feature, or ignore it."),
    Action("data.kind", "K", "kind", "data", READY, "column: change kind", "Kind",
           "Change the kind of the column under the cursor: numeric, categorical, text and others."),
    Action("data.inspect", "enter", "inspect", "data", ALWAYS, "column: inspect", "Inspect",
           "Show the values of the column under the cursor beside the target. In the plan, enter edits the field; on a check, it "
           "shows the remedies."),
    Action("data.table", "a", "table", "data", ALWAYS, "data: show all rows", "Rows",
           "Show all rows of the table. They can be scrolled, searched, filtered and sorted."),
    Action("data.sort", "s", "sort", "data", ALWAYS, "columns: sort by next order", "",
           "Sort the columns by the file, missing cells, distinct values or association with the target, in turn."),
    Action("data.filter", "slash", "filter", "data", ALWAYS, "columns: filter", "Filter",
           "Show only columns whose name or kind contains a text."),
    Action("data.copy", "y", "copy_command", "data", ALWAYS, "command: copy", "",
           "Copy the command that runs the same plan without the terminal UI."),
    Action("table.start", "ctrl+r", "start", "table", UNSTARTED, "run: start", "",
           "Close the table and start the run as planned."),
    Action("table.close", "escape,a", "close", "table", ALWAYS, "table: back to the columns", "Back",
           "Return to the columns and the plan."),
    Action("table.search", "slash", "search", "table", ALWAYS, "table: search", "Search",
           "Search all columns for a text and highlight the matches."),
    Action("table.next", "n", "find(1)", "table", ALWAYS, "table: next match", "Next",
           "Go to the next row that contains the text."),
    Action("table.previous", "N", "find(-1)", "table", ALWAYS, "table: previous match", "",
           "Go to the previous row that contains the text."),
    Action("table.filter", "f", "filter", "table", ALWAYS, "table: filter", "Filter",
           "Show only rows that match a query such as age>40 city:york -smoker:yes."),
    Action("table.sort", "s", "sort", "table", ALWAYS, "table: sort by this column", "Sort",
           "Sort by the column under the cursor: ascending, descending, then the order of the file."),
    Action("table.column", "c", "pick_column", "table", ALWAYS, "table: go to column", "Column",
           "Go to a column by name."),
    Action("table.cell", "enter", "cell", "table", ALWAYS, "cell: show full text", "Cell",
           "Show the full text of the cell under the cursor."),
    Action("table.copy", "y", "copy", "table", ALWAYS, "cell: copy", "Copy",
           "Copy the full text of the cell under the cursor."),
    Action("run.start", "ctrl+r", "start", "run", READY, "run: start", "Start",
           "Start the run as planned; screen 2 shows the plan."),
    Action("run.pause", "p", "pause", "run", DURING, "run: pause or resume", "Pause",
           "Pause or resume the run. Fits that are running finish first."),
    Action("run.details", "enter", "details", "run", STARTED, "model: details", "Details",
           "Show the trials, hyperparameters and failures of the model under the cursor, or unfold the models not started."),
    Action("run.stop_model", "x", "stop_model", "run", DURING, "model: stop or resume", "Stop",
           "Stop or resume the model under the cursor. Its results so far are kept."),
    Action("run.more", "plus", "more", "run", STEERED_OR_ENDED, "model or run: more budget", "More",
           "Increase the share of time of the model under the cursor, or the time of the whole run. After the end, continue the "
           "run with more time."),
    Action("run.resume", "r", "resume", "run", ENDED, "run: resume", "Resume",
           "Resume the run after its engine has stopped; a complete run continues with more time."),
    Action("run.clone", "n", "clone", "run", ENDED, "run: new run from its plan", "New run",
           "Open a new Data screen on the same table with all options of this run."),
    Action("run.pause_model", "P", "pause_model", "run", DURING, "model: pause or resume", "",
           "Pause or resume the model under the cursor. A paused model starts no further fits."),
    Action("run.ensemble", "i", "ensemble", "run", DURING, "model: exclude from or include in the ensemble", "",
           "Exclude the model under the cursor from the ensemble, or include it again."),
    Action("run.finish", "F", "finish", "run", DURING, "run: finish now", "Finish",
           "Stop fitting and save the best models so far as a bundle."),
    Action("run.sort", "s", "sort", "run", STARTED, "leaderboard: sort by next column", "",
           "Sort by rank, name, fit time or number of trials, in turn."),
    Action("run.filter", "slash", "filter", "run", STARTED, "leaderboard: filter", "Filter",
           "Show only models that match a query such as family:gbdt score>.9."),
    Action("run.copy", "y", "copy_row", "run", STARTED, "model: copy row", "",
           "Copy the row of the model under the cursor with tabs."),
    Action("run.why", "w", "why", "run", STARTED, "model: why is it here", "Why",
           "Explain the place of the model under the cursor: why its fits were chosen, what ended its trials, what comes next."),
    Action("run.result", "escape", "result", "run", ENDED, "result: hide or show", "",
           "Hide the result of the run, or show it again."),
    Action("run.report", "R", "report", "run", ("after",), "run: write report", "Report",
           "Write a report of the run as HTML, Markdown or JSON."),
    Action("run.charts", "c", "charts", "run", STARTED, "panels: switch between leaderboard and charts", "Panels",
           "Switch between the leaderboard and the charts on a narrow terminal."),
    Action("models.mark", "space", "mark", "models", ALWAYS, "model: mark to compare", "Compare",
           "Mark the model under the cursor. Two marked models are compared; one is compared with the model under the cursor."),
    Action("models.unmark", "U", "unmark", "models", ALWAYS, "models: clear the marks", "",
           "Clear all marks."),
    Action("models.details", "enter", "details", "models", ALWAYS, "model: all details", "Details",
           "Show the trials of the model and its failures with tracebacks, or unfold the models not started."),
    Action("models.copy", "y", "copy_parameters", "models", ALWAYS, "model: copy hyperparameters", "Copy",
           "Copy the hyperparameters of the model's best trial as JSON."),
    Action("models.more", "plus", "more", "models", DURING, "model or run: more budget", "More",
           "Increase the share of time of the model under the cursor, or the time of the whole run. Both can be undone."),
    Action("models.pause", "p", "pause", "models", DURING, "run: pause or resume", "",
           "Pause or resume the run. Fits that are running finish first."),
    Action("models.stop_model", "x", "stop_model", "models", DURING, "model: stop or resume", "Stop",
           "Stop or resume the model under the cursor. Its results so far are kept."),
    Action("models.pause_model", "P", "pause_model", "models", DURING, "model: pause or resume", "",
           "Pause or resume the model under the cursor. A paused model starts no further fits."),
    Action("models.ensemble", "i", "ensemble", "models", DURING, "model: exclude from or include in the ensemble", "",
           "Exclude the model under the cursor from the ensemble, or include it again."),
    Action("models.picture", "right,l", "picture(1)", "models", ALWAYS, "chart: next", "Chart",
           "Show the next chart: confusion matrix, ROC, precision and recall, gain, calibration, residuals or learning curve."),
    Action("models.picture.previous", "left,h", "picture(-1)", "models", ALWAYS, "chart: previous", "",
           "Show the previous chart."),
    Action("models.charts", "c", "charts", "models", ALWAYS, "panels: switch between numbers and charts", "Panels",
           "Switch between the numbers (folds, hyperparameters) and the charts on a narrow terminal."),
    Action("tuning.stop_model", "x", "stop_model", "tuning", DURING, "model: stop or resume", "Stop",
           "Stop or resume the model under the cursor. Stopping ends its running fits and cancels its further trials."),
    Action("tuning.more", "plus", "more", "tuning", DURING, "model or run: more budget", "More",
           "Increase the share of time of the model under the cursor, or the time of the whole run. Both can be undone."),
    Action("tuning.pause", "p", "pause", "tuning", DURING, "run: pause or resume", "Pause",
           "Pause or resume the run. Fits that are running finish first."),
    Action("tuning.pause_model", "P", "pause_model", "tuning", DURING, "model: pause or resume", "",
           "Pause or resume the model under the cursor. A paused model starts no further fits."),
    Action("tuning.ensemble", "i", "ensemble", "tuning", DURING, "model: exclude from or include in the ensemble", "",
           "Exclude the model under the cursor from the ensemble, or include it again."),
    Action("tuning.model", "m", "pick_model", "tuning", ALWAYS, "trials: choose model", "Model",
           "Show the trials of one model or of all models."),
    Action("tuning.details", "enter", "details", "tuning", ALWAYS, "trial: details", "Details",
           "Show the folds, changed hyperparameters and failure of the trial under the cursor."),
    Action("tuning.parameter", "right,l", "parameter(1)", "tuning", ALWAYS, "slice: next hyperparameter", "Parameter",
           "Plot the score against the next hyperparameter."),
    Action("tuning.parameter.previous", "left,h", "parameter(-1)", "tuning", ALWAYS, "slice: previous hyperparameter",
           "", "Plot the score against the previous hyperparameter."),
    Action("tuning.charts", "c", "charts", "tuning", ALWAYS, "panels: switch between best so far and importance", "Panels",
           "Switch between the best score so far and the hyperparameter importance on a narrow terminal."),
    Action("tuning.sort", "s", "sort", "tuning", ALWAYS, "trials: sort by next column", "Sort",
           "Sort by newest, score, time or model, in turn."),
    Action("tuning.filter", "slash", "filter", "tuning", ALWAYS, "trials: filter", "Filter",
           "Show only trials that match a query such as model:xgb score>.93 -pruned max_depth<6."),
    Action("tuning.copy", "y", "copy_parameters", "tuning", ALWAYS, "trial: copy hyperparameters", "Copy",
           "Copy the hyperparameters of the trial under the cursor as JSON."),
    Action("predict.choose", "f,enter", "choose", "predict", ALWAYS, "prediction: choose file", "File",
           "Choose the file to predict. It is checked against the training schema first."),
    Action("predict.start", "ctrl+r", "start", "predict", ALWAYS, "prediction: start", "Predict",
           "Predict every row of the file and write the predictions."),
    Action("predict.output", "w", "output", "predict", ALWAYS, "prediction: choose output file", "Output",
           "Choose the file to which predictions are written: .csv, .parquet, .arrow or .jsonl."),
    Action("predict.keep", "i", "keep", "predict", ALWAYS, "prediction: include or omit input columns", "Input columns",
           "Include the columns of the file before the predictions, or omit them."),
    Action("predict.fill", "m", "fill", "predict", ALWAYS, "prediction: fill or reject missing columns", "",
           "Treat missing columns and columns of another kind as missing values, or reject the file."),
    Action("predict.trust", "t", "trust", "predict", ALWAYS, "prediction: choose trusted key", "",
           "Reject the bundle unless a public key has signed it. The file is then checked again."),
    Action("predict.impute", "I", "impute", "predict", ALWAYS, "file: impute missing cells", "Impute",
           "Fill the missing cells of the file with a transformer, and write the table to another file."),
    Action("predict.stop", "x", "stop", "predict", ALWAYS, "prediction: stop", "Stop",
           "Stop the check or the prediction. Nothing is written."),
    Action("predict.copy", "y", "copy_command", "predict", ALWAYS, "prediction: copy command", "",
           "Copy the command that makes the same predictions without the terminal UI."),
    Action("predict.row", "r", "explain_row", "predict", ALWAYS, "row: explain prediction", "Explain",
           "Explain the prediction of the row under the cursor, change its values, and search for nearest changes."),
    Action("row.close", "escape", "close", "row", ALWAYS, "row: back to the predictions", "Back",
           "Return to the predictions."),
    Action("row.edit", "enter", "edit", "row", ALWAYS, "row: change value", "Change",
           "Change the value of the column under the cursor; prediction and contributions follow."),
    Action("row.search", "f", "search", "row", ALWAYS, "row: find nearest changes", "Nearest",
           "Find the nearest changes of few columns that reach another class or a number."),
    Action("row.charts", "c", "charts", "row", ALWAYS, "panels: switch between contributions and curve", "Panels",
           "Switch between the contributions and the other panels on a narrow terminal."),
    Action("row.next", "n", "step(1)", "row", ALWAYS, "row: next", "Next",
           "Explain the next row."),
    Action("row.previous", "N", "step(-1)", "row", ALWAYS, "row: previous", "",
           "Explain the previous row."),
    Action("row.undo", "u", "undo", "row", ALWAYS, "row: undo all changes", "Undo",
           "Restore the values of the file."),
    Action("row.fix", "space", "fix", "row", ALWAYS, "row: fix or free column", "Fix",
           "Keep the value of the column under the cursor in the search for nearest changes, or free it."),
    Action("row.copy", "y", "copy_command", "row", ALWAYS, "row: copy command", "",
           "Copy the command that explains the same row without the terminal UI."),
    Action("runs.open", "enter", "open", "runs", ALWAYS, "run: open", "Open",
           "Open the run under the cursor. The current run continues in the background."),
    Action("runs.mark", "space", "mark", "runs", ALWAYS, "run: mark to compare", "Mark",
           "Mark the run under the cursor. The score curves of marked runs are drawn together."),
    Action("runs.unmark", "U", "unmark", "runs", ALWAYS, "runs: clear the marks", "",
           "Clear all marks."),
    Action("runs.compare", "c", "compare", "runs", ALWAYS, "runs: compare", "Compare",
           "Compare the last two marked runs, or the marked one with that under the cursor: scores on common rows, leaderboards, "
           "and what differs in plan, result, data and versions."),
    Action("runs.resume", "r", "resume", "runs", ALWAYS, "run: resume", "Resume",
           "Resume a run that was stopped or killed; a complete run continues with more time."),
    Action("runs.more", "plus", "more", "runs", ALWAYS, "run: continue with more time", "",
           "Continue a run that has ended with more time, or with more trials if it has no time limit."),
    Action("runs.clone", "n", "clone", "runs", ALWAYS, "run: new run from its plan", "New",
           "Open a new Data screen on the table of the run under the cursor, with all its options."),
    Action("runs.replay", "v", "replay", "runs", ALWAYS, "run: replay", "Replay",
           "Replay the run under the cursor as it happened, in about half a minute. A replay changes nothing."),
    Action("runs.note", "N", "note", "runs", ALWAYS, "run: write a note", "Note",
           "Write a note on the run under the cursor."),
    Action("runs.tags", "number_sign", "tags", "runs", ALWAYS, "run: tag", "Tags",
           "Tag the run under the cursor. The filter tag:WORD finds tagged runs."),
    Action("runs.pin", "asterisk", "pin", "runs", ALWAYS, "run: pin or unpin", "Pin",
           "Keep the run under the cursor at the top of lists, or no longer."),
    Action("runs.rename", "f2", "rename", "runs", ALWAYS, "run: rename", "Rename",
           "Give the run under the cursor another name. Commands find the run by it."),
    Action("runs.delete", "D", "delete", "runs", ALWAYS, "run: delete", "Delete",
           "Delete the folder of a run that is not running, including its bundle, after a confirmation."),
    Action("runs.sort", "s", "sort", "runs", ALWAYS, "runs: sort by next column", "Sort",
           "Sort by newest, best score, status or file, in turn."),
    Action("runs.filter", "slash", "filter", "runs", ALWAYS, "runs: filter", "Filter",
           "Show only runs that match a query such as data:titanic status:ok best>.8."),
    Action("runs.copy", "y", "copy_command", "runs", ALWAYS, "run: copy attach command", "",
           "Copy the command that opens the run under the cursor."),
    Action("runs.refresh", "f5", "refresh", "runs", ALWAYS, "runs: refresh", "",
           "Read the list of runs again."),
    Action("door.open", "enter", "open", "door", ALWAYS, "run or file: open", "Open",
           "Open the run under the cursor, or the Data screen of the file. A run that is already in progress continues."),
    Action("door.file", "o", "file", "door", ALWAYS, "file: choose elsewhere", "Other",
           "Choose a file in another folder, or one that an earlier run used."),
    Action("door.resume", "r", "resume", "door", ALWAYS, "run: resume", "Resume",
           "Resume a run that was stopped or killed; a complete run continues with more time."),
    Action("door.more", "plus", "more", "door", ALWAYS, "run: continue with more time", "More",
           "Continue a run that has ended with more time, or with more trials if it has no time limit."),
    Action("door.clone", "n", "clone", "door", ALWAYS, "run: new run from its plan", "New",
           "Open a new Data screen on the table of the run, with all its options."),
    Action("door.rename", "f2", "rename", "door", ALWAYS, "run: rename", "Rename",
           "Give the run under the cursor another name. Commands find the run by it."),
    Action("door.find", "slash", "filter", "door", ALWAYS, "runs and files: find", "Find",
           "Show only runs and files that match."),
    Action("door.help", "question_mark,f1", "help", "door", ALWAYS, "help: this screen", "Help",
           "Explain this screen and list its keys."),
    Action("door.leave", "q,escape,ctrl+q,ctrl+c", "leave", "door", ALWAYS, "door: leave", "Back",
           "Return to the run; at the start of the program, quit."),
    Action("log.search", "slash", "filter", "log", ALWAYS, "log: search", "Search",
           "Search the log for a text and highlight the matches."),
    Action("log.next", "n", "find(1)", "log", ALWAYS, "log: next match", "Next",
           "Go to the next line that contains the text."),
    Action("log.previous", "N", "find(-1)", "log", ALWAYS, "log: previous match", "",
           "Go to the previous line that contains the text."),
    Action("log.level", "L", "level", "log", ALWAYS, "log: change level", "Level",
           "Show everything, everything but fits, warnings and errors, or the output of the engine, in turn."),
    Action("log.follow", "f", "follow", "log", ALWAYS, "log: follow", "Follow",
           "Go to the last line and follow new lines."),
    Action("log.details", "enter", "details", "log", ALWAYS, "log: show full line", "",
           "Show the full text of the line under the cursor."),
    Action("explain.sort", "a", "sort", "explain", STARTED, "importance: change order", "Attention ⇄ Permutation",
           "Sort by attention or by permutation importance."),
    Action("explain.model", "m", "choose_attention", "explain", STARTED, "attention: choose model", "Attention of",
           "Choose the model whose attention is beside permutation importance."),
    Action("explain.rows", "r", "rows", "explain", STARTED, "rows: on which predictions rest", "Rows",
           "Show which rows the predictions of NPT, TabR or ModernNCA rest on, on the Diagnose screen."),
    Action("explain.diagnose", "d", "app.view('diagnose')", "explain", STARTED, "run: diagnose", "Diagnose",
           "Go to the Diagnose screen: threshold, robustness, learning curves, groups of a column and attention maps."),
    Action("run.diagnose", "d", "app.view('diagnose')", "run", STARTED, "run: diagnose", "",
           "Go to the Diagnose screen: threshold, robustness, learning curves, groups of a column and attention maps."),
    Action("diagnose.ask", "enter", "ask", "diagnose", STARTED, "analysis: ask for", "Ask",
           "Ask for the analysis under the cursor, or keep the threshold at the line. Analyses run one after the other."),
    Action("diagnose.cancel", "x", "cancel", "diagnose", STARTED, "analysis: cancel", "Cancel",
           "Cancel the analysis under the cursor, or remove it from the queue."),
    Action("diagnose.step", "right", "step(1)", "diagnose", ALWAYS, "result: next map or place", "Step",
           "Move the line of the threshold to the right, or show the next attention map, rate or chart."),
    Action("diagnose.step.previous", "left", "step(-1)", "diagnose", ALWAYS, "result: previous map or place", "",
           "Move the line of the threshold to the left, or show the previous attention map, rate or chart."),
    Action("explain.charts", "c", "charts", "explain", ALWAYS, "panels: notes, effect or largest errors", "Panels",
           "Show the notes, the effect of a feature or the largest errors, in turn, on a narrow terminal."),
    Action("app.zoom", "z", "app.zoom", "everywhere", ALWAYS, "panel: fill the screen", "Zoom",
           "Fill the screen with the panel in focus, or show all panels again."),
    Action("app.jump", "ctrl+o", "app.jump", "everywhere", ALWAYS, "panel: jump to one", "",
           "Show a letter on each panel; the letter moves the focus there."),
    Action("app.copy_table", "Y", "app.copy_table", "everywhere", ALWAYS, "table: copy", "",
           "Copy the table in focus with tabs, as spreadsheets paste it."),
    Action("app.copy_markdown", "ctrl+y", "app.copy_table(True)", "everywhere", ALWAYS, "table: copy as Markdown", "",
           "Copy the table in focus as Markdown."),
    Action("app.save_panel", "S", "app.save_panel", "everywhere", ALWAYS, "panel: save", "",
           "Save the panel in focus as a picture (.svg), or the numbers of a table or chart (.csv)."),
    Action("run.export", "e", "app.export", "everywhere", STARTED, "bundle: export", "Export",
           "Copy the bundle to a file, or write a report, ONNX (.onnx), SQL (.sql) or a script (.py)."),
    *(Action(f"view.{view}", digit, f"app.view('{view}')", "everywhere", ALWAYS, f"screen: {title}", "",
             f"Go to the {title} screen.", f"app.digit('{view}')") for digit, view, title in TABS),
    Action("replay.pause", "space", "app.replay_pause", "replay", REPLAYING, "replay: pause or continue", "",
           "Pause the replay, or continue it."),
    Action("replay.forward", "right", "app.replay_seek(10)", "replay", REPLAYING, "replay: 10 s later", "",
           "Go ten seconds of the run forward."),
    Action("replay.back", "left", "app.replay_seek(-10)", "replay", REPLAYING, "replay: 10 s earlier", "",
           "Go ten seconds of the run back."),
    Action("replay.next", "full_stop", "app.replay_step(1)", "replay", REPLAYING, "replay: next event", "",
           "Pause, and go to the next event."),
    Action("replay.previous", "comma", "app.replay_step(-1)", "replay", REPLAYING, "replay: previous event", "",
           "Pause, and go to the previous event."),
    Action("replay.faster", "greater_than_sign", "app.replay_speed(2)", "replay", REPLAYING, "replay: faster", "",
           "Double the speed of the replay."),
    Action("replay.slower", "less_than_sign", "app.replay_speed(0.5)", "replay", REPLAYING, "replay: slower", "",
           "Halve the speed of the replay."),
    Action("replay.leave", "v", "app.replay_leave", "replay", REPLAYING, "replay: show the run itself", "",
           "End the replay, and show the run itself."),
    Action("app.open", "o", "app.open_door", "everywhere", ALWAYS, "run or file: open another", "Open",
           "Show the runs and the tables of this folder, and open one. The current run continues in the background."),
    Action("run.next_target", "ctrl+n", "app.next_target", "everywhere", STARTED, "target: show the next", "Target",
           "Show the next target of a run with several: its leaderboard, importances and predictions."),
    Action("app.theme", "ctrl+t", "app.change_theme", "everywhere", ALWAYS, "theme: change", "",
           "Choose a color theme."),
    Action("app.help", "question_mark,f1", "app.help", "everywhere", ALWAYS, "help: this screen", "Help",
           "Explain the row under the cursor, the panels and the numbers of this screen, and list its keys. / searches."),
    Action("app.glossary", "ctrl+g", "app.glossary", "everywhere", ALWAYS, "help: words and signs", "",
           "Explain the words and signs of the screens."),
    Action("app.quit", "q,ctrl+q,ctrl+c", "app.request_quit", "everywhere", ALWAYS, "tabapp: quit", "Quit",
           "Quit. While a run is in progress, choose whether it continues in the background."),
    Action("app.suspend", "ctrl+z", "app.suspend_process", "everywhere", ALWAYS, "tabapp: suspend", "",
           "Return to the shell; fg brings the screen back. A run that is in progress continues."),
    Action("app.palette", "ctrl+p", "app.command_palette", "everywhere", ALWAYS, "palette: open", "",
           "Search all actions by name."),
)
# fmt: on

MOVING_HELP = "arrows or h j k l  move · g G  first, last · tab  next panel · esc  back · mouse  click and wheel"


def phase_of(state: RunState) -> Phase:
    """The phase of a run; "starting", "stopped" and "replaying" are known only to the view."""
    if state.finished is not None or state.stage == "done":
        return "after"
    if state.stage == "ready":
        return "ready"
    return "reading" if state.stage in ("starting", "reading") else "during"


def has_started(state: RunState) -> bool:
    """Whether the run has begun fitting or has ended."""
    return phase_of(state) in STARTED


def actions_for(scope: Scope, phase: Phase | None = None) -> list[Action]:
    """Return the actions of a screen and those of all screens in list order; with a phase, only those available in it."""
    # The door may have no run below it.
    scopes = {scope, "door" if scope == "door" else "everywhere", "replay" if phase == "replaying" else scope}
    return [action for action in ACTIONS if action.scope in scopes and (phase is None or phase in action.phases)]


def bindings_for(scope: Scope) -> list[Binding]:
    """Key bindings of one scope, with ids by which a keymap can replace their keys."""
    return [
        Binding(
            action.keys,
            action.typed or action.action,
            action.help,
            show=False,
            id=action.id,
        )
        for action in ACTIONS
        if action.scope == scope
    ]
