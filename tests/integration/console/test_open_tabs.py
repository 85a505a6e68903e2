"""Many open pages of one browser: they share one stream of events, and a page that nobody sees holds none.

Browsers have six connections for one console. With a stream for each page the seventh page did not even load.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.browser import chromium, page_of
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SOON_MS = 60_000
TABS = 10
WATCHED = """
    // What streams a page opens by itself, and whether it is seen, as the test says.
    window.sources = [];
    window.EventSource = class extends window.EventSource {
      constructor(address) { super(address); window.sources.push(this); }
    };
    window.workers = 0;
    window.SharedWorker = class extends window.SharedWorker {
      constructor(...words) { super(...words); window.workers += 1; }
    };
    window.isSeen = window.isSeen ?? SEEN;
    Object.defineProperty(document, "hidden", { get: () => !window.isSeen });
    window.see = (isSeen) => { window.isSeen = isSeen; document.dispatchEvent(new Event("visibilitychange")); };
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    with KavkaProcess(tmp_path_factory.mktemp("tabs") / "broker") as running:
        make(running, "orders")
        yield running


@pytest.fixture(scope="module")
def console(broker: KavkaProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{broker.bootstrap}"\n'
    with ConsoleProcess(settings, tmp_path_factory.mktemp("tabs") / "console") as running:
        yield running
        assert not running.failures, running.failures


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def make(broker: KavkaProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    made.result(30)


def open_streams(page: Page) -> int:
    return int(page.evaluate("sources.filter((each) => each.readyState !== EventSource.CLOSED).length"))


def test_ten_open_pages_all_load_and_all_show_what_is_new(
    broker: KavkaProcess, console: ConsoleProcess, browser: Browser
) -> None:
    with page_of(browser) as first:
        tabs = [first, *(first.context.new_page() for _ in range(TABS - 1))]
        for tab in tabs:
            tab.goto(f"{console.address}/c/live/topics", timeout=SOON_MS)
            tab.get_by_role("link", name="orders", exact=True).wait_for(timeout=SOON_MS)
        make(broker, "made-later")
        for tab in tabs:
            tab.get_by_role("link", name="made-later", exact=True).wait_for(timeout=SOON_MS)
            assert tab.locator("#link.lost").count() == 0


def test_a_page_that_opens_unseen_connects_when_somebody_looks(
    broker: KavkaProcess, console: ConsoleProcess, browser: Browser
) -> None:
    with page_of(browser) as page:
        page.add_init_script(WATCHED.replace("SEEN", "false"))
        page.goto(f"{console.address}/c/live/topics")
        assert (page.evaluate("workers"), open_streams(page)) == (0, 0)
        page.evaluate("see(true)")
        assert page.evaluate("workers") == 1
        make(broker, "made-unseen")
        page.get_by_role("link", name="made-unseen", exact=True).wait_for(timeout=SOON_MS)


def test_a_browser_without_shared_workers_has_a_stream_for_each_page_that_is_seen(
    broker: KavkaProcess, console: ConsoleProcess, browser: Browser
) -> None:
    with page_of(browser) as page:
        page.add_init_script(
            WATCHED.replace("SEEN", "true") + "delete window.SharedWorker; window.SharedWorker = null;"
        )
        page.goto(f"{console.address}/c/live/topics")
        assert open_streams(page) == 1
        page.evaluate("see(false)")
        assert open_streams(page) == 0
        page.evaluate("see(true)")
        assert open_streams(page) == 1
        make(broker, "made-alone")
        page.get_by_role("link", name="made-alone", exact=True).wait_for(timeout=SOON_MS)


def test_a_live_tail_holds_its_stream_only_while_it_is_seen(
    broker: KavkaProcess, console: ConsoleProcess, browser: Browser
) -> None:
    with page_of(browser) as page:
        page.add_init_script(WATCHED.replace("SEEN", "true"))
        page.goto(f"{console.address}/c/live/topics/orders/messages?start=tail")
        page.locator("#tail-state").filter(has_text="Waiting for new records").wait_for(timeout=SOON_MS)
        assert open_streams(page) == 1
        page.evaluate("see(false)")
        assert open_streams(page) == 0
        page.evaluate("see(true)")
        page.locator("#tail-state").filter(has_text="while this page was hidden").wait_for(timeout=SOON_MS)
        assert open_streams(page) == 1


def test_a_live_tail_says_that_the_cluster_does_not_answer_and_goes_on_when_it_does(
    broker: KavkaProcess, console: ConsoleProcess, browser: Browser
) -> None:
    with page_of(browser) as page:
        page.goto(f"{console.address}/c/live/topics/orders/messages?start=tail")
        state = page.locator("#tail-state")
        state.filter(has_text="Waiting for new records").wait_for(timeout=SOON_MS)
        broker.kill()
        state.filter(has_text="The cluster does not answer").wait_for(timeout=SOON_MS)
        broker.restart()
        state.filter(has_text="Waiting for new records").wait_for(timeout=SOON_MS)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", value="after its return")
        assert producer.flush(60) == 0
        page.locator("#records").filter(has_text="after its return").wait_for(timeout=SOON_MS)
