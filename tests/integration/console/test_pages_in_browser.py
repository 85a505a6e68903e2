"""The console's pages in a real browser, over a live cluster of three brokers with real processes.

Every page: no error in the browser, no serious barrier (axe), nothing to be moved sideways at 390 pixels. Then what a
page must do while it is open: a broker dies, the console dies, somebody reads a fold or types; and hostile names.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.console.sources.simulations import TIMEOUT_S
from tests.kit.browser import barriers, chromium, page_of, too_wide_px
from tests.kit.console_process import ConsoleProcess
from tests.kit.http_receiver import HttpReceiver
from tests.kit.process_cluster import ProcessCluster, eventually

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LONG = "long-" + "x" * 244
"""As long as a topic's name can be."""
HOSTILE = '<img src=x onerror="window.hostile=1"/>'
TOPIC = "orders"
SOON_MS = 60_000
"""A page asks every second or two; brokers' deaths are acted on at once. The rest is a loaded machine."""
REACHABLE = "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, textarea')]"
LOW = """[...document.querySelectorAll('nav a, main .pager a, button, select, summary, main input')]
  .filter(each => each.checkVisibility() && !each.matches('[type=hidden], [type=checkbox], [type=radio]'))
  .filter(each => each.getBoundingClientRect().height < 24).map(each => each.outerHTML.slice(0, 120))"""
"""What is too low for a finger."""
MOVED = "[...document.querySelectorAll('.table')].map(each => each.scrollWidth - each.clientWidth).filter(px => px > 0)"
"""By how much tables have to be moved sideways to see their last column."""
C = "/c/live"
PAGES = {
    "wall": "/",
    "overview": f"{C}/",
    "brokers": f"{C}/brokers",
    "broker": f"{C}/brokers/1?holds=preferred",
    "topics": f"{C}/topics",
    "topic": f"{C}/topics/{TOPIC}",
    "settings": f"{C}/topics/{TOPIC}/settings",
    "settings of brokers": f"{C}/brokers/1/settings?with=2&all=1",
    "clients": f"{C}/topics/{TOPIC}/clients",
    "clients of a broker": f"{C}/brokers/1/clients",
    "alerts": f"{C}/alerts",
    "access": f"{C}/access",
    "users": f"{C}/access/users",
    "quotas": f"{C}/access/quotas",
    "groups": f"{C}/groups",
    "group": f"{C}/groups/billing",
    "decisions": f"{C}/decisions",
    "durability": f"{C}/durability",
    "churn": f"{C}/churn",
    "requests": f"{C}/requests",
    "messages": f"{C}/topics/{TOPIC}/messages",
    "audit": "/audit",
    "jobs": f"{C}/jobs",
    "connect": f"{C}/connect",
    "schemas": f"{C}/schemas",
    "zookeeper": f"{C}/zookeeper",
    "znode": f"{C}/zookeeper/brokers/ids",
    "simulator": f"{C}/simulator",
    "simulator alone": "/simulator",
    "a cluster that is away": "/c/away/",
    "its topics": "/c/away/topics",
    "missing": f"{C}/topics/there-is-none",
}

ALIKE = (
    "clients of a broker",
    "requests",
    "connect",
    "schemas",
    "users",
    "quotas",
    "znode",
    "simulator alone",
    "its topics",
)
"""Pages that are much like another one, or have a test of their own: the thorough run looks at them, too."""
FORMS = (
    "create-topic",
    *(f"{action}?topic={TOPIC}" for action in ("alter-config", "add-partitions", "delete-records", "delete-topic")),
    f"produce?topic={TOPIC}",
    "alter-config?broker=1",
    "set-config?topic=",
    "set-config?broker=",
    "delete-topic",
    "reset-offsets",
    f"set-config?topic={TOPIC}&setting=min.insync.replicas",
    "reset-offsets?group=billing",
    "add-acl",
    "set-user",
    "set-quota",
    "delete-group?group=billing",
    "reassign",
    "replication-factor",
    "decommission",
    "move",
    "move?broker=1",
    f"move?topic={TOPIC}",
    "elect",
)
FORMS_OF = {"move": 2, "move?broker=1": 2}
"""How many forms a page has, where it is not one: what is to be moved is chosen in one of their own."""
DENSE = ("overview", "topic", "group", "decisions")
"""Pages that are looked at for barriers in the dark and narrow as well: together they have all there is. The thorough
look at all."""


