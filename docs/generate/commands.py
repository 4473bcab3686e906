"""The command-line reference: one page per command, from its options."""

from __future__ import annotations

from tabapp.cli.main import COMMANDS
from tabapp.markdown import page


def pages() -> dict[str, str]:
    made = {f"commands/{name}.md": _command(name) for name in COMMANDS}
    toctree = "\n".join(["```{toctree}", ":maxdepth: 1", "", *(f"{name}" for name in COMMANDS), "```"])
    made["commands/index.md"] = page(
        "Command line",
        "`tabapp DATA` opens the terminal UI; with `--auto` it runs without a screen. Its options are those of "
        "[`run`](run.md). Results go to stdout and progress goes to stderr.",
        toctree,
    )
    return made


def _command(name: str) -> str:
    place, help_line = COMMANDS[name]
    program = "tabapp" if name == "run" else f"tabapp {name}"
    directive = [
        "```{eval-rst}",
        f".. click:: {place}",
        f"   :prog: {program}",
        "   :nested: full",
        "```",
    ]
    return page(name, help_line, "\n".join(directive))
