"""Dialog: choose the models of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from tabapp.run.record.records import ModelChoice as Known
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Dialog
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, count, file_size, short_seconds

KEYS = "space  include   a  all   n  none   →  presets   enter  use these models   esc  cancel"
COLUMNS = (
    Column("", width=1),
    Column("Model", least=16),
    Column("Source", priority=3),
    Column("Fit", "right", priority=1),
    Column("Memory", "right", priority=4),
    Column("Device", priority=5),
    Column("", flexible=True, least=12, priority=2),
)


class ModelChoice(Dialog):
    """The models with their expected time and memory on the table. The answer is their names joined by commas, or an empty text for
    those that compete by default."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "include", show=False, priority=True),
        Binding("enter", "accept", show=False, priority=True),
        Binding("right,l", "presets(True)", show=False, priority=True),
        Binding("left,h", "presets(False)", show=False, priority=True),
        Binding("a", "every(True)", show=False, priority=True),
        Binding("n", "every(False)", show=False, priority=True),
    ]

    def __init__(self, models: Sequence[Known]) -> None:
        super().__init__("Models")
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
        seconds = sum(model.seconds or 0.0 for model in self._models if model.name in self._chosen)
        total = f"{count(len(self._chosen), 'model')} · one fit of each takes about {short_seconds(seconds)}"
        self.query_one("#message", Static).update(Content(total if self._chosen else "No model is chosen."))

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
                Content.styled(model.paper, MUTED),
                Content("—" if model.seconds is None else short_seconds(model.seconds)),
                Content.styled("—" if model.n_bytes is None else file_size(model.n_bytes), MUTED),
                Content.styled(model.device, MUTED),
                Content.styled(model.reason or "", MUTED),
            ),
        )

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

    @on(Table.Selected)
    def action_accept(self) -> None:
        if not self._chosen:
            self.query_one("#message", Static).update(Content.styled("Choose at least one model.", "$error"))
            return
        usual = {model.name for model in self._models if ":" not in model.name and model.reason is None}
        names = [model.name for model in self._models if model.name in self._chosen]
        self.dismiss("" if set(names) == usual else ",".join(names))


def _base(name: str) -> str:
    return name.partition(":")[0]
