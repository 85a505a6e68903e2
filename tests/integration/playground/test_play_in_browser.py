"""The page to play with in a real browser: a cluster runs in it, is broken by clicks, and is repeated from a link."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.browser import NARROW, barriers, chromium, page_of, too_wide_px
from tests.kit.playground_site import built, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOADED_MS = 120_000
"""Five seconds on a quiet machine. Tests share theirs."""
MAX_BYTES = 20_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as driven:
        yield driven


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    files = built(tmp_path_factory.mktemp("playground"))
    with served(files) as address:
        yield address


def open_play(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=LOADED_MS)


def now(page: Page) -> dict[str, Any]:
    """The moment that the page shows."""
    shown: dict[str, Any] = page.evaluate("kavka.run.now")
    return shown


def do(page: Page, place: str, action: str) -> None:
    """Opens the menu of a broker or a link, and chooses from it."""
    page.locator(f"[data-key='{place}']").press("Enter")
    page.click(f".menu [data-action='{action}']")


def until(page: Page, expression: str) -> None:
    """Waits; the page's own policy forbids the way in which the browser's driver would."""
    deadline_s = time.monotonic() + LOADED_MS / 1_000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline_s, f"{expression}: {page.evaluate('kavka.run.now')}"
        page.wait_for_timeout(50)


def advance(page: Page, ms: int) -> None:
    page.evaluate("ms => kavka.run.advance(ms)", ms)


def test_a_leader_is_killed_the_way_back_is_the_same_run_and_the_link_holds_it(browser: Browser, site: str) -> None:
    with page_of(browser, width=1280) as page:
        open_play(page, f"{site}/play/#rate=2&seed=7")
        assert barriers(page) == []
        advance(page, 2_000)
        do(page, "broker-1", "kill")
        until(page, "kavka.run.now.brokers[0].state === 'dead'")
        advance(page, 3_000)
        until(page, "kavka.run.now.stored.leader === 2")
        killed = now(page)
        assert killed["clients"]["lost_count"] == 0
        assert "offline election: broker 2 leads" in page.inner_text(".feed")
        page.click("[data-key=back]")
        past = now(page)
        assert past["at_ms"] < killed["at_ms"]

        do(page, "link-2-3", "cut")  # In the past: the run is played again up to there.
        page.wait_for_selector(".feed .note")

        assert "the same run" in page.inner_text(".feed .note")
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
def test_choices_that_cannot_be_are_said_and_another_cluster_starts(browser: Browser, site: str) -> None:
    with page_of(browser) as page:
        open_play(page, f"{site}/play/#brokers=2")
        assert "replicas: 3, expected 1 to 2" in page.inner_text("#note")

        page.select_option("[name=brokers]", "5")
        page.select_option("[name=replicas]", "5")
        page.select_option("[name=lag_policy]", "messages")
        page.click("#choices button")
        until(page, "kavka.run.now.brokers.length === 5")

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
    with served(files) as address, page_of(browser) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        open_play(page, f"{address}/play/")

        assert asked
        assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()
        assert page.context.cookies() == []
        assert page.evaluate("localStorage.length") == 0
