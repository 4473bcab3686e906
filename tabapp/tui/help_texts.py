"""What each panel is and what its numbers mean, as the help screen tells it."""

from __future__ import annotations

from tabapp.tui.actions import View

SCREENS: dict[View, tuple[str, ...]] = {
    "data": ("columns", "plan", "checks", "preview"),
    "run": ("leaderboard", "tuning", "importances", "resources", "feed"),
    "explain": ("explanation", "notes"),
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
        "The first rows as they stand in the file. A dot is an empty cell.",
    ),
    "leaderboard": (
        "Leaderboard",
        "Each model at its best trial so far, best first; the number after # is the trial, and trial 0 is the "
        "model's defaults. The score is out of fold: each row of the table is predicted by a model that was "
        "not fitted on it. ± is half the width of the 95 % bootstrap interval of the score: models within it "
        "of each other are not clearly different. Fit is the training time of all folds. The ensemble's "
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
    "explanation": (
        "Importance",
        "Two ways to ask what matters. Permutation shuffles a column and measures the loss of score. "
        "Attention is where a transformer looks. Agree compares a column's place in both rankings: ● same, ◐ "
        "near, ○ apart.",
    ),
    "notes": (
        "How to read this",
        "What was measured on which rows, and how far both methods agree.",
    ),
}