class Live:
    """The cluster, the console over it, and what was put into it."""

    def __init__(self, cluster: ProcessCluster, console: ConsoleProcess) -> None:
        self.cluster = cluster
        self.console = console

    def url(self, path: str) -> str:
        return self.console.address + path


@contextmanager
def live_cluster(directory: Path, kind: str) -> Iterator[Live]:
    # It refuses twice, so that pages have something to say; a rule that is given up would be an error of the console.
    with HttpReceiver(503, 503) as receiver, ProcessCluster(directory / "cluster", kind=kind) as cluster:
        cluster.start()
        fill(cluster.bootstrap)
        settings = (
            f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap}"\n'
            f'zookeeper = "{cluster.zookeeper_connect}"\n[[cluster]]\nname = "away"\nbootstrap = "127.0.0.1:1"\n'
            f'[[alert]]\nname = "of lag"\ncluster = "live"\nlag = 1\nfor_s = 1\nwebhook = "{receiver.address}"\n'
        )
        with ConsoleProcess(settings, directory / "console") as console:
            yield Live(cluster, console)
            assert not console.failures, console.failures


def fill(bootstrap: str) -> None:
    """Three topics, records in one of them, a group with lag, and a group with a hostile name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(TOPIC, 6, 3, config={"min.insync.replicas": "2"}),
        NewTopic("payments.eu-1", 3, 2),
        NewTopic("audit", 1, 1),
        NewTopic(LONG, 1, 3),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(600):
        producer.produce(TOPIC, key=f"k{number}", value=f"v{number}", partition=number % 6)
    assert producer.flush(30) == 0
    for group in ("billing", HOSTILE, LONG):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        offsets = [TopicPartition(TOPIC, partition, 40) for partition in range(6)]
        offsets.append(TopicPartition("payments.eu-1", 0, 0))
        eventually("the group's offsets", lambda: consumer.commit(offsets=offsets, asynchronous=False))  # noqa: B023
        consumer.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_cluster(tmp_path_factory.mktemp("pages"), "kavka") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def go(page: Page, live: Live, path: str) -> None:
    page.goto(live.url(path), wait_until="load")


def wait_filled(live: Live, browser: Browser) -> None:
    """Until the console has read what the pages are about."""
    with page_of(browser) as page:
        for path, text in ((f"{C}/groups/billing", "billing"), (f"{C}/topics/{TOPIC}", "min.insync.replicas")):
            eventually(path, lambda: (go(page, live, path), text in page.inner_text("main"))[1], every_s=0.3)  # noqa: B023


def see(page: Page, selector: str, text: str | re.Pattern[str], *, timeout_ms: int = SOON_MS) -> None:
    """Waits until the element has the text, without loading the page again."""
    page.locator(selector).filter(has_text=text).first.wait_for(timeout=timeout_ms)


@pytest.fixture(scope="module")
def reader(live: Live, browser: Browser) -> Iterator[Page]:
    """A page in which all pages are looked at, one after the other, once the console has read what they show."""
    wait_filled(live, browser)
    with page_of(browser) as page:
        yield page


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in ALIKE else []) for name in PAGES]
)
def test_a_page_has_no_error_no_barrier_and_its_width(live: Live, reader: Page, name: str) -> None:
    reader.set_viewport_size({"width": 1280, "height": 900})
    reader.emulate_media(color_scheme="light")
    go(reader, live, PAGES[name])
    assert reader.inner_text("h1").strip()
    assert too_wide_px(reader) <= 0
    assert barriers(reader) == []
    reader.set_viewport_size({"width": 390, "height": 844})
    reader.emulate_media(color_scheme="dark")
    assert too_wide_px(reader) <= 0
    assert reader.evaluate(LOW) == []
    if name in DENSE or os.environ.get("KAVKA_ALL_CLIENTS"):
        assert barriers(reader, rules=("color-contrast", "target-size")) == []


@pytest.mark.parametrize(
    "path",
    [
        f"{C}/brokers",
        f"{C}/topics",
        f"{C}/groups",
        f"{C}/durability",
        f"{C}/topics/{TOPIC}/messages",
        f"{C}/topics/{TOPIC}/clients",
        f"{C}/topics/{LONG}",
        f"{C}/topics/{LONG}/messages",
        f"{C}/groups/{LONG}",
        f"{C}/alerts",
    ],
)
def test_every_column_is_in_sight_at_1000_pixels_however_long_a_name_is(live: Live, reader: Page, path: str) -> None:
    reader.set_viewport_size({"width": 1000, "height": 900})
    reader.emulate_media(color_scheme="light")
    go(reader, live, path)
    assert too_wide_px(reader) <= 0
    assert reader.evaluate(MOVED) == []


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_no_error_no_barrier_and_its_width_by_day_and_night(live: Live, reader: Page, form: str) -> None:
    for scheme, width in (("light", 1280), ("dark", 390)):
        reader.set_viewport_size({"width": width, "height": 900})
        reader.emulate_media(color_scheme=scheme)
        go(reader, live, f"{C}/do/{form}")
        assert reader.locator("main form:not(#shown *)").count() == FORMS_OF.get(form, 1)
        assert too_wide_px(reader) <= 0
        assert barriers(reader) == []


def test_what_was_never_read_is_unknown_and_not_none(live: Live, reader: Page) -> None:
    for path, said, unsaid in (
        ("", "Controller\nunknown", "every check passes"),
        ("brokers", "No broker is known yet.", "Without a controller"),
        ("topics", "No topic is known yet.", "There are no topics"),
        ("groups", "No group is known yet.", "There are no groups"),
        ("durability", "No partition is known yet.", "is in sync"),
    ):
        go(reader, live, f"/c/away/{path}")
        shown = reader.inner_text("main")
        assert said in shown, path
        assert unsaid not in shown, path


def test_no_page_may_run_a_script_that_stands_in_it(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        answer = page.goto(live.url(f"{C}/"))
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        scripts = next(part for part in policy.split(";") if part.strip().startswith(("script-src", "default-src")))
        assert "unsafe-inline" not in scripts
        assert "unsafe-eval" not in policy


def test_names_from_a_cluster_are_text(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        for path in (f"{C}/groups", f"{C}/groups/{quote(HOSTILE, safe='')}", f"{C}/topics/{TOPIC}"):
            eventually(path, lambda: (go(page, live, path), HOSTILE in page.inner_text("main"))[1], every_s=0.3)  # noqa: B023
            assert page.evaluate("window.hostile") is None
        for path in (
            f"{C}/topics?q={quote(HOSTILE)}",
            f"{C}/decisions?q={quote(HOSTILE)}",
            f"/nothing/{quote(HOSTILE)}",
        ):
            go(page, live, path)
            assert page.evaluate("window.hostile") is None
            assert page.locator("img").count() == 0


def test_the_first_tab_stop_leads_to_the_content(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/topics")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize(
    "path",
    [
        f"{C}/topics",
        *(
            pytest.param(path, marks=pytest.mark.thorough)
            for path in (
                "/",
                f"{C}/",
                f"{C}/brokers",
                f"{C}/topics/{TOPIC}",
                f"{C}/groups/billing",
                f"{C}/decisions?kind=leader+elected",
                f"{C}/durability",
                f"{C}/jobs",
                f"{C}/simulator",
                f"{C}/zookeeper",
                f"{C}/topics/{TOPIC}/messages?n=3",
                f"{C}/do/produce?topic={TOPIC}",
                f"{C}/do/reassign",
            )
        ),
    ],
)
def test_everything_is_reached_by_keyboard(live: Live, reader: Page, path: str) -> None:
    reader.set_viewport_size({"width": 1280, "height": 900})
    go(reader, live, path)
    # What is at work anew while somebody tabs through it is another test.
    reader.evaluate("document.querySelectorAll('[data-live]').forEach(each => each.removeAttribute('data-live'))")
    wanted = reader.evaluate(f"{REACHABLE}.length")
    seen = set()
    for _step in range(wanted + 20):
        reader.keyboard.press("Tab")
        seen.add(reader.evaluate(f"{REACHABLE}.indexOf(document.activeElement)"))
    missed = [number for number in range(wanted) if number not in seen]
    hidden = reader.evaluate(f"{REACHABLE}.map((each, at) => each.checkVisibility() ? -1 : at).filter(at => at >= 0)")
    names = reader.evaluate(f"{REACHABLE}.map(each => each.outerHTML.slice(0, 120))")
    assert [names[number] for number in missed if number not in hidden] == []


def test_the_switcher_opens_closes_and_gives_the_focus_back(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/brokers")
        page.focus("#switcher summary")
        page.keyboard.press("Enter")
        assert page.locator("#switcher li").first.is_visible()
        page.keyboard.press("Escape")
        assert not page.locator("#switcher li").first.is_visible()
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        page.keyboard.press("/")
        go(page, live, f"{C}/topics")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "q"


def test_the_reader_has_his_language_his_theme_and_his_zone(live: Live, browser: Browser) -> None:
    with page_of(browser, language="zh-CN") as page:
        go(page, live, f"{C}/brokers")
        assert page.get_attribute("html", "lang") == "zh-CN"
        assert "控制器" in page.inner_text("main")
        page.get_by_role("link", name="English").click()
        assert page.get_attribute("html", "lang") == "en"
        assert page.url.endswith(f"{C}/brokers")
        page.get_by_role("link", name=re.compile("Auto")).click()
        page.locator("html[data-theme=dark] footer").wait_for()
        assert page.evaluate("getComputedStyle(document.body).colorScheme || 'dark'") is not None
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("link", name=re.compile("Dark")).click()
        page.locator("html[data-theme=light] footer").wait_for()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        go(page, live, f"{C}/brokers")
        assert re.search(r"\d\d:\d\d:\d\d CES?T", page.inner_text("footer"))


def test_a_preference_leads_to_no_other_site(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        for elsewhere in ("//example.org/", "https://example.org/", "/\\example.org"):
            answer = page.request.get(
                live.url(f"/preferences?theme=dark&next={quote(elsewhere, safe='')}"), max_redirects=0
            )
            assert answer.headers["location"] == "/"


def test_a_long_list_is_sorted_filtered_and_cut(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/topics")
        page.get_by_role("link", name=re.compile("^Partitions")).click()
        page.get_by_role("link", name=re.compile("^Partitions")).click()
        assert page.locator("tbody tr th").first.inner_text() == TOPIC
        assert page.locator('th[aria-sort="descending"]').inner_text().startswith("Partitions")
        page.fill('input[name="q"]', "eu-1")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("q=eu-1"))
        assert page.locator("tbody tr").count() == 1


def test_the_lag_of_a_group_is_drawn_for_each_of_its_topics(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/groups/billing")
        for name in ("all topics", TOPIC, "payments.eu-1"):
            see(page, "#charts .legend", name)


def test_the_tree_of_znodes_is_walked(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/zookeeper")
        for name in ("brokers", "topics", TOPIC, "partitions", "0", "state"):
            page.locator(".tree").get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(re.compile("/state$"))
        assert '"leader_epoch"' in page.inner_text("pre")
        assert "Leader, leader epoch and ISR" in page.inner_text("main")
        assert page.locator("#servers").filter(has_text="standalone").count() == 1


def test_a_scenario_is_run_and_stepped_through(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/simulator")
        page.select_option('select[name="scenario"]', label="article 001, case A: the leader crashes")
        page.get_by_role("button", name="Run it").first.click()
        page.wait_for_url(re.compile("/simulator/runs/"))
        page.wait_for_selector("iframe.run", timeout=TIMEOUT_S * 1_000 + SOON_MS)
        run = page.frame_locator("iframe.run")
        run.locator("#clock").wait_for()
        run.locator("#first").click()
        begin = run.locator("#clock").inner_text()
        run.locator("#next").click()
        run.locator("#next").click()
        later = run.locator("#clock").inner_text()
        assert later != begin
        run.locator("body").press("ArrowLeft")
        run.locator("body").press("ArrowLeft")
        assert run.locator("#clock").inner_text() == begin
        # The frame has no origin: what it shows cannot read the console.
        assert page.frames[1].evaluate("window.origin") == "null"


def test_a_run_out_of_bounds_is_refused_with_words(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/simulator")
        form = page.locator("form", has=page.locator('input[value="seed"]'))
        form.locator('input[name="minutes"]').evaluate("each => { each.max = 99999; each.value = 5000 }")
        form.get_by_role("button").click()
        see(page, "main", "5000 is not between 1 and 20")


def test_what_a_reader_has_in_hand_stays_while_the_page_goes_on(live: Live, browser: Browser) -> None:
    producer = Producer({"bootstrap.servers": live.cluster.bootstrap, "acks": "all"})
    with page_of(browser) as page:
        go(page, live, f"{C}/")
        see(page, "#charts", re.compile("As a table"))
        page.locator("#checks summary").click()
        page.locator("#checks summary").focus()
        page.evaluate("scrollTo(0, 300); window.kept = document.getElementById('facts')")
        before = page.evaluate("scrollY")
        producer.produce(TOPIC, value="one more", partition=0)
        assert producer.flush(30) == 0
        eventually("a newer picture", lambda: page.evaluate("!window.kept.isConnected"), every_s=0.2)
        assert page.locator("#checks").get_attribute("open") is not None
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert page.evaluate("scrollY") == before
        go(page, live, f"{C}/topics")
        page.fill('input[name="q"]', "half a wo")
        page.wait_for_timeout(2_500)
        assert page.input_value('input[name="q"]') == "half a wo"


def test_a_console_that_goes_away_is_told_with_the_age_of_what_is_shown(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        go(page, live, f"{C}/brokers")
        see(page, "#link", "live")
        live.console.stop()
        see(page, "#link.lost", re.compile(r"Connection to the console lost; last update \d+ s ago"))
        assert page.locator("#brokers tbody tr").count() == 3  # what is known stays
        live.console.start()
        see(page, "#link:not(.lost)", "live")


def test_a_broker_that_dies_under_the_open_page_shows_within_seconds_with_its_why(live: Live, browser: Browser) -> None:
    wait_filled(live, browser)
    with page_of(browser) as overview, page_of(browser) as brokers, page_of(browser) as topic:
        for page, path in ((overview, f"{C}/"), (brokers, f"{C}/brokers"), (topic, f"{C}/topics/{TOPIC}")):
            go(page, live, path)
            see(page, "#link", "live")
        died_s = time.monotonic()
        live.cluster.brokers[2].kill()
        see(brokers, "#brokers tr.bad", "not alive")
        shown_s = time.monotonic() - died_s
        see(overview, "#health .checks", "1 broker with replicas is dead")
        see(overview, "#health .checks", "broker 2: it is not alive")
        see(overview, "#charts figure:first-child", "Partitions out of sync")
        overview.locator("#level.dot.bad").wait_for(timeout=SOON_MS, state="attached")
        see(overview, "#stories", re.compile("broker unreachable|broker left"))
        see(topic, "#partitions tr.warn", re.compile(r"at its limit\s*2"))
        see(topic, "#stories", re.compile("isr shrunk|leader elected"))
        assert shown_s < 10
        brokers.set_viewport_size({"width": 1000, "height": 900})
        assert brokers.evaluate(MOVED) == []
        # Its row leads to its page, which says what to do.
        brokers.locator("#brokers tr.bad a").first.click()
        see(brokers, ".problem", "Broker 2 is not alive")
        assert "Start it again" in brokers.inner_text(".problem")
        go(overview, live, f"{C}/durability")
        see(overview, "#risks", "not safe to restart")
        see(overview, "#partitions", "at its limit")
        overview.set_viewport_size({"width": 1000, "height": 900})
        assert overview.evaluate(MOVED) == []
        # An opened decision tells its evidence in words, and its own page what led to it.
        go(topic, live, f"{C}/decisions?kind={quote('isr shrunk')}")
        topic.locator(".timeline details summary").first.click()
        assert "decided by" in topic.inner_text(".timeline details[open]")
        topic.locator(".timeline strong a").first.click()
        see(topic, "main", "What happened to brokers in the minute before")
    live.cluster.start_broker(2)
    with page_of(browser) as page:
        go(page, live, f"{C}/durability")
        see(page, "#partitions", re.compile("every replica of all .* partitions is in sync"))


@pytest.mark.thorough
@pytest.mark.kafka
def test_the_same_pages_over_apache_kafka(tmp_path: Path, browser: Browser) -> None:
    with live_cluster(tmp_path, "kafka") as live:
        wait_filled(live, browser)
        for name, path in PAGES.items():
            with page_of(browser, width=390) as page:
                go(page, live, path)
                assert too_wide_px(page) <= 0, name
                assert barriers(page) == [], name
        with page_of(browser) as page:
            go(page, live, f"{C}/decisions")
            assert "does not record why it decides" in page.inner_text("main")
            go(page, live, f"{C}/brokers")
            see(page, "#link", "live")
            live.cluster.brokers[2].kill()
            see(page, "#brokers tr.bad", "not alive")
            go(page, live, f"{C}/topics/{TOPIC}")
            see(page, "#partitions tr.warn", re.compile(r"at its limit\s*2"))
            go(page, live, f"{C}/decisions")
            see(page, "#decisions table", re.compile("→"))
