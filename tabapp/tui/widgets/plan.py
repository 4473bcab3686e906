"""The plan of a run as a card, with the key that changes each field."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED, count, short_command
from tabapp.warning_text import parts

LABEL_WIDTH = 11
QUALITIES = ("fast", "balanced", "best")
TASKS = {"binary": "binary classification", "multiclass": "multiclass classification", "regression": "regression"}


@dataclass(frozen=True)
class PlanFacts:
    """A plan, or None before there is one, and whether it can be changed now."""

    plan: ev.PlanMade | None
    open: bool


def budget_text(plan: ev.PlanMade) -> str:
    """The budget and the trials of a plan, in words."""
    parts = [] if plan.budget is None else [long_duration(plan.budget)]
    if plan.trials is not None:
        parts.append(f"{count(plan.trials, 'trial')} per model")
    return " · ".join(parts) or "no limit"


def long_duration(seconds: float) -> str:
    """A budget in words: 90 s, 10 min, 2 h."""
    text = format_duration(seconds)
    return f"{text[:-1]} { {'s': 's', 'm': 'min', 'h': 'h'}[text[-1]] }"


def wrap_command(command: str, width: int) -> list[str]:
    """Wrap a command, preferably at spaces and after commas."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)
    wrapper.wordsep_simple_re = re.compile(r"(\s+)|(?<=,)")
    return wrapper.wrap(command)


class Plan(Panel[PlanFacts]):
    """Fields with the keys that change them, and the command that starts the same run."""

    def draw(self, facts: PlanFacts, width: int, height: int) -> list[Content]:
        plan = facts.plan
        if plan is None:
            return Content.styled("The plan appears here once the file is read.", MUTED).wrap(width)
        competing = sum(model.reason is None for model in plan.models)
        known = sum(":" not in choice.name for choice in plan.choices)
        several = len(plan.targets) > 1
        task = TASKS[plan.task] if width >= 40 else plan.task
        device = count(plan.n_gpus, "GPU") if plan.n_gpus > 1 else plan.device
        fields: list[tuple[str, Content, str]] = [
            ("Task", Content(f"{task} of {plan.target}" if several else task), ""),
            (
                "Targets" if several else "Target",
                Content.styled(", ".join(plan.targets or (plan.target,)), "bold $accent"),
                "t",
            ),
        ]
        if plan.task == "binary" and plan.classes:
            fields.append(("Positive", Content(plan.classes[-1]), ""))
        elif plan.classes:
            fields.append(("Classes", Content(str(len(plan.classes))), ""))
        fields += [
            ("Metric", Content(f"{plan.metric_title} of {plan.target}" if several else plan.metric_title), "m"),
            ("Validation", Content(plan.validation.removesuffix(" cross-validation")), "v"),
            ("Budget", Content(budget_text(plan)), "b"),
            ("Quality", _quality(plan.quality, width), "←/→"),
            ("Models", Content(f"{competing} of {known or len(plan.models)}"), "M"),
            ("Device", Content(f"{device} · {count(plan.workers, 'worker')}"), ""),
            ("Seed", Content(str(plan.seed)), ""),
        ]
        lines = [_field(name, value, key if facts.open else "", width) for name, value, key in fields]
        command = wrap_command(short_command(plan.command), max(10, width - 2))
        spare = height - len(lines)
        if spare >= len(command) + 2:
            lines += [Content(""), Content.styled("Equivalent command · y copies it", MUTED)]
            spare -= 2
        if len(command) > spare > 0:
            command = [*command[: spare - 1], command[spare - 1][: width - 3] + " …"]
        return [*lines, *(Content.styled(line, "$secondary") for line in command[: max(0, spare)])]


def _field(name: str, value: Content, key: str, width: int) -> Content:
    room = max(1, width - LABEL_WIDTH - (len(key) + 1 if key else 0))
    shown = value.truncate(room, ellipsis=True)
    line = Content.assemble((f"{name:<{LABEL_WIDTH}}", MUTED), shown)
    if not key:
        return line
    return Content.assemble(line.pad_right(max(0, width - len(key) - line.cell_length)), (key, "bold $primary"))


def _quality(quality: str, width: int) -> Content:
    if width < 44:
        return Content.assemble(("‹ ", MUTED), quality, (" ›", MUTED))
    parts = [Content.styled(name, "bold" if name == quality else MUTED) for name in QUALITIES]
    return Content.styled(" · ", MUTED).join(parts)


def warning_line(warning: ev.WarningView) -> Content:
    """A warning with its column and the action taken."""
    named, message, action = parts(warning)
    return Content.assemble(("⚠ ", "$warning"), (named, "bold"), message, (action, MUTED))


def unlabeled_rows(facts: ev.SchemaInferred) -> str:
    """The numbers of rows without a target, of the table unless a warning says it, and of `--unlabelled`; empty without any."""
    said = any(warning.check == "no_target" for warning in facts.warnings)
    words = (
        [f"{count(facts.rows_without_target, 'row')} without a target"]
        if facts.rows_without_target and not said
        else []
    )
    words += [f"{count(facts.rows_unlabelled, 'row')} of --unlabelled"] if facts.rows_unlabelled else []
    return f"{' and '.join(words)}, for models that learn from unlabeled rows" if words else ""


class Checks(Panel[ev.SchemaInferred]):
    """Possible problems of the data and the actions taken."""

    def on_facts(self, facts: ev.SchemaInferred) -> None:
        number = len(facts.warnings)
        set_titles(self, f"Checks · {count(number, 'warning')}" if number else "Checks")

    def draw(self, facts: ev.SchemaInferred, width: int, height: int) -> list[Content]:
        lines = [warning_line(warning) for warning in facts.warnings]
        if text := unlabeled_rows(facts):
            lines.append(Content.assemble(("ⓘ ", "$primary"), text))
        if not lines:
            return [Content.assemble(("✓ ", "$success"), "No problems found.")]
        if len(lines) > height:
            rest = len(lines) - height + 1
            lines = [*lines[: height - 1], Content.styled(f"… and {rest} more; ? lists all", MUTED)]
        return lines
