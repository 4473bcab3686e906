"""Help texts of the panels: what each shows and how its numbers are computed."""

from __future__ import annotations

from tabapp.tui.chrome.actions import View

SCREENS: dict[View, tuple[str, ...]] = {
    "data": ("columns", "column", "plan", "checks", "preview"),
    "table": ("table", "table-filter"),
    "run": ("leaderboard", "score-curve", "now", "verdict", "tuning", "importances", "resources", "feed", "query"),
    "models": ("models", "model-facts", "folds", "parameters", "pictures"),
    "tuning": ("trials", "best", "slice", "deciding", "query"),
    "explain": ("explanation", "effect", "slices", "notes"),
    "predict": ("predict-file", "findings", "spread", "predictions"),
    "row": ("row-summary", "row-columns", "row-curve", "row-changes"),
    "runs": ("runs", "run-preview", "query"),
    "log": ("log",),
    "diagnose": ("analyses", "result"),
    "door": ("door", "files", "query"),
}

PANELS: dict[str, tuple[str, str]] = {
    "columns": (
        "Columns",
        "The columns of the file with their detected kinds, targets first. The line below the table gives the reason for "
        "the column under the cursor; enter shows the column beside the target. ✓ is a feature, ◎ a target, – an ignored "
        "column, g the group, t the time, w the weight. Missing counts empty cells and spellings such as NA. Unique counts "
        "distinct values. Assoc says how well the column alone predicts the target, from 0 (random guessing) to 1; s sorts "
        "by it. Shape is a histogram: equal-width bins of a numeric column, or the most frequent categories. A kind with * "
        "was set by you; K changes it.",
    ),
    "column": (
        "Column",
        "The column under the cursor, on a terminal of at least 160 columns: why it has its kind and role, its missing and "
        "distinct cells, a histogram, and its warnings. The bins of a numeric column have equal widths; those of other "
        "columns are the most frequent values, the first of which is named. enter compares the column with the target.",
    ),
    "plan": (
        "Plan",
        "What the run will do: a field for every option, with a default chosen from the data. tab goes to the fields; enter"
        " edits one, ←/→ step through usual values, backspace restores the default, and u undoes the last change. • marks "
        "fields that you have changed. The key beside a field edits it from anywhere. T makes the column under the cursor "
        "one more target; each target gets its own run and an equal share of the budget. ▸ estimates what the budget "
        "reaches: models with all folds of their defaults, and how many of them get further trials. The command below "
        "starts the same run without the terminal UI; paste such a command to fill the plan. While the file is read, press "
        "ctrl+r to request the start: the run starts when the plan is ready. Press esc to cancel the request.",
    ),
    "checks": (
        "Checks",
        "Possible problems of the data. The text after the arrow says how tabapp handles each one unless you change it; "
        "enter on one offers the changes of the plan that remedy it.",
    ),
    "preview": (
        "Preview",
        "The first rows of the file, with the target as the first column. A dot is an empty cell. Press a to show all rows.",
    ),
    "table": (
        "All rows",
        "Every row of the file in its order, with its number at the left. Only visible rows are fetched, so large tables "
        "scroll as fast as small ones. A dot is an empty cell; … is a cell that is being fetched. A separate process reads "
        "the rows, so the run does not slow down. Column widths fit a sample of cells; press enter to show a cell in "
        "full. ctrl+← and ctrl+→ move by a page, 0 and $ to the first and last column.",
    ),
    "table-filter": (
        "Search and filter",
        "/ searches all columns and ignores case. f shows only matching rows: a word matches anywhere in the row; "
        "column:text matches in one column; age>40, age<=40 and age=40 compare numbers; a minus negates a term; quotes keep "
        'spaces together, as in "new york". A column name may be shortened to any unambiguous part.',
    ),
    "leaderboard": (
        "Leaderboard",
        "Each model at its best trial so far, best first. The number after # is the trial; trial 0 uses the default "
        "hyperparameters. Scores are out of fold: each row is predicted by a model that was not fitted on it. ± is half the "
        "width of the 95 % bootstrap interval. Folds shows the score of each fold of the best trial: higher is better, … is in "
        "progress, · is missing. ≈ marks a model that is not clearly behind the ensemble, with the difference of its score on the "
        "same rows. Such a model can look better: it is the best of many trials on the rows that score it, while the weights of "
        "the ensemble are scored on rows that did not choose them. w explains the place of a model. ◔ marks a score of only "
        "some folds, ranked below complete scores; ~ marks the best so far of a first fold in training, on its validation rows for "
        "early stopping. Fit is the training time of all folds, ~ the expected time of one. Models that wait are in the order in "
        "which they start. Models that fail or are skipped keep a row; enter shows the reason. Models not "
        "started within the budget are folded into one line; enter on it shows or hides them.",
    ),
    "score-curve": (
        "Score of the ensemble",
        "The cross-fitted score of the ensemble over the time of fitting, between the lines of its 95 % interval. A new ensemble "
        "can have a lower score than the one before, since each is scored on rows that did not choose its weights. ▲ names the "
        "models that joined.",
    ),
    "now": (
        "Now",
        "The fits in progress: model, trial, fold, last step, and the time that is left by earlier fits of the model. Next are "
        "the fits that follow if no result changes the plan; why is the reason of the first. Waiting models are in their order, "
        "with the expected time of one fold. Those that would end in time get all of their folds, one model after the other; "
        "others may start later, when a fit ends early or nothing else uses the time.",
    ),
    "verdict": (
        "Result",
        "What the run found, in plain words: the score with its interval, compared with the best constant prediction; whether the "
        "best single model differs from the ensemble; what was not started, and what the second half of the time gained; "
        "calibration; the weakest group; and the most important columns. esc hides it and shows it again; w on ★ shows all of it.",
    ),
    "tuning": (
        "Tuning",
        "For the model under the cursor: the best score after each trial and the learning curve of the running fit on its "
        "validation rows for early stopping. For the ensemble: its members and their weights.",
    ),
    "importances": (
        "Importance",
        "How much the metric worsens when the values of a column are shuffled. The right side shows the share of attention "
        "that a transformer gives the column. Screen 5 compares the two.",
    ),
    "resources": (
        "Resources",
        "CPU use of the run in percent of one core, its memory, and the same for the GPU if there is one.",
    ),
    "feed": (
        "Events",
        "Recent events, newest first. The file events.jsonl in the run folder has all of them.",
    ),
    "models": (
        "Models",
        "All models of the run, in the order of the leaderboard. The panels at the right show the model under the cursor. "
        "Press space to mark a model (● or ◆): one mark compares it with the model under the cursor, two marks compare those two. "
        "Press enter to show the details of a model, or to unfold the models not started.",
    ),
    "model-facts": (
        "Model",
        "The model at its best trial: score with its 95 % interval, status and reason, training time of all folds, time to "
        "predict 1,000 rows with all fold models, and weight in the ensemble.",
    ),
    "folds": (
        "Folds",
        "The score on the held-out rows of each fold, placed between the lowest and highest score shown. Spread is the "
        "standard deviation; two models with widely overlapping folds do not differ clearly. The leaderboard scores all rows "
        "together, so its score can differ slightly from this mean.",
    ),
    "parameters": (
        "Hyperparameters",
        "The hyperparameters of the best trial. ≠ marks differences from the defaults (trial 0), or between two models.",
    ),
    "pictures": (
        "Charts",
        "The first line names the charts: the shown one is marked, and faint ones cannot be drawn yet. ←/→ change the "
        "chart, z fills the screen with it, and S saves its picture or numbers. "
        "Learning curve: the score on the validation rows for early stopping after each number of "
        "trees or epochs, one line per fold. All other charts use out-of-fold predictions. Confusion matrix: rows by true "
        "class (down) and predicted class (across); recall is the share of a class that is found, precision the share of "
        "a prediction that is correct. ROC: true positive rate (up) against false positive rate (across); the dotted line "
        "is random guessing. Precision-recall: for rare positive classes; the dotted line is their share. Calibration: "
        "observed against predicted probability with 95 % intervals; calibrated probabilities are on the dotted line, and "
        "the bars count rows. Predicted against true: good predictions are near the diagonal. Residuals: true minus "
        "predicted; the box covers the inner half, the whiskers the inner 90 %. By prediction: a funnel means that errors "
        "grow with the prediction.",
    ),
    "trials": (
        "Trials",
        "Every set of hyperparameters that was tried; trial 0 uses the defaults. ★ is the best trial of its model, ● a "
        "running trial (its score is the mean of the complete folds), ⊘ a trial pruned because it was clearly worse, ✗ a "
        "failed trial. The parameters shown are those that differ between trials of the model.",
    ),
    "best": (
        "Best so far",
        "The best score of the model under the cursor after each complete trial. A line that stays flat means that more "
        "trials are unlikely to help.",
    ),
    "slice": (
        "Slice",
        "One point per complete trial of the model: the value of one hyperparameter (across) and the score (up). ★ is the "
        "best trial, ○ the trial under the cursor. Other hyperparameters also differ, so a pattern is a hint, not proof.",
    ),
    "deciding": (
        "Hyperparameter importance",
        "How strongly each hyperparameter separates the best quarter of the model's trials from the rest, as shares of the "
        "total (PED-ANOVA). It needs ten complete trials and is only a hint below about twenty. A small share means that "
        "the tried values make little difference, not that every value would work. The arrow keys visit slices in this order.",
    ),
    "query": (
        "Filters",
        "A word matches anywhere in the row; field:text matches in one field; score>.93, seconds<30 and times such as 5m "
        "compare; a minus negates a term: model:xgb score>.93 -pruned. Hyperparameters are fields too, and a field name may "
        "be shortened: rate>.1 means learning_rate>.1.",
    ),
    "predict-file": (
        "Predict",
        "Predict the rows of another file with the bundle of this run. The file needs the feature columns, in any order, and "
        "no target. Predictions keep the order and number of rows. Classification writes a probability per class, "
        "regression the bounds of a 90 % interval. t chooses a public key: a bundle that it has not signed is rejected.",
    ),
    "findings": (
        "Checked against the training schema",
        "✗ missing: a feature column is not in the file. ✗ changed: a column has another kind than in training. ! new values: "
        "categories not seen in training, predicted as unknown. ! cells: some cells cannot be read and count as missing. "
        "– extra: an unknown column, which is ignored.",
    ),
    "row-summary": (
        "Row",
        "The prediction of one row. Its output, the probability of the predicted class or the predicted number, is the base "
        "plus the contributions. The base is the mean output for the sample rows in the bundle.",
    ),
    "row-columns": (
        "Contributions",
        "How much each column moves the output from the base: Shapley values of the whole ensemble, in units of the output. "
        "± is the half-width of the 95 % interval of sampled values. enter changes a value (✎), and prediction and "
        "contributions follow; u undoes all changes. Contributions describe the model, not causes.",
    ),
    "row-curve": (
        "What if",
        "The output of this row at other values of the column under the cursor, while all other values stay. ● is the "
        "present value.",
    ),
    "row-changes": (
        "Nearest changes",
        "f searches for changes of up to three columns that reach another class or a number. Only values that training rows have "
        "are tried: levels, quantiles, and values of the sample rows. space fixes a column (■), which then keeps its value. "
        "Answered from lists the training rows with the largest weights, for models that predict from rows.",
    ),
    "spread": (
        "New rows over training",
        "How the predictions of the file are distributed, and those of the training rows, each of which was predicted by models "
        "that had not seen it. Curves that differ clearly mean that the new rows differ from those of training.",
    ),
    "predictions": (
        "Predictions",
        "The first predictions with the row of the file to which each belongs, and the input columns beside them, the most "
        "important first. The file named at Output has all of them. r explains the prediction of a row.",
    ),
    "runs": (
        "Runs",
        "All runs in this runs folder, newest first; ▸ is the open run. A stopped run has no engine and no result; press r to "
        "resume it from its last complete fit. Opening another run lets the current one continue in the background. The Bests "
        "column shows how the best score changed. Mark two runs with space (●) and press c to compare them on the rows that both "
        "have scored.",
    ),
    "run-preview": (
        "Run",
        "The run under the cursor: how its best score changed over time, its plan, note, tags and bundle. With several marked "
        "runs of the same metric, their curves are drawn together.",
    ),
    "door": (
        "Runs",
        "The runs of this runs folder: pinned ones first, then the newest. ● is running, ✓ complete, ■ stopped, ✗ failed. Running "
        "ones are read again every two seconds. Press enter to open a run; a run that is open now continues in the background. "
        "Screen 7 of an open run compares runs.",
    ),
    "files": (
        "Files here",
        "The tables in the working folder with their size; ✓ counts the runs of a table. Press enter to open the Data screen of a "
        "file, where ctrl+r starts its run. Press o for a file in another folder.",
    ),
    "log": (
        "Log",
        "The last events of the run, and the output of its engine and libraries, which has no time. While the cursor is on "
        "the last line, the log follows new lines. The files are events.jsonl and log.txt in the run folder.",
    ),
    "analyses": (
        "Diagnose",
        "Every analysis of a finished run: ✓ done, with its result in a few words; a spinner with the share of the work while it "
        "runs; … queued; ✗ without a result; · not asked for; – not possible, with the reason at the right. Press enter to ask for "
        "one. Several can be asked for; they run one after the other, each in a process of its own, on whichever screen you are. "
        "Those that are asked for during the run start after it. x cancels the running one, or removes one that waits. Results are "
        "kept in the run; resuming the run removes them.",
    ),
    "result": (
        "Result",
        "The conclusion first, then the chart, then the numbers. ←/→ move the line of the threshold, and enter keeps the threshold "
        "at the line; on other results, they show the next attention map, the next rate of the groups, or the next chart. Faint "
        "lines bound 95 % intervals.",
    ),
    "explanation": (
        "Importance",
        "Two measures of feature importance. Permutation shuffles a column and measures the loss of score. Attention is the "
        "weight that a network gives a column, and selection how much NODE or TabNet reads it; m chooses the model. The thin line "
        "ends at the upper end of the 95 % interval over folds. — is a column outside of the attention. Attention alone "
        "misleads: a model can attend to a column without using it, and later layers mix columns. Trust permutation where the two "
        "differ. Agree compares the ranks of a column: ● same, ◐ near, ○ apart. ▸ is a group of correlated columns, shuffled "
        "together; press enter to open it. d goes to the Diagnose screen.",
    ),
    "effect": (
        "Effect",
        "Partial dependence: the mean prediction on held-out rows when the feature under the cursor is set to each value and "
        "all other features keep theirs. Faint lines bound the inner 80 % of rows; where they diverge, the effect depends on "
        "other features. The second line shows accumulated local effects (ALE), which use only values near those of each "
        "row: trust them where both lines differ. The bars count rows with each value. Some combinations of values never "
        "occur in the data, so do not read the curve as a causal effect.",
    ),
    "slices": (
        "Largest errors",
        "Slices of the table (fifths of a numeric range, frequent categories, missing values) with the largest out-of-fold "
        "errors of the ensemble. Error is the mean log loss, or the mean absolute error for regression. Among many slices "
        "some look bad by chance: a slice needs 30 rows and 1 % of the table, its difference is shrunk toward 0, and its "
        "interval is widened for the number of slices. ● marks slices whose interval stays above 0. Press enter to show "
        "the details.",
    ),
    "notes": (
        "How to read this",
        "Which rows and models the importances come from, and how well the two measures agree.",
    ),
}
