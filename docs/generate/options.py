"""The page of the options of a run, from their declarations in `RunConfig`."""

from __future__ import annotations

from typing import get_args

from tabapp.markdown import code, page, table
from tabapp.run.options.config import OPTIONS
from tabapp.run.options.option import Choice, Option, Section


def pages() -> dict[str, str]:
    return {
        "options.md": page(
            "Options of a run",
            "`tabapp DATA` and `tabapp --auto DATA` take these options, and `tabapp.fit` takes them as keywords. The section "
            "`[run]` of the configuration file sets their defaults for the command line.",
            "In Python, lists may be lists or text with commas, and settings by column may be mappings. `budget` may be seconds "
            "or a `timedelta`. `test` and `unlabelled` may be tables.",
            *map(_section, get_args(Section)),
        )
    }


def _section(title: Section) -> str:
    rows = [_row(option) for option in OPTIONS.values() if option.section == title]
    return f"## {title}\n\n" + table(["option", "keyword", "meaning"], rows)


def _row(option: Option) -> list[str]:
    value = "|".join(option.choices) if isinstance(option, Choice) else option.metavar
    return [code(f"{option.flag} {value}"), code(option.name), option.help]
