"""Texts such as NA and None: missing cells, or values of their column.

The other values of the column decide, by how frequent they are and how they are written: NA is a value among two-letter codes, and
a missing cell among numbers, words, or answers of yes and no.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabapp.column_names import ColumnNames
from tabapp.data.forms.truth import are_truth_values

_WORDS = frozenset({"none", "nil"})
_CLASS_WORDS = _WORDS | {"missing"}
"""Words that often name the absence of something, which is a level of a feature or a class of a target."""
_RAREST_WORD = 0.1
"""Least share of the rows of the rarest other class at which a word is a class."""
_MOST_OTHERS = 1_000
_LONGEST_CODE = 4
_FEWEST_CODES = 5
_AGREE = 0.8
_ABOUT = 1.33
"""Factor around the frequencies of the other values within which a text is as frequent as they are."""
_ABOUT_CODES = 2.0
_BALANCED = 3.0
"""Largest ratio of the frequencies of classes that are about equally frequent."""
_NUMBER = re.compile(r"[<>~≈]?\s*[+\-\u2212(]?\s*[^\w\s]?\s*[.,]?\d[\d.,' \u00a0\u202f]*")
_ALPHABETIC = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*")


@dataclass(frozen=True)
class Declared:
    """Texts of a column that the user declares missing cells or values."""

    null: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()


NOTHING_DECLARED = Declared()
BY_OPTION = "--keep-null says so"
"""The reason why a declared text is a value."""
BESIDE_PLUS = "it occurs beside '+'"


class Declarations:
    """The texts of `--null` and `--keep-null`: each is for all columns, or for one as COLUMN=TEXT.

    What is said of one column takes precedence over what is said of all. A text with `=` is for all columns if no column has the
    name before it.
    """

    def __init__(self, null: Iterable[str], keep: Iterable[str], columns: Iterable[str]) -> None:
        names = ColumnNames(columns)
        self._given = {"null": tuple(null), "keep_null": tuple(keep)}
        self._split = {
            name: [names.assignment(text) or (None, text) for text in texts] for name, texts in self._given.items()
        }

    def of(self, column: str) -> Declared:
        """What is declared for a column."""
        everywhere = {name: self._texts(name, None) for name in self._split}
        own = {name: self._texts(name, column) for name in self._split}
        null = own["null"] | everywhere["null"] - own["keep_null"]
        return Declared(null, (own["keep_null"] | everywhere["keep_null"]) - null)

    def unused(self, null: Mapping[str, Sequence[str]], kept: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
        """Options with a text that no cell has, each as its name and the text.

        Args:
            null, kept: texts that are missing cells and texts that are values, by column.
        """
        found = {"null": null, "keep_null": kept}
        return [
            (name, given)
            for name, texts in self._given.items()
            for given, (column, text) in zip(texts, self._split[name], strict=True)
            if not any(text.strip() in there for each, there in found[name].items() if column in (None, each))
        ]

    def _texts(self, name: str, column: str | None) -> frozenset[str]:
        return frozenset(text.strip() for each, text in self._split[name] if each == column)


def is_word(text: str) -> bool:
    """Whether a text is a word that often names a class."""
    return text.casefold() in _CLASS_WORDS


def values_among(candidates: Mapping[str, int], others: Mapping[str, int], *, is_target: bool) -> dict[str, str]:
    """Which texts that are spelled like missing cells are values, and why.

    Args:
        candidates: the texts, and how often each occurs.
        others: the other values of the column, at least the most frequent ones.
        is_target: the values are those of the target.

    Returns:
        The reason by text, such as "it is written like the other codes".
    """
    found: dict[str, str] = {}
    if "-" in candidates and "+" in others:
        found["-"] = BESIDE_PLUS
    if not others or len(others) > _MOST_OTHERS or _are_numbers(others):
        return found
    judge = _class_reason if is_target else _level_reason
    markers = [text for text in candidates if text not in found and not is_word(text)]
    for text, count in candidates.items():
        if text in found or (text in markers and len(markers) > 1):
            continue
        if reason := judge(text, count, others):
            found[text] = reason
    return found


def _class_reason(text: str, count: int, others: Mapping[str, int]) -> str:
    """Why a text is a class of the target; empty if it is not."""
    fewest, most = min(others.values()), max(others.values())
    is_usual = fewest / _ABOUT <= count <= _ABOUT * most
    if are_truth_values(others):
        return "it is a word and as frequent as the other classes" if is_word(text) and is_usual else ""
    if len(others) == 1:
        return "it is the only other class"
    if is_word(text):
        return "it is a word" if count >= _RAREST_WORD * fewest else ""
    if _is_code(text, others):
        is_usual = fewest / _ABOUT_CODES <= count <= _ABOUT_CODES * most
        return "it is written like the other classes and about as frequent" if is_usual else ""
    if is_usual and _is_written_alike(text, others):
        return "it is written like the other classes and about as frequent"
    is_regular = is_usual and len(others) > 2 and most <= _BALANCED * fewest
    return "it is as frequent as the other classes" if is_regular else ""


def _level_reason(text: str, count: int, others: Mapping[str, int]) -> str:
    """Why a text is a level of a feature; empty if it is not."""
    if len(others) < 2 or are_truth_values(others):
        return ""
    if is_word(text):
        same = sum(_case(other) == _case(text) for other in others)
        is_level = text.casefold() in _WORDS and same >= _AGREE * len(others)
        return "it is a word, written like the other levels" if is_level else ""
    is_code = len(others) >= _FEWEST_CODES and _is_code(text, others) and count <= _ABOUT * max(others.values())
    return "it is written like the other codes and no more frequent" if is_code else ""


def _are_numbers(others: Mapping[str, int]) -> bool:
    """Whether at least half of the values are numbers, perhaps with a currency, a unit or a mark."""
    numbers = sum(count for text, count in others.items() if _NUMBER.match(text))
    return 2 * numbers >= sum(others.values())


def _is_code(text: str, others: Mapping[str, int]) -> bool:
    """Whether a text has the letters, the case and the length of nearly all others, all of them short."""
    if len(text) > _LONGEST_CODE or not text.isalpha():
        return False
    same = sum(len(other) == len(text) and other.isalpha() and _case(other) == _case(text) for other in others)
    return same >= _AGREE * len(others)


def _is_written_alike(text: str, others: Mapping[str, int]) -> bool:
    """Whether a text is a word in the case of most others, and neither shorter nor longer than all of them."""
    same = [other for other in others if _ALPHABETIC.fullmatch(other) and _case(other) == _case(text)]
    lengths = [len(other) for other in others]
    is_alike = _ALPHABETIC.fullmatch(text) is not None and len(same) >= _AGREE * len(others)
    return is_alike and min(lengths) <= len(text) <= max(lengths)


def _case(text: str) -> str:
    if text.lower() == text.upper():
        return "none"
    if text in (text.upper(), text.lower()):
        return "upper" if text == text.upper() else "lower"
    return "capital" if text[0].isupper() else "mixed"
