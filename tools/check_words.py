"""Find phrases that the style guide bans: `python tools/check_words.py [--report] [PATH …]`.

The check covers prose and names in every tracked text file, except recordings, snapshots and the phrase list itself. Spelling is
the work of codespell (see `[tool.codespell]` in pyproject.toml), which also flags British spellings.

To allow a use that is right, add it to `EXCEPTIONS` with its reason.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".md", ".toml", ".tcss", ".txt", ".yml", ".yaml", ".cfg", ".html", ".css", ".js", ".sh"}
NAMES = {"Makefile", "run"}
SKIPPED = re.compile(
    r"__snapshots__|tests/recordings/.*\.jsonl?|tests/e2e/captures|constraints\.txt|check_words\.py|LICENSE"
)

PHRASES = {
    r"told|tells(?! (?:\w+ ){0,3}apart)": "report, show, record, pass to",
    r"tell (?:the|a|an|its|it|him|them|people|users?|you|us|who)(?! (?:\w+ ){0,2}apart)": "report, show, record, pass to",
    r"sit(?:s|ting)? (?:this one |it )?out|sat out": "skipped",
    r"(?:its|their|whose|a|every|each) turn(?! of)": "not started within the budget; its share; next",
    r"(?:go|goes|going|went) on(?! the\b| a\b| an\b| top| screen| stdout| one| its\b| disk| to (?:the|a)\b)": "continue, resume",
    r"(?:held|hold|holds|holding) (?:[^\s.]+ ){0,6}against": "compare with, check against",
    r"dear(?:er|est)?(?: fits?)?": "expensive, long",
    r"(?:its|their|of|more than|the) due(?! to| date)": "share",
    r"(?:lies|lie|lay|lying) (?:in|at|on|there|beside|besides|below|above|under)": "is, is located",
    r"(?:stand|stands|stood|standing) (?:in(?! for)|at|on|there|beside|besides|before|behind|under|as|apart|by)": "is, is next to",
    r"what decides": "hyperparameter importance",
    r"where it is wrong": "largest errors, weak slices",
    r"a coin|than a coin|coin's": "random guessing",
    r"turns? (?:a |the )?\w+ round": "negate",
    r"most trials a model": "maximum trials per model",
    r"no clock|without a clock": "no time limit",
    r"can(?:not)? be followed|is to be followed": "is valid, is not valid",
    r"looks? (?:\w+ ){0,2}rows up|look(?:s|ing|ed)? (?:up )?(?:rows|neighbou?rs)(?: of [\w\s]+?)? up|looks? up rows": (
        "retrieve neighbors"
    ),
    r"say(?:s|ing)? the same": "is equivalent, is correlated",
    r"found out": "detect",
    r"free to fall|fall into any fold": "may land in different folds",
    r"stranger(?:'s|’s|s'|s)?": "third-party, a user",
    r"small, dumb": "small, limited and remote terminals",
    r"lay(?:s|ing)? down|laid down": "write, save",
    r"as no \w+ were|as if it were no": "rewrite the clause",
    r"what is no\b": "rewrite the clause",
    r"mend(?:s|ed|ing)?(?! \w*ation)": "fix, repair",
    r"heed(?:s|ed)?": "obey, respect, apply",
    r"takes? (?:it |them |him )?(?:for|to be) (?:a|an|the) (?:\w+ )?(?:class|number|date|text|target)": "is interpreted as",
    r"has (?:its|no) way with|comes? to nothing|so many words": "rewrite the clause",
    r"in (?:its|their) own way|of (?:its|their) own accord": "rewrite the clause",
    r"whoever|whatever it (?:is|was)|nobody is left": "rewrite the clause",
    r"given up for": "replaced by, canceled",
    r"one more read|read once more": "rewrite",
    r"hyper-parameters?": "hyperparameter",
}
"""Regular expressions, case-insensitive, each with what to write instead. A blank also matches an underscore or a line break."""

EXCEPTIONS: tuple[tuple[str, str, str], ...] = (("docs/decisions/", r"stranger", "quotes of earlier names"),)
"""Uses that stay: (start of the path, regular expression on the line, reason)."""


@dataclass(frozen=True)
class Finding:
    """A banned phrase at a place, and what to write instead."""

    path: str
    line: int
    text: str
    instead: str


def compile_phrase(phrase: str) -> re.Pattern[str]:
    """A pattern for prose and snake_case names: a blank stands for blanks, underscores, or a line break within a comment."""
    spaced = phrase.replace(" ", r"(?:[ \t_]+|[ \t]*\n[ \t]*(?:[#*>] ?)?)")
    return re.compile(rf"(?<![A-Za-z])(?:{spaced})(?![A-Za-z])", re.IGNORECASE)


PATTERNS = [(compile_phrase(phrase), instead) for phrase, instead in PHRASES.items()]


def findings_in(path: str, content: str) -> Iterator[Finding]:
    """Every banned phrase in one file, in the order of the phrase list."""
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(content):
            start = content.rfind("\n", 0, match.start()) + 1
            end = content.find("\n", match.end())
            context = content[start : end if end >= 0 else len(content)]
            if any(path.startswith(where) and re.search(allowed, context) for where, allowed, _ in EXCEPTIONS):
                continue
            line = content.count("\n", 0, match.start()) + 1
            yield Finding(path, line, " ".join(match[0].split()), instead)


def tracked_files(paths: list[str]) -> list[str]:
    """The project's text files below `paths`, relative to the project; all of them without `paths`."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(
        name
        for name in set(listed)
        if (Path(name).suffix in SUFFIXES or Path(name).name in NAMES)
        and not SKIPPED.search(name)
        and (ROOT / name).is_file()
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; returns 1 when there are any, unless only a report is asked for."""
    parser = argparse.ArgumentParser(description="Find phrases that the style guide bans.")
    parser.add_argument("paths", nargs="*", help="files or folders; the whole project by default")
    parser.add_argument("--report", action="store_true", help="exit with 0 even when there are findings")
    options = parser.parse_args(arguments)
    paths = [str(Path(path).resolve().relative_to(ROOT)) for path in options.paths]
    rooms: Counter[str] = Counter()
    for name in tracked_files(paths):
        for finding in findings_in(name, (ROOT / name).read_text(encoding="utf-8")):
            rooms["/".join(Path(name).parts[:-1][:2]) or name] += 1
            print(f"{finding.path}:{finding.line}: “{finding.text}” → {finding.instead}")
    if rooms:
        print("\n" + "\n".join(f"{count:5} {room}" for room, count in rooms.most_common()), file=sys.stderr)
        print(f"{rooms.total():5} banned phrases in all", file=sys.stderr)
    return 1 if rooms and not options.report else 0


if __name__ == "__main__":
    sys.exit(main())
