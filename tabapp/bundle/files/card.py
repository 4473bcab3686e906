"""The model card of a bundle: what it predicts, its scores, its data and its limits.

Mitchell et al.: "Model Cards for Model Reporting", FAT* 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.bundle.files.records import Ensemble, Manifest, MetricValue, TargetsManifest
from tabapp.data.schema import Schema
from tabapp.markdown import table
from tabapp.metrics import known
from tabapp.models.contract import MONOTONIC
from tabapp.printable import multi_line, one_line
from tabapp.warning_text import sentences
from tabapp.weights import store

_MAX_LEADERBOARD_ROWS = 15
_MAX_WARNINGS = 50


def model_card(manifest: Manifest, schema: Schema, ensemble: Ensemble) -> str:
    """The model card in Markdown, made from the manifest, the schema and the ensemble alone."""
    sections = [
        f"# {_cell(manifest.name or manifest.run)}",
        f"Predicts **{_cell(manifest.target)}** ({manifest.task}). Made by {manifest.created_by} on {manifest.created_at}, run "
        f"`{manifest.run}`, seed {manifest.seed}.",
        "## Scores",
        table(["metric", "score", "95 % interval"], [_metric_row(value) for value in manifest.metrics]),
        f"Validation: {manifest.validation}. The scores are those of the ensemble on rows that it was not fitted on. The intervals "
        "are bootstrap intervals over these rows.",
        "## Data",
        table(["", ""], [[str(key), _cell(str(value))] for key, value in manifest.data.items()]),
        _classes(schema),
        table(
            ["column", "kind", "role", "missing", "distinct"],
            [[_cell(c.name), c.kind, c.role, f"{c.missing:,}", f"{c.unique:,}"] for c in schema.columns_of_file],
        ),
        _warnings(schema),
        "## Models",
        table(
            ["model", "trial", "weight", "fold models"],
            [[c.model, str(c.trial), f"{c.weight:.3f}", str(len(c.folds))] for c in ensemble.candidates],
        ),
        "A prediction is the weighted mean of these models. Each of them is the mean of its fold models.",
        _constraints(ensemble),
        _leaderboard(manifest),
        "## Use",
        f"`tabapp predict FILE.tabapp DATA.csv -o OUT.csv`; `tabapp inspect FILE.tabapp` shows the contents. Made with Python "
        f"{manifest.python} on {manifest.platform}, "
        + ", ".join(f"{k} {v}" for k, v in manifest.libraries.items())
        + ".",
        _privacy(manifest),
        _pretrained(manifest),
        "## Limits",
        _limits(schema, ensemble),
    ]
    return multi_line("\n\n".join(section for section in sections if section) + "\n")


def card_of_targets(manifest: TargetsManifest, manifests: Sequence[Manifest]) -> str:
    """The card of a bundle of several targets in Markdown, from its manifest and those of its bundles."""
    rows = [
        [_cell(each.target), each.task, *(_metric_row(each.metrics[0]) if each.metrics else ["", "", ""])]
        for each in manifests
    ]
    sections = [
        f"# {_cell(manifest.name or manifest.run)}",
        f"Predicts {len(manifests)} targets. Made by {manifest.created_by} on {manifest.created_at}, run `{manifest.run}`. "
        "No target is a feature of another.",
        table(["target", "task", "metric", "score", "95 % interval"], rows),
        "The bundle of each target in `targets/` has its own card. `tabapp predict FILE.tabapp DATA.csv -o OUT.csv` predicts all "
        "targets, and `tabapp export FILE.tabapp --target NAME -o ONE.tabapp` writes the bundle of one.",
    ]
    return multi_line("\n\n".join(sections) + "\n")


def _privacy(manifest: Manifest) -> str:
    if not manifest.training_rows_in:
        return ""
    keepers = ", ".join(manifest.training_rows_in)
    return (
        f"**This file contains training rows** as features, which {keepers} uses to predict. Share it only as you would share "
        "the data."
    )


def _pretrained(manifest: Manifest) -> str:
    """Which weights the bundle needs, whether it contains them, and where they come from."""
    parts: list[str] = []
    contained = [each for each in manifest.pretrained if store.is_shipped(each.weights.name)]
    others = [each for each in manifest.pretrained if each not in contained]
    for members, title in (
        (contained, "This file contains the weights of its prior-fitted network:"),
        (others, "This file does not contain the weights of its pre-trained models, which `tabapp weights` installs:"),
    ):
        lines = [
            f"- `{each.model}` reads its rows with the weights {_cell(each.weights.name)} ({each.weights.n_bytes / 1e6:,.0f} MB, "
            f"license {_cell(each.weights.license)}, SHA-256 `{_cell(each.weights.sha256)}`). They were made from synthetic "
            "tables only."
            for each in members
        ]
        parts += ["\n".join([title, "", *lines])] if lines else []
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    """A text from data, escaped so that it cannot end the cell, add HTML, or become a link."""
    escaped = text.replace("\\", "\\\\").replace("<", "&lt;").replace("](", "]\\(")
    return one_line(escaped.replace("\n", " "))


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "–"


def _metric_row(value: MetricValue) -> list[str]:
    metric = known(value.name)
    title = metric.title if metric else value.name
    return [title, _number(value.score), f"{_number(value.low)} to {_number(value.high)}"]


def _warnings(schema: Schema) -> str:
    """What looks wrong with the training table, and what was left out."""
    if not schema.warnings:
        return ""
    lines = sentences(schema.warnings)
    more = [f"{len(lines) - _MAX_WARNINGS:,} more"] if len(lines) > _MAX_WARNINGS else []
    return "Warnings about the data:\n\n" + "\n".join(f"- {_cell(line)}" for line in [*lines[:_MAX_WARNINGS], *more])


def _classes(schema: Schema) -> str:
    if not schema.classes:
        return ""
    listed = ", ".join(f"`{_cell(label)}`" for label in schema.classes[:50])
    more = f" and {len(schema.classes) - 50} more" if len(schema.classes) > 50 else ""
    return f"Classes: {listed}{more}." + (" The last is the positive class." if schema.task == "binary" else "")


def _constraints(ensemble: Ensemble) -> str:
    """The monotonic constraints that all members keep to."""
    first, *others = [candidate.params.get(MONOTONIC) for candidate in ensemble.candidates] or [None]
    if not isinstance(first, dict) or any(other != first for other in others):
        return ""
    directions = {str(column): "rises" if sign == 1 else "falls" for column, sign in first.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    listed = "; ".join(f"`{_cell(column)}`: only {direction}" for column, direction in directions.items())
    return f"Constraints on how the prediction changes when a column rises and all others stay: {listed}."


def _leaderboard(manifest: Manifest) -> str:
    rows = [
        [
            str(row.get("rank", "")),
            _cell(str(row.get("title") or row.get("model", ""))),
            _number(row.get("score")),
            _cell(f"{row['status']}: {row['reason']}" if row.get("reason") else str(row["status"])),
        ]
        for row in manifest.leaderboard[:_MAX_LEADERBOARD_ROWS]
        if "status" in row
    ]
    return table(["rank", "model", manifest.metric, "status"], rows)


def _half_width(ensemble: Ensemble) -> str:
    mean, scale = ensemble.residual_quantile or 0.0, ensemble.interval_scale
    if scale is None:
        return f"{mean:.6g}"
    low, high = min(scale.factors) * mean, max(scale.factors) * mean
    return f"{low:.6g} to {high:.6g}, depending on the prediction"


def _limits(schema: Schema, ensemble: Ensemble) -> str:
    lines = [
        "- The scores are valid for rows like the training rows, not for data whose distribution has changed.",
        "- Categories that are not in the training data count as unknown, and empty cells as missing. Neither is an error.",
    ]
    if ensemble.threshold is not None:
        lines.append(
            f"- Rows are labeled `{_cell(schema.classes[1])}` if the probability of this class is at least "
            f"{ensemble.threshold:.6g}. The scores above use the more probable class."
        )
    if schema.task == "regression" and ensemble.residual_quantile is not None:
        lines.append(
            f"- `low` and `high` are the prediction ± {_half_width(ensemble)}, a 90 % interval on average over rows like the "
            "training rows, not for every subgroup."
        )
    lines.append("- It was not tested for fairness between groups of people.")
    return "\n".join(lines)
