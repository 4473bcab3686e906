"""The generated pages of the documentation site cover everything in the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tabapp.cli.main import COMMANDS
from tabapp.data.checks.registry import all_checks
from tabapp.metrics.registry import BUILT_IN
from tabapp.models import registry

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from generate import messages, screens, write_pages  # noqa: E402


def test_every_error_and_warning_has_an_entry():
    topics = messages.all_topics()
    without = [m for m in messages.all_messages() if not m.checks and messages.topic_of(m, topics) is None]
    assert without == [], "add the function to a topic of docs/troubleshooting.toml"


def test_every_check_on_data_has_an_entry():
    page = messages.pages()["troubleshooting.md"].partition("## Warnings about data")[2]
    found = {check for message in messages.all_messages() for check in message.checks}
    assert len(found) > 10
    for code in found | {check.code for check in all_checks()}:
        assert f"### {code}\n" in page, code


def test_every_topic_has_a_message():
    found = [messages.topic_of(message, messages.all_topics()) for message in messages.all_messages()]
    assert [topic.title for topic in messages.all_topics() if topic not in found] == []


def test_every_place_of_a_topic_exists():
    places = [message.place for message in messages.all_messages()]
    for topic in messages.all_topics():
        for place in topic.places:
            assert any(f"{known}.".startswith(f"{place}.") for known in places), place


def test_messages_are_found_with_their_exit_code_and_constant_text():
    found = {message.text: message for message in messages.all_messages()}
    (text,) = [text for text in found if "is not a run folder" in text]
    assert text.startswith(messages.GAP)
    assert found[text].kind == "exit code 2"
    assert found[text].place.startswith("tabapp.run.record.folder")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All generated pages, in a folder that had one of a command that is gone."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "commands").mkdir()
    (folder / "commands" / "gone.md").write_text("# gone")
    write_pages(folder)
    return folder


def test_every_model_metric_and_screen_has_its_page(site):
    assert {file.stem for file in (site / "models").iterdir()} >= set(registry.names())
    page = (site / "metrics.md").read_text()
    for name in BUILT_IN:
        assert f"`{name}`" in page
    texts = [page.read_text() for page in (ROOT / "docs" / "guide").rglob("*.md")]
    for name in screens.pages():
        assert any(f"generated/{name}\n" in text for text in texts), name


def test_every_command_has_a_page_and_every_page_is_current(site):
    written = {file.stem for file in (site / "commands").iterdir()} - {"index"}
    assert written == set(COMMANDS)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_pages_load_nothing_from_elsewhere(page):
    """A picture, script or style from another host would be fetched when the page is opened."""
    assert not re.search(r"!\[[^\]]*\]\(https?:|<(?:img|script|link|iframe)\b[^>]*https?:", page.read_text())
