"""What can be done from the console, done in a real browser: every action from its form to its outcome.

Each page on the way: no error in the browser, no serious barrier (axe), nothing to be moved sideways at 390 pixels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.console.access.auth import Users
from kavka.console.ledger import LEDGER, open_ledger
from kavka.console.rights import Role
from kavka.testing import Cluster
from tests.kit.browser import chromium, fill, look, page_of
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import ProcessCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SOON_MS = 20_000
PASSWORD = "correct horse battery"
HOSTILE = (b"<img src=x onerror='window.hostile=1'>", b"<script>window.hostile=1</script>")


class Live:
    def __init__(self, bootstrap: str, broker_ids: tuple[int, ...], console: ConsoleProcess) -> None:
        self.bootstrap = bootstrap
        self.broker_ids = broker_ids
        self.console = console
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def url(self, path: str) -> str:
        return f"{self.console.address}/c/live{path}"

    def topics(self) -> dict[str, int]:
        found = self.admin.list_topics(timeout=10).topics
        return {name: len(topic.partitions) for name, topic in found.items()}


KINDS = ["kavka", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.thorough])]


@pytest.fixture(scope="module", params=KINDS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("actions")
    if request.param == "kavka":
        with Cluster(brokers=4, settings=PATIENT) as cluster:
            yield from console_over(cluster.bootstrap_servers, cluster.broker_ids, directory)
    else:
        with ProcessCluster(directory / "kafka", kind="kafka", brokers=4) as processes:
            processes.start()
            yield from console_over(processes.bootstrap, tuple(range(4)), directory)


def console_over(bootstrap: str, broker_ids: tuple[int, ...], directory: Path) -> Iterator[Live]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 3, 2), NewTopic("tailed", 1, 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(30):
        producer.produce("orders", b"k%d" % number, b'{"id": %d}' % number, partition=number % 3)
    producer.produce("orders", *HOSTILE[::-1], partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    places = [TopicPartition("orders", partition, 8) for partition in range(3)]
    eventually("committed", lambda: consumer.commit(offsets=places, asynchronous=False))
    consumer.close()
    settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
    with ConsoleProcess(settings, directory / "console") as console:
        yield Live(bootstrap, broker_ids, console)
        assert not console.failures, console.failures


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def do(page: Page, live: Live, action: str, *, typed: str = "", **fields: str) -> None:
    """From the open form over the preview to the outcome, looking at both; forms are looked at with the pages."""
    fill(page, **fields)
    page.get_by_role("button", name="Show what it would do").click()
    run = page.locator("button[value=run]")
    run.wait_for(timeout=SOON_MS)
    look(page)
    if typed:
        page.locator("[name=typed]").fill(typed)
    run.click()
    page.get_by_text("Done.").wait_for(timeout=SOON_MS)
    look(page)


def open_form(page: Page, live: Live, path: str) -> None:
    """Waits until the console has read what the form is about."""
    eventually(path, lambda: (page.goto(live.url(path)), page.locator("main form").count() > 0)[1], every_s=0.3)


def test_topics_from_creation_to_deletion(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        open_form(page, live, "/do/create-topic")
        do(page, live, "create-topic", topic="made", partitions="2", replicas="2", settings="retention.ms=3600000")
        assert live.topics()["made"] == 2
        page.get_by_role("link", name="Continue").click()
        page.locator("h1").filter(has_text="made").wait_for(timeout=SOON_MS)
        open_form(page, live, "/do/alter-config?topic=made")
        assert page.locator("[name=settings]").input_value().strip() == "retention.ms=3600000"
        do(page, live, "alter-config", settings="retention.ms=7200000\nmin.insync.replicas=1")
        open_form(page, live, "/do/add-partitions?topic=made")
        do(page, live, "add-partitions", count="4")
        eventually("grown", lambda: live.topics()["made"] == 4)
        open_form(page, live, "/do/delete-topic?topic=made")
        do(page, live, "delete-topic", typed="made")
        eventually("gone", lambda: "made" not in live.topics())


@pytest.mark.thorough
def test_records_are_written_looked_at_and_deleted(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        open_form(page, live, "/do/produce?topic=orders")
        do(page, live, "produce", key="by hand", value='{"customer": "Ada"}', value_form="json", headers="trace: 1")
        page.get_by_role("link", name="Continue").click()
        rows = page.locator("#records tr")
        rows.first.wait_for(timeout=SOON_MS)
        assert rows.count() == 32
        look(page)
        page.locator("#records summary").first.click()
        assert "Ada" in page.locator("#records pre").first.inner_text()
        fill(page, value="window.hostile")
        page.get_by_role("button", name="Show", exact=True).click()
        assert rows.count() == 1
        look(page)
        page.locator("#records th a").click()
        assert "<script>window.hostile=1</script>" in page.locator("pre").all_inner_texts()
        look(page)
        page.goto(live.url("/topics/orders/messages?start=oldest&n=10"))
        assert rows.count() == 10
        page.get_by_role("link", name="Continue from here").click()
        assert rows.count() == 10
        open_form(page, live, "/do/delete-records?topic=orders")
        do(page, live, "delete-records", typed="orders", partition="0", before="5")


def test_new_records_come_onto_an_open_page(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        page.goto(live.url("/topics/tailed/messages?start=tail"))
        rows = page.locator("#records tr")
        producer = Producer({"bootstrap.servers": live.bootstrap})

        def comes() -> bool:
            producer.produce("tailed", *HOSTILE)
            producer.flush(10)
            return bool(page.wait_for_timeout(200) is None and rows.count())

        eventually("a row", comes)
        assert "window.hostile=1" in rows.first.inner_text()
        look(page)
        page.get_by_role("button", name="Pause").click()
        shown = rows.count()
        comes()
        assert rows.count() <= shown + 1
        page.get_by_role("button", name="Continue").click()


@pytest.mark.thorough
def test_a_groups_offsets_are_set_and_the_group_deleted(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        open_form(page, live, "/do/reset-offsets?group=billing")
        do(page, live, "reset-offsets", way="shift", number="-2")
        page.get_by_role("link", name="Continue").click()
        open_form(page, live, "/do/delete-group?group=billing")
        do(page, live, "delete-group", typed="billing")
        page.goto(live.console.address + "/audit")
        look(page)
        page.locator("tbody th a").first.click()
        page.get_by_text("Done.").wait_for(timeout=SOON_MS)


@pytest.mark.thorough
def test_a_job_goes_on_under_the_open_page(live: Live, browser: Browser) -> None:
    with page_of(browser) as page:
        for kind, fields in (
            ("replication-factor", {"topics": "orders", "factor": "3"}),
            ("decommission", {"broker": str(live.broker_ids[-1])}),
            ("reassign", {"topics": "orders", "brokers": ",".join(map(str, live.broker_ids))}),
        ):
            open_form(page, live, f"/do/{kind}")
            look(page)
            eventually("brokers known", lambda: (page.reload(), fill(page, **fields)) is not None)  # noqa: B023
            page.get_by_role("button", name="Plan it").click()
            page.get_by_role("button", name="Run it").wait_for(timeout=SOON_MS)
            look(page)
            page.get_by_role("button", name="Run it").click()
            # Nobody loads the page again: it is told.
            page.locator("#state .state").filter(has_text=re.compile("^(done|partial)$")).wait_for(timeout=60_000)
            look(page)
        open_form(page, live, "/do/elect")
        look(page)
        page.get_by_role("button", name="Plan it").click()
        page.locator("main").filter(has_text=re.compile("Run it|already leads")).wait_for(timeout=SOON_MS)


def test_chinese_reads_chinese(live: Live, browser: Browser) -> None:
    with page_of(browser, language="zh-CN") as page:
        open_form(page, live, "/do/create-topic")
        assert "创建主题" in page.inner_text("h1")
        look(page)


@pytest.mark.thorough
def test_logging_in_and_out(tmp_path: Path, browser: Browser) -> None:
    users = Users(open_ledger(tmp_path / "data" / LEDGER))
    users.add("ada", PASSWORD, Role.OPERATOR)
    settings = 'login = true\n[[cluster]]\nname = "away"\nbootstrap = "127.0.0.1:1"\n'
    with ConsoleProcess(settings, tmp_path) as console, page_of(browser) as page:
        page.goto(console.address + "/c/away/jobs")
        look(page)
        fill(page, name="ada", password="no such password")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("Name or password is wrong.").wait_for(timeout=SOON_MS)
        look(page)
        fill(page, password=PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.locator("h1").filter(has_text="Jobs").wait_for(timeout=SOON_MS)
        assert page.url.endswith("/c/away/jobs"), "back to where the login was asked for"
        page.goto(console.address + "/c/away/do/delete-topic?topic=x")
        assert "takes the role admin" in page.inner_text("main")
        look(page)
        page.get_by_role("button", name="Log out").click()
        page.locator("h1").filter(has_text="Log in").wait_for(timeout=SOON_MS)
        fill(page, name="ada", password=PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.goto(console.address + "/c/away/do/elect")
        users.remove("ada")
        page.get_by_role("button", name="Plan it").click()
        page.get_by_text("the session has expired. Nothing was done.").wait_for(timeout=SOON_MS)
        look(page)
        assert not console.failures, console.failures


@pytest.mark.thorough
def test_a_viewer_finds_no_way_to_change_anything(live: Live, tmp_path: Path, browser: Browser) -> None:
    users = Users(open_ledger(tmp_path / "data" / LEDGER))
    for each in Role:
        users.add(each.name.lower(), PASSWORD, each)
    settings = f'login = true\npoll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{live.bootstrap}"\n'
    own = "main a[href*='/do/'], main form[method=post]:not([action$='/messages/saved'])"  # a search is one's own
    with ConsoleProcess(settings, tmp_path) as console:
        ways: dict[str, list[int]] = {}
        for role in ("viewer", "operator", "admin"):
            with page_of(browser) as page:
                page.goto(console.address + "/login")
                fill(page, name=role, password=PASSWORD)
                page.get_by_role("button", name="Log in").click()
                page.locator("h1").filter(has_text="Clusters").wait_for(timeout=SOON_MS)
                counts = ways.setdefault(role, [])
                for path in ("/topics/tailed", "/topics", "/jobs", "/topics/tailed/messages"):
                    address = f"{console.address}/c/live{path}"
                    eventually(path, lambda: page.goto(address).status == 200, every_s=0.3)  # noqa: B023
                    look(page)
                    counts.append(page.locator(own).count())
                if role == "viewer":
                    for path in ("/c/live/do/create-topic", "/c/live/do/elect", "/audit"):
                        page.goto(console.address + path)
                        assert "takes the role" in page.inner_text("main")
                        look(page)
        assert ways["viewer"] == [0, 0, 0, 0]
        assert all(ways["operator"])
        assert ways["admin"][0] == ways["operator"][0] + 2, "records and topics are deleted by admins"
        assert not console.failures, console.failures
