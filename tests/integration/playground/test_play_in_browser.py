"""The page to play with in a real browser: a cluster runs in it, is broken by clicks, and is repeated from a link."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.browser import NARROW, barriers, page_of, too_wide_px
from tests.kit.playground_site import LOADED_MS, built, choose, served, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MAX_BYTES = 20_000_000
HOW_HIGH = """
(() => {
    const [card, list] = [document.querySelector(".feed"), document.querySelector(".feed ol")]
    const padding = parseFloat(getComputedStyle(card).paddingBottom)
    return Math.abs(card.getBoundingClientRect().bottom - padding - list.getBoundingClientRect().bottom)
})()
"""
"""How many pixels of the card are empty below its list, beside padding and border."""


def open_play(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=LOADED_MS)


def now(page: Page) -> dict[str, Any]:
    """The moment that the page shows."""
    shown: dict[str, Any] = page.evaluate("kavka.run.now")
    return shown


def advance(page: Page, ms: int) -> None:
    page.evaluate("ms => kavka.run.advance(ms)", ms)


def test_a_leader_is_killed_the_way_back_is_the_same_run_and_the_link_holds_it(browser: Browser, site: str) -> None:
    with page_of(browser, width=1280) as page:
        open_play(page, f"{site}/play/#rate=2&seed=7")
        assert barriers(page) == []
        advance(page, 2_000)
        choose(page, "broker-1", "kill")
        until(page, "kavka.run.now.brokers[0].state === 'dead'")
        advance(page, 3_000)
        until(page, "kavka.run.now.stored.leader === 2")
        killed = now(page)
        assert killed["clients"]["lost_count"] == 0
        until(page, "document.querySelector('.feed').innerText.includes('offline election: broker 2 leads')")
        assert "Leader elected, decided by Broker 3" in page.inner_text(".feed")
        for nodes in (".znodes li:has-text('/brokers/ids/2')", ".znodes li:has-text('/brokers/ids/3')"):
            assert "port 9092" in page.inner_text(f"{nodes} .data"), page.inner_text(nodes)
        # The list of what happened fills its card, and is not what makes it high.
        assert page.evaluate(HOW_HIGH) <= 2
        page.click("[data-key=back]")
        until(page, f"kavka.run.now.at_ms < {killed['at_ms']}")

        choose(page, "link-2-3", "cut")  # In the past: the run is played again up to there.
        until(page, "(document.querySelector('.feed .note')?.innerText ?? '').includes('the same run')")
        assert [word.split(".", 1)[1] for word in now(page)["clicks"]] == ["kill.1", "cut.2-3"]
        advance(page, 1_500)
        last = now(page)
        until(page, f"location.hash.includes('at={last['at_ms']}&')")
        link = page.url
    with page_of(browser, width=NARROW, dark=True) as page:
        open_play(page, link)

        assert now(page)["digest"] == last["digest"]
        assert now(page)["clicks"] == last["clicks"]
        assert too_wide_px(page) <= 0
        assert barriers(page) == []


@pytest.mark.thorough
def test_the_same_link_plays_the_same_run_in_chinese(browser: Browser, site: str) -> None:
    with page_of(browser, width=1280) as page:
        open_play(page, f"{site}/play/#rate=2&seed=7&do=2500.kill.1&at=6000")
        digest = now(page)["digest"]
        page.click("nav a[lang=zh]")
        page.wait_for_url("**/play/zh/")
        address = page.url
        page.goto("about:blank")  # A page whose link changes loads itself again, and may do so amid all this.
        open_play(page, f"{address}#rate=2&seed=7&do=2500.kill.1&at=6000")

        assert now(page)["digest"] == digest
        assert page.get_attribute("html", "lang") == "zh"
        assert "离线选举：Broker 2 自纪元 1 起担任 Leader" in page.inner_text(".feed")
        shown = page.inner_text("body")
        assert not re.search(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b", shown), shown
        assert barriers(page) == []
        choose(page, "broker-1", "start")
        until(page, "kavka.run.now.brokers[0].state !== 'dead'")
        page.set_viewport_size({"width": NARROW, "height": 900})
        assert too_wide_px(page) <= 0


@pytest.mark.thorough
def test_choices_that_cannot_be_are_said_and_another_cluster_starts(browser: Browser, site: str) -> None:
    with page_of(browser) as page:
        open_play(page, f"{site}/play/#brokers=2")
        assert "replicas: 3, expected 1 to 2" in page.inner_text("#note")

        page.select_option("[name=brokers]", "5")
        page.select_option("[name=replicas]", "5")
        page.select_option("[name=lag_policy]", "messages")
        page.click("#choices button")
        until(page, "kavka.run.now?.brokers.length === 5")

        assert page.is_visible("[name=lag_messages]")
        assert now(page)["choices"]["lag_policy"] == "messages"
        page.click("[data-key=play]")
        until(page, "kavka.run.now.clients.written > 2")
        page.click("[data-key=play]")
        page.keyboard.press("Escape")


@pytest.mark.thorough
def test_the_page_asks_nobody_but_its_own_server_and_is_small(browser: Browser, tmp_path: Path) -> None:
    files = built(tmp_path, compiled=True)
    assert sum(file.stat().st_size for file in files.rglob("*") if file.is_file()) <= MAX_BYTES
    for archive, module in (("kavka.zip", "kavka/model"), ("pyodide/python_stdlib.zip", "asyncio/__init__")):
        with zipfile.ZipFile(files / "cluster" / archive) as found:
            names = found.namelist()
        assert f"{module}.pyc" in names, "the page would compile it"
        assert f"{module}.py" not in names
        assert len(names) == len(set(names)), archive
    with served(files) as address, page_of(browser) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        open_play(page, f"{address}/play/")

        assert asked
        assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()
        assert page.context.cookies() == []
        assert page.evaluate("localStorage.length") == 0
