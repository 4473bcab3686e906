"""Parts of Markdown text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, empty without rows. Cells must not contain line breaks; `|` is escaped."""
    body = list(rows)
    lines = [header, ["---"] * len(header), *body] if body else []
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Inline code, whatever backticks the text contains."""
    fence = "``" if "`" in text else "`"
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def page(title: str, *parts: str) -> str:
    """A page: its title and its parts, separated by blank lines."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"
