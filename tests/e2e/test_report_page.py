"""A report in a browser: it requests nothing, its light, dark and printed pages differ as intended, and axe finds no serious fault.

axe-core is not part of the project: set `TABAPP_AXE` to its `axe.min.js` to run that test.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tabapp.report.write import write_report
from tabapp.run.record.folder import EventLog
from tests.run.recording import analyses, write_run

pytest.importorskip("aiohttp")
browser = pytest.importorskip("tests.e2e.browser")
AXE = os.environ.get("TABAPP_AXE", "")
MOST_BYTES = 3 * 2**20
BACKGROUND = "getComputedStyle(document.body).backgroundColor"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(browser.PROGRAM is None, reason="there is no Chromium")]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """`TABAPP_REPORT` opens another report in its place."""
    if "TABAPP_REPORT" in os.environ:
        return Path(os.environ["TABAPP_REPORT"])
    place = tmp_path_factory.mktemp("report")
    folder = write_run(place)
    log = EventLog(folder.events)
    for event in analyses():
        log.append(event)
    log.close()
    write_report(folder, place / "report.html")
    return place / "report.html"


async def test_the_page_requests_nothing_and_follows_the_color_scheme(report, tmp_path):
    async with browser.Browser(tmp_path) as chromium, await chromium.tab() as tab:
        await tab.open(report.as_uri())
        colors = {}
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await tab.call("Emulation.setEmulatedMedia", features=features)
            colors[scheme] = await tab.run(BACKGROUND)
            await tab.picture(tmp_path / f"{scheme}.png")
        await tab.call("Emulation.setEmulatedMedia", media="print", features=[])
        await tab.picture(tmp_path / "print.png")
        colors["print"] = await tab.run(BACKGROUND)
        assert colors["light"] == colors["print"] == "rgb(255, 255, 255)"
        assert colors["dark"] == "rgb(20, 23, 30)"
        assert await tab.run("document.querySelectorAll('svg').length") > 0
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await tab.run(wide) <= 0, "only tables scroll sideways"
        assert {url for url in tab.requested if not url.startswith("data:")} == {report.as_uri()}
        assert report.stat().st_size <= MOST_BYTES


def test_the_page_is_valid_html(report):
    html5lib = pytest.importorskip("html5lib")
    html5lib.HTMLParser(strict=True).parse(report.read_text())


@pytest.mark.skipif(not AXE, reason="TABAPP_AXE names no axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_serious_fault(report, tmp_path, scheme):
    # The policy of the page forbids scripts, also those of the test.
    page = tmp_path / "page.html"
    content = report.read_text()
    start = content.index("<meta http-equiv")
    page.write_text(content[:start] + content[content.index(">", start) + 1 :])
    async with browser.Browser(tmp_path) as chromium, await chromium.tab() as tab:
        await tab.open(page.as_uri())
        await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await tab.run(Path(AXE).read_text() + "; true")
        found = await tab.call(
            "Runtime.evaluate", expression="axe.run().then(r => JSON.stringify(r.violations.map(v => "
            "[v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)])))", awaitPromise=True, returnByValue=True,
        )  # fmt: skip
        serious = [each for each in json.loads(found["result"]["value"]) if each[0] in ("serious", "critical")]
        assert serious == []
