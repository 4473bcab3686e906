"""What each panel is and what its numbers mean, as the help screen tells it."""

from __future__ import annotations

from tabapp.tui.chrome.actions import View

SCREENS: dict[View, tuple[str, ...]] = {
    "data": ("columns", "plan", "checks", "preview"),
    "table": ("table", "table-filter"),
    "run": ("leaderboard", "tuning", "importances", "resources", "feed", "query"),
    "models": ("models", "model-facts", "folds", "parameters", "pictures"),
    "tuning": ("trials", "best", "slice", "deciding", "query"),
    "explain": ("explanation", "effect", "slices", "notes"),
    "predict": ("predict-file", "findings", "predictions"),
    "runs": ("runs", "query"),
    "log": ("log",),
}

PANELS: dict[str, tuple[str, str]] = {
    "columns": (
        "Columns",
        "Each column of the file and what it was taken for; why is said below the table. ✓ models learn from "
        "it, ◎ is predicted, – is left out. Missing counts empty cells and spellings such as NA. Unique "
        "counts different values. Shape is a histogram: equal bins of a number's range, or the most frequent "
        "categories. A kind with * was set by you.",
    ),
    "plan": (
        "Plan",
        "What the run will do. Every field has a default that fits the data; the letter beside a field "
        "changes it. The command below starts the same run without a screen.",
    ),
    "checks": (
        "Checks",
        "What looks wrong with the data, and after the arrow what is done about it unless you change it.",
    ),
    "preview": (
        "Preview",
        "The first rows as they stand in the file. A dot is an empty cell. p shows all rows.",
    ),
    "table": (
        "All rows",
        "Every row of the file, in its order, with its number at the left; only those on the screen are fetched, so a "
        "million scroll as ten do. A dot is an empty cell, … is one on its way. The rows are read from the file by a "
        "process of their own, so the run is not slowed down; the columns are wide enough for a sample of their cells, and "
        "enter shows a cell in full. ctrl+← ctrl+→ move by a screen, 0 and $ to the first and the last column.",
    ),
    "table-filter": (
        "Search and filter",
        "/ finds a text in any column, whatever its case. f shows only rows that fit: words are looked for in the whole "
        'row; column:text in one column; age>40, age<=40 and age=40 compare numbers; a minus turns a term round; "new '
        'york" keeps blanks together. A column may be shortened to any part of its name that no other has.',
    ),
    "leaderboard": (
        "Leaderboard",
        "Each model at its best trial so far, best first; the number after # is the trial, and trial 0 is the "
        "model's defaults. The score is out of fold: each row of the table is predicted by a model that was "
        "not fitted on it. ± is half the width of the 95 % bootstrap interval of the score: models within it "
        "of each other are not clearly different. ◔ is a score of some folds only, which stands below complete ones. "
        "Fit is the training time of all folds. The ensemble's "
        "weights are chosen without the rows it is scored on. A model that fails is a row too: enter says "
        "why.",
    ),
    "tuning": (
        "Tuning",
        "For the model under the cursor: the best score after each trial, and the learning curve of the fit "
        "that runs now, on rows kept for early stopping. For the ensemble: its members and their weights.",
    ),
    "importances": (
        "Importance",
        "How much the metric worsens when a column's values are shuffled, and at the right the share of "
        "attention that a transformer gives the column. Screen 5 compares them.",
    ),
    "resources": (
        "Resources",
        "Processor use of the run in percent of one core, and its memory; those of the GPU where there is one.",
    ),
    "feed": (
        "Events",
        "What happened, newest first. All of it is in events.jsonl of the run's folder.",
    ),
    "models": (
        "Models",
        "Every model of the run, as on the leaderboard. The panels beside show the one under the cursor. Space marks a "
        "model (● or ◆): one mark compares it with whatever is under the cursor, two marks compare those two.",
    ),
    "model-facts": (
        "Model",
        "The model at its best trial: score with its 95 % interval, where it stands and why, training time of all folds, "
        "time to predict 1,000 rows with all its fold models, and its weight in the ensemble.",
    ),
    "folds": (
        "Folds",
        "The score on each fold's own held-out rows, placed between the lowest and the highest of those shown. Spread is "
        "their standard deviation: two models whose folds overlap widely are not clearly different. The score of the "
        "leaderboard is computed on all rows together, so it can differ a little from this mean.",
    ),
    "parameters": (
        "Hyper-parameters",
        "Those of the best trial. ≠ marks what differs from the defaults, which are trial 0, or between two models.",
    ),
    "pictures": (
        "Pictures",
        "←/→ go through them. Learning curve: the score on rows kept for early stopping after each number of trees or "
        "epochs, a line for each fold. All others are drawn from out-of-fold predictions: each row is predicted by a model "
        "that was not fitted on it. Confusion: rows by true class (down) and predicted class (across); recall is the share "
        "of a class that is found, precision the share of a prediction that is right. ROC: how many positive rows are found "
        "(up) at how many false alarms (across); dots are a coin. Precision and recall: the same question where positive "
        "rows are rare; dots are their share. Calibration: of rows that were given a probability, how many came true, with "
        "95 % intervals; on the dotted line probabilities can be taken at their word; the bars are how many rows there "
        "are. Predicted and true: dense along the diagonal is good. Residuals: true minus predicted; the box is the inner "
        "half, the whiskers the inner 90 %. By prediction: a funnel says that errors grow with it.",
    ),
    "trials": (
        "Trials",
        "Every setting of hyper-parameters that was tried. Trial 0 is the model's defaults. ★ best of its model, ● runs "
        "(its score is the mean of the folds that are done), ⊘ given up early because it was clearly behind, ✗ failed. "
        "The parameters shown are those that differ between trials of the model.",
    ),
    "best": (
        "Best so far",
        "The best score of the model under the cursor after each complete trial. A line that has been flat for long says "
        "that more trials will hardly help.",
    ),
    "slice": (
        "Slice",
        "Each complete trial of the model as a point: across, the value of one hyper-parameter; up, the score. ★ is the "
        "best trial, ○ the one under the cursor. The other hyper-parameters differ too, so a pattern is a hint, no proof.",
    ),
    "deciding": (
        "What decides",
        "How much each hyper-parameter decides whether a trial is among the best quarter of its model, as shares of the "
        "whole (PED-ANOVA). From ten complete trials on; with fewer than some twenty it is a hint. A small share says that "
        "the values tried make little difference, not that any value would do. The arrows go through the slices in this order.",
    ),
    "query": (
        "Filters",
        "Words are looked for in the whole row; field:text in one field; score>.93, seconds<30 and time such as 5m "
        "compare; a minus in front turns a term round: model:xgb score>.93 -pruned. Hyper-parameters are fields too, and a "
        "field may be shortened: rate>.1 is learning_rate>.1.",
    ),
    "predict-file": (
        "Predict",
        "The bundle of this run predicts the rows of another file. The file must have the columns that the models learned "
        "from, in any order; it needs no target. Predictions keep the order and the number of rows. For classes there is a "
        "probability of each, for numbers the bounds of a 90 % interval.",
    ),
    "findings": (
        "Held against the training data",
        "✗ missing: a column that models need is not there. ✗ changed: it holds something else than in training. ! new "
        "values: categories that no model has seen, which are predicted as unknown. ! cells: a few cells cannot be read and "
        "are taken as missing. – extra: a column that is not known and is ignored.",
    ),
    "predictions": (
        "Predictions",
        "The first predictions as they are written, with the row of the file each belongs to.",
    ),
    "runs": (
        "Runs",
        "All runs of this runs folder, newest first; ▸ is the one on the screen. A run that is stopped has an engine that "
        "ended without a word: r goes on from its last complete fit. Opening a run leaves the present one to itself: its "
        "engine goes on. Bests shows how the best score changed.",
    ),
    "log": (
        "Log",
        "The last events of the run in words, and what its engine and the libraries in it printed, which carries no time. "
        "While the cursor is on the last line, new lines pull it along. The files are events.jsonl and log.txt in the "
        "run's folder.",
    ),
    "explanation": (
        "Importance",
        "Two ways to ask what matters. Permutation shuffles a column and measures the loss of score. "
        "Attention is where a transformer looks. Attention alone misleads: a model can look at a column and make nothing "
        "of it, and what it looks at in one layer may come from other columns; trust permutation where they differ. Agree "
        "compares a column's place in both rankings: ● same, ◐ near, ○ apart.",
    ),
    "effect": (
        "Effect",
        "Partial dependence: the mean prediction when the feature under the cursor is set to each value on held-out rows and "
        "everything else is left as it is. Faint lines hold the inner 80 % of rows; where they run apart, the effect depends "
        "on other columns. Below, how many rows of the table have such a value. Values that never go together in the data "
        "are asked about too, so do not read it as what would happen if one changed the feature.",
    ),
    "slices": (
        "Where it is wrong",
        "Slices of the table (fifths of a number's range, frequent levels, missing) on which the ensemble's out-of-fold "
        "predictions are worst. Error is the mean log loss, or the mean absolute error of a regression. Among many slices "
        "some look bad by chance: a slice needs 30 rows and one in a hundred, the difference to the rest is shrunk towards 0, and "
        "the interval is widened for the number of slices. ● marks those whose interval stays above 0. Enter says it in words.",
    ),
    "notes": (
        "How to read this",
        "What was measured on which rows, and how far both methods agree.",
    ),
}
