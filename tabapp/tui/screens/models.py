"""Models screen: the details of one model, or two compared."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.parts.pictures import Pictures, picture_facts
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import NO_MODEL
from tabapp.tui.screens.steerable import SteerableView
from tabapp.tui.viewmodels.model_card import ModelCard, model_card
from tabapp.tui.viewmodels.model_details import model_details
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.model_panels import CardFacts, Folds, Models, Parameters, comparison


class ModelsView(SteerableView):
    """The list of models, and details of the model under the cursor or of the marked models."""

    CSS_PATH = sheet("models")
    VIEW: View = "models"
    MAIN = "#models"
    BY_TARGET = True
    BINDINGS: ClassVar = bindings_for("models")

    _shown_model: str | None = None
    _picture: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[int | None, tuple[str, ...]] = {}
        """Marked models of targets that are not shown."""

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="models-body"):
            yield Models()
            with Vertical(id="model-card"):
                yield CardFacts("Model", id="model-facts")
                with Horizontal(id="model-parts"):
                    with Vertical(id="model-numbers"):
                        yield Folds("Folds", id="folds")
                        yield Parameters()
                    yield Pictures("Learning curve", id="pictures")

    def draw(self, snapshot: Snapshot) -> None:
        models = self.query_one(Models)
        models.show_state(snapshot.state)
        chosen = self.tabapp.chosen_model
        if chosen is not None and chosen != self._shown_model:
            self._shown_model = chosen
            if models.model != chosen:
                models.unfold_for(chosen, snapshot.state)
                models.show_state(snapshot.state)
                models.move_to_key(chosen)
        self._draw_card(snapshot)

    def _cards(self, snapshot: Snapshot) -> tuple[ModelCard, ...]:
        """The models to show."""
        cards = [model_card(snapshot.state, model) for model in self.query_one(Models).compared]
        return tuple(card for card in cards if card is not None)

    def _draw_card(self, snapshot: Snapshot) -> None:
        facts = comparison(snapshot, self._cards(snapshot))
        self.query_one(CardFacts).show(facts)
        self.query_one(Folds).show(facts)
        self.query_one(Parameters).show_comparison(facts)
        self.query_one(Pictures).show(picture_facts(facts, self._picture))

    @on(Table.Moved, "#models")
    def _cursor_moved(self) -> None:
        self._shown_model = self.tabapp.chosen_model = self.query_one(Models).model or self.tabapp.chosen_model
        self._draw_card(self.snapshot)

    def leave_target(self, left: int | None, target: int | None) -> None:
        models = self.query_one(Models)
        self._marks[left], models.marked = models.marked, self._marks.get(target, ())
        self._shown_model = None

    def steered_model(self) -> str | None:
        return self.query_one(Models).model

    def action_mark(self) -> None:
        models = self.query_one(Models)
        if models.model is None:
            self.warn(NO_MODEL)
        models.toggle_mark()
        self.redraw()

    def action_unmark(self) -> None:
        models = self.query_one(Models)
        if not models.marked:
            self.warn("No model is marked. Press space to mark one.")
        models.marked = ()
        self.redraw()

    @on(Table.Selected, "#models")
    def action_details(self) -> None:
        state, models = self.snapshot.state, self.query_one(Models)
        row = next((row for row in state.leaderboard if row.model == models.model), None)
        if models.toggle_fold():
            self.redraw()
        elif row is not None:
            self.tabapp.push_screen(Reading(row.title, model_details(state, row)))
        else:
            self.warn(NO_MODEL)

    def action_copy_parameters(self) -> None:
        model = self.query_one(Models).model
        card = model_card(self.snapshot.state, model) if model is not None else None
        if card is not None and card.params:
            self.tabapp.copy(msgspec.json.encode(card.params).decode())
        else:
            self.warn("This model has no hyperparameters to copy yet.")

    def action_picture(self, step: int) -> None:
        if not self.query_one(Models).compared:
            self.warn(NO_MODEL)
            return
        if not self.has_class("-wide") and not self.has_class("-charts"):
            # The chart has no room beside the numbers: the key shows it, and changes it from then on.
            self.toggle_charts()
            return
        facts = comparison(self.snapshot, self._cards(self.snapshot))
        self._picture = picture_facts(facts, self._picture).place + step
        self._draw_card(self.snapshot)

    def action_charts(self) -> None:
        self.toggle_charts()
