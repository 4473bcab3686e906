"""The language of the filters: `model:xgb score>.93 -pruned`.

A word matches anywhere in a row, `field:text` matches in one field, and `field>number` (also `<`, `>=`, `<=`, `=`) compares.
A minus negates a term, quotes keep spaces together, and a row must match every term. A field may be shortened to any
unambiguous part of its name. Numbers may be times: 90s, 5m, 1.5h.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tabapp.errors import did_you_mean

Value = str | float | None
"""The value of a field; None if unknown."""

HINT = "words · field:text · score>.9 · -pruned · enter keeps it · esc clears"

_TERM = re.compile(r'(-?)(?:([A-Za-z_][\w.]*)(>=|<=|[:=<>]))?(?:"([^"]*)"?|(\S*))')
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?([smh]?)", re.IGNORECASE)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
}


@dataclass(frozen=True)
class Term:
    """One condition; without a field, a word that may occur anywhere."""

    field: str
    operator: str
    value: str
    negated: bool

    def fits(self, facts: Mapping[str, Value], text: str) -> bool:
        """Whether a row matches. A comparison with an unknown value is false, so its negation is true."""
        return self._holds(facts, text) != self.negated

    def _holds(self, facts: Mapping[str, Value], text: str) -> bool:
        if not self.field:
            return self.value in text.casefold()
        found = facts.get(self.field)
        if found is None:
            return False
        bound = number(self.value)
        if self.operator in _COMPARE:
            return isinstance(found, float | int) and bound is not None and _COMPARE[self.operator](found, bound)
        if isinstance(found, float | int):
            return bound is not None and found == bound
        return found.casefold() == self.value if self.operator == "=" else self.value in found.casefold()


@dataclass(frozen=True)
class Query:
    """All conditions of a filter; `problem` is a sentence about terms that are not valid and were ignored."""

    terms: tuple[Term, ...] = ()
    problem: str = ""

    def fits(self, facts: Mapping[str, Value], text: str = "") -> bool:
        """Whether a row matches, given its fields and its text."""
        return all(term.fits(facts, text) for term in self.terms)


def number(text: str) -> float | None:
    """A number or a time in seconds, minutes or hours; None otherwise."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    plain = text[: len(text) - len(match[3])]
    return float(plain) * _SECONDS[match[3].lower()]


def parse(text: str, fields: Collection[str]) -> Query:
    """Parse a filter for rows with some fields. Unfinished terms, as while typing, are ignored."""
    terms: list[Term] = []
    problem = ""
    for match in _TERM.finditer(text):
        minus, name, operator, quoted, plain = match.groups()
        value = (quoted if quoted is not None else plain or "").casefold()
        if not value or value == "-":
            continue
        if name is None:
            terms.append(Term("", "", value, minus == "-"))
            continue
        field = _field(name, fields)
        if field is None:
            hint = did_you_mean(name, list(fields)) or f"; there are {', '.join(sorted(fields))}."
            problem = f"There is no field {name!r}{hint}"
        elif operator in _COMPARE and number(value) is None:
            problem = f"{value!r} is not a number to compare {field} with."
        else:
            terms.append(Term(field, operator, value, minus == "-"))
    return Query(tuple(terms), problem)


def _field(name: str, fields: Collection[str]) -> str | None:
    if name in fields:
        return name
    near = [field for field in fields if name.casefold() in field.casefold()]
    return near[0] if len(near) == 1 else None
