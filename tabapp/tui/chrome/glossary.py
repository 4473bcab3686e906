"""What the cells of tables, the signs and the words of the screens mean."""

from __future__ import annotations

SCORE = "score"
"""Stands for the title of the run's metric in `CELLS`."""

CELLS: dict[str, dict[str, str]] = {
    "leaderboard": {
        "#": "place on the leaderboard; scores of only some folds come after complete ones",
        "Model": "the number after # is its best trial so far; trial 0 has the default hyperparameters",
        SCORE: "out-of-fold score: each of the {rows} rows is predicted by a model that was not fitted on it",
        "± 95%": "half of the 95 % bootstrap interval of the score over {rows} rows; models within it do not differ clearly",
        "Folds": "score of each fold of the best trial, higher is better; … is in progress, · is missing",
        "Fit": "training time of all folds of the best trial; ~ is the expected time of one fold",
        "Status": "trials so far, what runs now, or why the model does not run; ◆ marks members of the ensemble",
    },
    "models": {
        "Model": "the number after # is its best trial so far; trial 0 has the default hyperparameters",
        SCORE: "out-of-fold score: each of the {rows} rows is predicted by a model that was not fitted on it",
    },
    "parameters": {
        "name": "hyperparameter of the best trial",
        "value": "its value there",
        "default": "its value in trial 0",
        "member": "model of the ensemble",
        "weight": "its share of the ensemble's prediction, chosen on out-of-fold predictions",
    },
    "trials": {
        "#": "number of the trial of its model; 0 has the default hyperparameters",
        SCORE: "out-of-fold score of all folds, or the mean of those that are complete",
        "Status": "★ is the best of its model, ⊘ was pruned because it was clearly worse",
        "Time": "training time of its folds",
        "Parameters": "the values that differ between trials of the model",
    },
    "columns": {
        "kind": "how the column is read; * was set by you",
        "miss": "share of empty cells, with spellings such as NA",
        "unique": "number of distinct values",
        "shape": "histogram of the numbers, or the most frequent categories",
        "values": "the range of the numbers, or the most frequent categories with their shares",
    },
    "explanation": {
        "feature": "column of the table; ▸ is a group of correlated columns, shuffled together",
        "permut.": "how much the metric worsens when the values of the column are shuffled",
        "permutation": "how much the metric worsens when the values of the column are shuffled",
        "±": "half of the 95 % interval over shuffles; a value below it may be chance",
        "agree": "whether attention gives the column a similar rank: ● same, ◐ near, ○ apart",
    },
    "slices": {
        "where": "the rows with these values",
        "rows": "how many rows of the table that are",
        "error": "mean error of the ensemble on them, out of fold",
        "wrong": "share of them that is predicted wrongly",
        "worse by": "their error less that of all rows, shrunk toward 0 for few rows",
        "adjusted interval": "95 % interval of that difference, widened for the number of slices; above 0, chance is unlikely",
    },
    "findings": {
        "column": "column of the file, or of the training data where the file lacks it",
        "compared with the training data": "what differs, and how its cells are read",
    },
    "predictions": {
        "row": "row of the file, from 1",
        "prediction": "what the ensemble predicts",
        "low": "lower bound of the 90 % interval of the prediction",
        "high": "upper bound of the 90 % interval of the prediction",
    },
    "row-columns": {
        "value": "value of the row; ✎ was changed by you",
        "±": "half of the 95 % interval of the sampled contribution",
    },
    "runs": {
        "Best": "best score of the run by its own metric; scores of other metrics cannot be compared",
        "Bests": "how the best score changed during the run",
        "Took": "time from the first to the last event",
    },
}
"""The meaning of cells by table and column title; `{rows}` is the number of rows that are scored."""

SIGNS: tuple[tuple[str, str], ...] = (
    ("★", "the best model, or the best trial of a model"),
    ("◆", "a member of the ensemble, and the second of two compared models"),
    ("◇", "excluded from the ensemble by you"),
    ("◔", "a score of only some folds"),
    ("≈", "not clearly behind the ensemble, with the difference on the same rows"),
    ("~", "the best so far of a first fold in training, on its validation rows"),
    ("●", "marked, running, or the present value"),
    ("⊘", "pruned: clearly worse than trials before"),
    ("✗ ■ ‖", "failed, stopped, paused"),
    ("▸", "more lines or columns behind it: press enter"),
    ("≠", "differs from the default or from the other model"),
)

WORDS: tuple[tuple[str, str], ...] = (
    ("bundle", "the file with the fitted ensemble; it predicts without this run"),
    ("calibrated", "of the rows predicted with 70 %, about 70 % come true"),
    ("cross-fitted", "scored on rows that had no part in choosing the weights"),
    ("ensemble weight", "share of a model in the ensemble's prediction; they sum to 1"),
    ("fold", "an equal part of the rows, predicted by a fit on the others"),
    ("hyperparameter", "a setting of a model from before training, as its depth"),
    ("importance", "loss of score when the values of a column are shuffled"),
    ("interval", "where the score is in 95 % of bootstrap samples of the rows"),
    ("out of fold", "predicted by a model that was not fitted on the row"),
    ("pruned", "ended early because it was clearly worse than other trials"),
    ("slice", "the rows with one value, or a range of values, of a column"),
    ("trial", "one set of hyperparameters of a model, fitted on the folds"),
    ("validation rows", "rows kept aside in a fit to stop its training in time"),
)
