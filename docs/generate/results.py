"""A page for each file of results."""

from __future__ import annotations

from benchmarks import document


def pages() -> dict[str, str]:
    return {f"benchmarks/{name}": text for name, text in document.pages().items()}
