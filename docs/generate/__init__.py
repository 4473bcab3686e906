"""Pages of the site that are generated from the code. They are written before each build and are not committed."""

from __future__ import annotations

from pathlib import Path

from . import api, commands, messages, metrics, models, options, results, screens

GENERATORS = (api, commands, messages, metrics, models, options, results, screens)
"""Each has a function `pages()` that returns page texts by file name."""


def write_pages(folder: Path) -> None:
    """Write all generated pages into a folder; pages that are no longer generated disappear.

    A page whose text is unchanged keeps its file, so that Sphinx reads it only once.
    """
    pages = {name: text for generator in GENERATORS for name, text in generator.pages().items()}
    for file in sorted(folder.rglob("*.md")):
        if str(file.relative_to(folder)) not in pages:
            file.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
