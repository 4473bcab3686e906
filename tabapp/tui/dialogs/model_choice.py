"""Dialog: choose the models of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from tabapp.column_names import join_record, split_record
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.units import format_duration
from tabapp.run.record.records import ModelChoice as Known
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Dialog
from tabapp.tui.dialogs.edit_value import EditValue
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, count, file_size, short_reason

KEYS = "space include · a all · n none · → presets · i page · = fix a value · enter use these models · esc cancel"


def _name_and_year(source: Content, width: int) -> Content:
    """The first author and the year of a source."""
    found = re.match(r"(.+?)(?:,| &| et al\.).*( \d{4})", source.plain)
    return source if found is None else Content.styled(found[1] + found[2], MUTED)


def _clause(note: Content, width: int) -> Content:
    """The first clause of a reason; fixed values have one only."""
    clause = short_reason(note.plain)
    begin = note.plain.index(clause)
    return note[begin : begin + len(clause)]


COLUMNS = (
    Column("", width=1),
    Column("Model", least=16),
    Column("Family", priority=6),
    Column("Source", flexible=True, least=18, priority=3, shorten=_name_and_year),
    Column("Fit", "right", priority=1),
    Column("Memory", "right", priority=4),
    Column("Device", priority=5),
    Column("", flexible=True, least=36, priority=2, shorten=_clause),
)


Fix = Callable[[dict[str, str], Sequence[str], Callable[[str], None]], None]
"""Requests hyperparameters by MODEL.NAME and the models of the run, and calls back with why they are refused."""


class ModelChoice(Dialog):
    """The models with their expected time and memory on the table. The answer is their names joined by commas, or an empty text for
    those that compete by default.

    Args:
        fixed: returns the hyperparameters that are fixed, as texts by MODEL.NAME.
        fix: requests others.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "include", show=False, priority=True),
        Binding("enter", "accept", show=False, priority=True),
        Binding("right,l", "presets(True)", show=False, priority=True),
        Binding("left,h", "presets(False)", show=False, priority=True),
        Binding("a", "every(True)", show=False, priority=True),
        Binding("n", "every(False)", show=False, priority=True),
        Binding("i,question_mark", "page", show=False, priority=True),
        Binding("equals_sign", "fix", show=False, priority=True),
    ]

    KEY_HELP = (
        ("space", "Include the model under the cursor, or leave it out."),
        ("a n", "Include all models that this table allows, or none."),
        ("→ ←", "Show or hide the presets of the model."),
        ("i ?", "Show the page of the model: paper, hyperparameters, and when it works well."),
        ("=", "Fix hyperparameters of the model."),
        ("enter", "Use these models."),
    )

    def __init__(self, models: Sequence[Known], fixed: Callable[[], Mapping[str, str]], fix: Fix) -> None:
        super().__init__("Models")
        self._fixed = fixed
        self._fix = fix
        self._models = list(models)
        self._chosen = {model.name for model in models if model.is_planned}
        self._unfolded = {_base(model.name) for model in models if ":" in model.name and model.is_planned}

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="models"):
            yield Table(COLUMNS, id="options")
            yield Static("", id="message")
            yield Static(Content.styled(KEYS, MUTED))

    def on_mount(self) -> None:
        super().on_mount()
        self._fill()
        self.query_one(Table).focus()

    def on_resize(self) -> None:
        self._fill()

    def _shown(self) -> list[Known]:
        """The models in order, each followed by its presets where they are unfolded."""
        shown: list[Known] = []
        for model in self._models:
            if ":" not in model.name:
                shown.append(model)
                if model.name in self._unfolded:
                    shown += [other for other in self._models if other.name.startswith(f"{model.name}:")]
        return shown

    def _fill(self) -> None:
        shown = self._shown()
        table = self.query_one(Table)
        table.styles.height = min(len(shown) + 1, max(6, self.size.height - 8))
        table.show([self._row(model) for model in shown])
        self._explain()

    def about(self) -> Content:
        return Content(f"Why not: {self._model.reason}" if self._model is not None and self._model.reason else "")

    @on(Table.Moved)
    def _explain(self) -> None:
        """Show why the model under the cursor is skipped, in full, and the time of all chosen models."""
        seconds = sum(model.seconds or 0.0 for model in self._models if model.name in self._chosen)
        total = f"{count(len(self._chosen), 'model')} · one fit of each takes about {format_duration(seconds)}"
        reason = "" if self._model is None else self._model.reason or ""
        total = total if self._chosen else "No model is chosen."
        self.query_one("#message", Static).update(Content(f"{reason}\n{total}"))

    def _row(self, model: Known) -> Row:
        is_preset = ":" in model.name
        has_presets = not is_preset and any(other.name.startswith(f"{model.name}:") for other in self._models)
        folded = "" if not has_presets else " ▾" if model.name in self._unfolded else " ▸"
        style = "" if model.name in self._chosen or model.reason is None else MUTED
        name = f"  {model.name.partition(':')[2]}" if is_preset else model.title + folded
        return Row(
            model.name,
            (
                Content.styled("●" if model.name in self._chosen else " ", "bold $accent"),
                Content.styled(name, style),
                Content.styled(model.family, MUTED),
                Content.styled(model.paper, MUTED),
                Content("—" if model.seconds is None else format_duration(model.seconds)),
                Content.styled("—" if model.n_bytes is None else file_size(model.n_bytes), MUTED),
                Content.styled(model.device, MUTED),
                self._note(model),
            ),
        )

    def _note(self, model: Known) -> Content:
        """The fixed hyperparameters of a model, or why it is skipped."""
        values = self._values_of(model.name)
        if values:
            return Content.styled(" ".join(f"{name}={value}" for name, value in values.items()), "$accent")
        return Content.styled(model.reason or "", MUTED)

    def _values_of(self, model: str) -> dict[str, str]:
        """The fixed hyperparameters of a model by name."""
        parts = {key.partition("."): value for key, value in self._fixed().items()}
        return {name: value for (owner, _, name), value in parts.items() if owner == model}

    @property
    def _model(self) -> Known | None:
        key = self.query_one(Table).key
        return next((model for model in self._models if model.name == key), None)

    def action_include(self) -> None:
        model = self._model
        if model is not None:
            self._chosen ^= {model.name}
            self._fill()

    def action_every(self, include: bool) -> None:
        usual = {model.name for model in self._models if ":" not in model.name and model.reason is None}
        self._chosen = usual if include else set()
        self._fill()

    def action_presets(self, unfold: bool) -> None:
        model = self._model
        if model is None:
            return
        base = _base(model.name)
        self._unfolded = self._unfolded | {base} if unfold else self._unfolded - {base}
        self._fill()
        self.query_one(Table).move_to_key(base if not unfold else model.name)

    def action_page(self) -> None:
        # Imports a parser of Markdown, for which the first screen should not wait.
        from tabapp.tui.dialogs.model_page import ModelPage

        model = self._model
        if model is not None:
            self.app.push_screen(ModelPage(model.name, model.title))

    def action_fix(self) -> None:
        model = self._model
        if model is None:
            return
        self._chosen |= {model.name}
        owned = self._values_of(model.name)
        dialog = EditValue(
            f"Fix hyperparameters of {model.title}",
            "NAME=VALUE, several with commas between them. All trials use these values; i shows the names.",
            join_record(f"{name}={value}" for name, value in owned.items()) if owned else "",
            lambda text: self._read(model.name, text),
            self._send,
            hint="NAME=VALUE such as max_depth=6",
        )
        self.app.push_screen(dialog, lambda _: self._fill())

    def _read(self, model: str, text: str) -> dict[str, str]:
        """All fixed hyperparameters, with those of a model from a text.

        Raises:
            UsageError: the text is not NAME=VALUE.
        """
        prefix = f"{model}."
        others = {key: value for key, value in self._fixed().items() if not key.startswith(prefix)}
        return {**others, **OPTIONS["set"].parse(join_record(f"{prefix}{item}" for item in split_record(text)))}

    def _send(self, fixed: dict[str, str], answered: Callable[[str], None]) -> None:
        self._fix(fixed, self._names(), answered)

    def _names(self) -> list[str]:
        """The chosen models; none if they are those that compete by default."""
        usual = {model.name for model in self._models if ":" not in model.name and model.reason is None}
        names = [model.name for model in self._models if model.name in self._chosen]
        return [] if set(names) == usual else names

    @on(Table.Selected)
    def action_accept(self) -> None:
        if not self._chosen:
            self.query_one("#message", Static).update(Content.styled("Choose at least one model.", "$error"))
            return
        self.dismiss(",".join(self._names()))


def _base(name: str) -> str:
    return name.partition(":")[0]
