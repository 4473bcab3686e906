"""The warnings of a run about its data, for views that print lines."""

from __future__ import annotations

from tabapp.run.record import events as ev
from tabapp.warning_text import first_lines, sentence, sentences


class NewWarnings:
    """Sentences for the warnings that a view has not shown. A run reads its data again for each target, and when it is resumed.

    Args:
        every: every warning, in a sentence of its own.
    """

    def __init__(self, *, every: bool = False) -> None:
        self._every = every
        self._shown: set[str] = set()

    def of(self, event: ev.AnyEvent, run: str) -> list[str]:
        """The lines for an event of the run that commands select by `run`, most important first; most events have none."""
        if not isinstance(event, ev.SchemaInferred):
            return []
        all_of_them = list(map(sentence, event.warnings)) if self._every else sentences(event.warnings)
        new = [text for text in all_of_them if text not in self._shown]
        self._shown.update(new)
        return new if self._every else first_lines(new, f"`tabapp report {run}` lists all of them")
