"""A stylesheet that parses each source once for each theme."""

from __future__ import annotations

from functools import cached_property
from importlib.resources import files

from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation


def sheet(name: str) -> str:
    """The path of a stylesheet among the assets."""
    return str(files("tabapp_assets") / f"{name}.tcss")


N_SOURCES = 1024
"""About a dozen themes of all sources of the app."""

_parsed: LRUCache[tuple[object, ...], list[RuleSet]] = LRUCache(N_SOURCES)


class CachedStylesheet(Stylesheet):
    """Textual parses all sources again at the start and at the first visit of each screen, four times before the first key.

    Rules are not changed once they are parsed, so all apps of the process share them.
    """

    @cached_property
    def _theme(self) -> frozenset[tuple[str, str]]:
        return frozenset(self._variables.items())

    def set_variables(self, variables: dict[str, str]) -> None:
        self.__dict__.pop("_theme", None)
        super().set_variables(variables)

    def _parse_rules(
        self,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        key = (self._theme, css, read_from, is_default_rules, tie_breaker, scope)
        if key not in _parsed:
            _parsed[key] = super()._parse_rules(css, read_from, is_default_rules, tie_breaker, scope)
        return _parsed[key]

    def reparse(self) -> None:
        """Apply new variables. The present rules stay if a source is invalid."""
        self.parse()
