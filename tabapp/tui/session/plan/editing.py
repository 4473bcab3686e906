"""Edits of the plan: a dialog for each field, chosen by the kind of its option."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tabapp.errors import TabappError
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.option import Choice as OptionChoice
from tabapp.run.options.option import Option as RunOption
from tabapp.run.options.places import check_file, checked_out, reject_inputs
from tabapp.run.record import events as ev
from tabapp.run.record.records import RemedyView
from tabapp.tui.dialogs.basic import Choice, Option
from tabapp.tui.dialogs.edit_value import EditValue
from tabapp.tui.dialogs.file_choice import FileChoice, entries
from tabapp.tui.session.host import Host
from tabapp.tui.session.plan_changes import Answered
from tabapp.tui.viewmodels.plan_fields import Field, Step, options_of, plan_fields

NOTHING = "none"
MOST_BESIDE = 12
"""Tables beside the own one that are offered first."""
_TITLES = {
    "validation": "Validation: how models are scored",
    "budget": "Budget: time for the whole run",
    "patience": "Patience: when fitting ends before its budget",
}
_STEP_NOTES: Mapping[str, Mapping[str, str]] = {
    "validation": {
        "auto": "chosen by the number of rows, the default",
        "holdout": "scores on one held-out part of the rows; fast",
    },
    "quality": {
        "fast": "default parameters only",
        "balanced": "tuned",
        "best": "tuned without shortcuts",
    },
    "task": {"auto": "detected from the target"},
}


class PlanEditing:
    """Opens dialogs for the fields of a plan, and requests what the user enters."""

    def __init__(self, app: Host) -> None:
        self._app = app

    @property
    def _plan(self) -> ev.PlanMade:
        plan = self._app.snapshot().state.plan
        assert plan is not None
        return plan

    def fields(self) -> list[Field]:
        """All fields of the current plan."""
        return plan_fields(self._plan, self._app.planning.config, self._app.planning.changed)

    def _field(self, name: str) -> Field:
        return next(field for field in self.fields() if field.name == name)

    def change(self, options: Mapping[str, Any], answered: Answered | None = None) -> None:
        """Request other values of fields of the configuration, as plain JSON values."""
        self._app.change_plan(msgspec.to_builtins(dict(options)), answered)

    def edit(self, name: str) -> None:
        """Open the dialog of a field."""
        option = OPTIONS[name]
        match name:
            case "target":
                self._choose_target()
            case "metric":
                self._choose_metric()
            case "models":
                self._choose_models()
            case _ if option.completion == "columns":
                self._choose_column(option)
            case _ if option.completion == "tables":
                self._choose_table(option)
            case _ if self._field(name).steps:
                self._choose_step(self._field(name))
            case _:
                self._enter(option)

    def step(self, name: str, direction: int) -> str:
        """Request the next value of a field. Returns why there is none, or an empty text."""
        field = self._field(name)
        if not field.steps:
            return f"{field.label} has no steps. Press enter to edit it."
        found = field.beside(direction)
        if found is None:
            end = "last" if direction > 0 else "first"
            return f"{field.text} is the {end} value of {field.label}. Press enter to type another one."
        self.change(found.options)
        return ""

    def reset(self, name: str) -> None:
        """Request the default of a field."""
        options = {OPTIONS[each].field: OPTIONS[each].default for each in options_of(name)}
        config = self._app.planning.config
        if all(getattr(config, field) == default for field, default in options.items()):
            self._app.notify(f"{OPTIONS[name].title} has its default.", timeout=3)
        else:
            self.change(options)

    def apply(self, remedy: RemedyView) -> None:
        """Request the change of a remedy, beside what the option says already."""
        option = OPTIONS.get(remedy.option)
        if option is None:
            return
        value, current = option.parse(remedy.value), self._app.planning.value(option.field)
        added = option.combine([current, value]) if option.is_repeatable and remedy.option != "target" else value
        self.change({option.field: added})

    # -- dialogs ------------------------------------------------------------------------------------------------------

    def _choose_target(self) -> None:
        schema = self._app.snapshot().state.schema
        columns = schema.columns if schema is not None else ()
        options = [
            Option(column.name, column.name, " · ".join(word for word in (column.kind, column.summary) if word))
            for column in columns
        ]
        dialog = Choice(
            "Target: the column to predict",
            options,
            current=self._plan.target,
            hint="type to filter, or several targets: a,b",
            parse=str.strip,
        )
        self._app.push_screen(dialog, lambda name: self.change({"target": name}) if name else None)

    def _choose_metric(self) -> None:
        plan, is_binary = self._plan, self._plan.task == "binary"
        dialog = Choice(
            "Metric: the score to compare models by",
            [Option(metric.name, metric.name, metric.description) for metric in plan.metrics],
            current=plan.metric,
            hint="or type prices of errors: cost:fn=5,fp=1" if is_binary else "type to filter",
            parse=str.strip if is_binary else None,
        )
        self._app.push_screen(dialog, lambda name: self.change({"metric": name}) if name else None)

    def _choose_models(self) -> None:
        # The first paint does not wait for what only an action needs.
        from tabapp.tui.dialogs.model_choice import ModelChoice

        plan = self._plan
        # A plan of an earlier version lists only the models that it has.
        choices = plan.choices or tuple(
            ev.ModelChoice(
                name=model.name,
                title=model.title,
                family=model.family,
                reason=model.reason,
                is_planned=model.reason is None,
            )
            for model in plan.models
        )
        self._app.push_screen(
            ModelChoice(choices, lambda: dict(self._app.planning.value("fixed")), self._fix), self._models_chosen
        )

    def _fix(self, fixed: dict[str, str], models: Sequence[str], answered: Answered) -> None:
        self.change({"fixed": fixed, "models": list(models), "exclude": []}, answered)

    def _models_chosen(self, names: str | None) -> None:
        if names is not None:
            self.change({"models": names.split(",") if names else [], "exclude": []})

    def _choose_column(self, option: RunOption) -> None:
        schema = self._app.snapshot().state.schema
        current = self._app.planning.value(option.field)
        if option.is_repeatable:
            self._enter(option)
            return
        options = [Option("", NOTHING, "the default")]
        options += [
            Option(column.name, column.name, " · ".join(word for word in (column.kind, column.summary) if word))
            for column in (schema.columns if schema is not None else ())
            if column.role != "target"
        ]
        dialog = Choice(
            title_of(option),
            options,
            current=current or "",
        )
        self._app.push_screen(dialog, lambda name: None if name is None else self.change({option.field: name or None}))

    def _choose_table(self, option: RunOption) -> None:
        data = Path(self._app.config.data)
        beside = [Path(path) for path, is_folder, _ in entries(f"{data.parent}/") if not is_folder]
        recent = [(path, "beside the table") for path in beside if path != data]
        dialog = FileChoice(title_of(option), recent[:MOST_BESIDE])
        self._app.push_screen(dialog, lambda path: self._take_table(option, path) if path else None)

    def _take_table(self, option: RunOption, path: str) -> None:
        try:
            self.change({option.field: self.checked(option, path)})
        except TabappError as error:
            self._app.notify(str(error), severity="warning", timeout=8)

    def _choose_step(self, field: Field) -> None:
        option = OPTIONS[field.name]
        current = _label(field, field.steps[int(field.place)]) if field.place >= 0 and not field.place % 1 else ""
        dialog = Choice(
            title_of(option),
            [Option(_label(field, step), _label(field, step), self._note(field, step)) for step in field.steps],
            current=current,
            hint=_hint(OPTIONS["folds"] if field.name == "validation" else option),
            parse=None if isinstance(option, OptionChoice) and field.name != "validation" else self._parse(field),
        )
        self._app.push_screen(dialog, lambda answer: self._step_chosen(field, answer) if answer else None)

    def _note(self, field: Field, step: Step) -> str:
        note = _STEP_NOTES.get(field.name, {}).get(step.label, "")
        here = field.name == "validation" and step.label == "auto" and field.place == 0
        return f"{note}: {field.text}" if here else note

    def _parse(self, field: Field) -> Any:
        """Reads a typed value, and marks it as one that is none of the steps."""
        option = OPTIONS["folds" if field.name == "validation" else field.name]

        def parse(text: str) -> str:
            option.read(text)
            return f"={text}"

        return parse

    def _step_chosen(self, field: Field, answer: str) -> None:
        if not answer.startswith("="):
            self.change(next(step.options for step in field.steps if _label(field, step) == answer))
        elif field.name == "validation":
            self.change({"validation": "cv", "folds": OPTIONS["folds"].read(answer[1:])})
        else:
            option = OPTIONS[field.name]
            self.change({option.field: option.read(answer[1:])})

    def _enter(self, option: RunOption) -> None:
        value = self._app.planning.value(option.field)
        default = msgspec.to_builtins(option.default)
        text = "" if msgspec.to_builtins(value) == default else option.text(value)
        dialog = EditValue(
            option.title,
            f"{option.help} The same as {option.flag}.",
            text,
            lambda typed: self.checked(option, typed),
            lambda new, answered: self.change({option.field: new}, answered),
            hint=option.expected,
        )
        self._app.push_screen(dialog)

    def checked(self, option: RunOption, text: str) -> Any:
        """The value of a typed text; a file with its whole path.

        Raises:
            TabappError: the value is not valid.
        """
        value = option.read(text)
        if value is None or option.completion not in ("files", "tables"):
            return value
        path = os.path.expanduser(str(value))
        if option.completion == "tables":
            check_file(path)
        else:
            reject_inputs(path, self._tables())
            checked_out(Path(path))
        return str(Path(path).resolve())

    def _tables(self) -> Sequence[str | None]:
        config = self._app.planning.config
        return config.data, config.test, config.unlabelled


def _label(field: Field, step: Step) -> str:
    if field.name == "validation":
        return f"{step.label} folds" if step.number else {"auto": "automatic"}.get(step.label, step.label)
    return step.label


def title_of(option: RunOption) -> str:
    """The title of the dialog of an option: its name and the first clause of its help."""
    clause = re.split(r"[,;:] ", option.summary.rstrip("."))[0]
    summary = f"{clause[:1].lower()}{clause[1:]}"
    return _TITLES.get(option.name, f"{option.title}: {summary}")


def _hint(option: RunOption) -> str:
    return f"or type {option.expected}" if not isinstance(option, OptionChoice) else "type to filter"
