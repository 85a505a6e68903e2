"""Twenty tasks of an operator, each carried out in a real browser on a live cluster, with its clicks counted.

docs/operator-tasks.md tells how many they are, by the rules that stand there: `Hand` counts by them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.console.test_pages_in_browser import fill
from tests.kit.browser import chromium, page_of
from tests.kit.connect_server import ConnectServer
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import ProcessCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.thorough
PAGE = Path(__file__).resolve().parents[3] / "docs" / "operator-tasks.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (\d+) \| (.+) \|$", re.MULTILINE)
SOON_MS = 30_000
SPARE = ("spare-topic", "spare-group")
"""What is deleted."""


class Row(NamedTuple):
    """One task as the page tells it; `others`: the figures of those that have one."""

    number: int
    task: str
    kavka: int
    others: tuple[int, ...]


def rows() -> list[Row]:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return [
        Row(int(number), task, int(kavka), tuple(int(each) for each in rest.split(" | ") if each.isdecimal()))
        for number, task, kavka, rest in found
    ]


class Hand:
    """An operator's hand on one page: counts its clicks. Typing is none."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, text: str, *, role: str = "link", within: str = "main") -> None:
        self._click(self.page.locator(within).get_by_role(role, name=text, exact=True).first)  # type: ignore[arg-type]

    def menu(self, name: str) -> None:
        self.click(name, within=".sections")

    def confirm(self, button: str) -> None:
        """The button below the form, as soon as the preview is there."""
        self._click(self.page.locator("#shown").get_by_role("button", name=button, exact=True))

    def at(self, selector: str) -> None:
        self._click(self.page.locator(selector).first)

    def type(self, **fields: str) -> None:
        for name, value in fields.items():
            self.page.locator(f"main [name={name}]").last.fill(value)

    def see(self, text: str, where: str = "main") -> None:
        self.page.locator(where).filter(has_text=text).first.wait_for(timeout=SOON_MS)

    def is_done(self) -> None:
        self.see("committed")

    def _click(self, place: Locator) -> None:
        place.click(timeout=SOON_MS)
        self.clicks += 1


def healthy(hand: Hand) -> None:
    hand.menu("Overview")
    hand.see("of 100", "#health")
    hand.see("single replica", "#health")


def out_of_sync(hand: Hand) -> None:
    hand.menu("Durability")
    hand.see("Partitions with replicas out of sync")


def why(hand: Hand) -> None:
    hand.menu("Decisions")
    hand.at(".timeline details summary")
    hand.see("decided by", ".timeline details[open]")


def create_topic(hand: Hand) -> None:
    hand.menu("Topics")
    hand.click("Create a topic")
    hand.type(topic="made-by-hand", partitions="3", replicas="3")
    hand.confirm("Create it")
    hand.is_done()


def change_topic(hand: Hand) -> None:
    hand.menu("Topics")
    hand.click("Change a setting")
    hand.type(topic="orders", setting="retention.ms", value="86400000")
    hand.confirm("Change them")
    hand.is_done()


def add_partitions(hand: Hand) -> None:
    hand.menu("Topics")
    hand.click("Add partitions")
    hand.type(topic="payments.eu-1", count="4")
    hand.confirm("Add them")
    hand.is_done()


def delete_topic(hand: Hand) -> None:
    hand.menu("Topics")
    hand.click("Delete a topic")
    hand.type(topic=SPARE[0])
    hand.see("All its records are lost", "#shown")
    hand.type(typed=SPARE[0])
    hand.confirm("Delete it")
    hand.is_done()


def newest(hand: Hand) -> None:
    hand.menu("Topics")
    hand.at('tbody a[href$="/topics/orders/messages"]')
    hand.see("v599", "#records")


def by_key(hand: Hand) -> None:
    hand.menu("Topics")
    hand.at('tbody a[href$="/topics/orders/messages"]')
    hand.type(key="k117")
    hand.click("Show", role="button")
    hand.see("v117", "#records")


def live(hand: Hand) -> None:
    hand.menu("Topics")
    hand.at('tbody a[href$="/topics/orders/messages"]')
    hand.click("Follow live")
    hand.see("Waiting for new records", "#tail-state")


def write(hand: Hand) -> None:
    hand.menu("Topics")
    hand.at('tbody a[href$="/topics/audit/messages"]')
    hand.click("Produce")
    hand.type(value="by hand")
    hand.see("by hand", "#shown")
    hand.confirm("Write it")
    hand.is_done()


def save(hand: Hand) -> None:
    hand.menu("Topics")
    hand.at('tbody a[href$="/topics/orders/messages"]')
    with hand.page.expect_download() as download:
        hand.click("CSV")
    assert download.value.path().read_text(encoding="utf-8").count("\n") > 600


def lag(hand: Hand) -> None:
    hand.menu("Groups")
    hand.click("billing")
    hand.see("orders-5", "#partitions")


def reset(hand: Hand) -> None:
    hand.menu("Groups")
    hand.click("Reset offsets")
    hand.type(group="billing", time=time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 7 * 86400)))
    hand.see("They go to the first records from", "#shown")
    hand.confirm("Set them")
    hand.is_done()


def delete_group(hand: Hand) -> None:
    hand.menu("Groups")
    hand.click("Delete a group")
    hand.type(group=SPARE[1])
    hand.see("Its committed offsets are lost", "#shown")
    hand.type(typed=SPARE[1])
    hand.confirm("Delete it")
    hand.is_done()


def broker_settings(hand: Hand) -> None:
    hand.menu("Brokers")
    hand.click("Settings of broker 2")
    hand.see("log.dirs", ".settings")


def change_broker(hand: Hand) -> None:
    hand.menu("Brokers")
    hand.click("Change a setting")
    hand.type(broker="2", setting="log.cleaner.threads", value="2")
    hand.confirm("Change them")
    hand.is_done()


def empty_broker(hand: Hand) -> None:
    hand.menu("Brokers")
    hand.at("#brokers tbody tr:last-child th a")
    hand.click("Decommission")
    hand.click("Plan it", role="button")
    hand.click("Run it", role="button")
    hand.see("Cancel it")
    hand.page.locator("main").get_by_role("button", name="Cancel it").click()
    hand.see("cancelled")


def replicas(hand: Hand) -> None:
    hand.menu("Jobs")
    hand.click("Change the number of replicas")
    hand.type(topics="audit", factor="2")
    hand.click("Plan it", role="button")
    hand.click("Run it", role="button")
    hand.see("done", "#facts, .facts, main")


def restart(hand: Hand) -> None:
    hand.menu("Connect")
    hand.click("Restart jdbc")
    hand.confirm("Do it")
    hand.is_done()


TASKS: dict[int, Callable[[Hand], None]] = dict(
    enumerate(
        (
            healthy,
            out_of_sync,
            why,
            create_topic,
            change_topic,
            add_partitions,
            delete_topic,
            newest,
            by_key,
            live,
            write,
            save,
            lag,
            reset,
            delete_group,
            broker_settings,
            change_broker,
            empty_broker,
            replicas,
            restart,
        ),
        1,
    )
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("tasks")
    with ProcessCluster(directory / "cluster", kind="kavka") as cluster, ConnectServer() as connect:
        cluster.start()
        fill(cluster.bootstrap)
        spare(cluster.bootstrap)
        failed = {
            "config": {"topics": "orders"},
            "state": "RUNNING",
            "tasks": ["FAILED"],
            "trace": "java.io.IOException",
        }
        connect.connectors = {"jdbc": failed}
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap}"\n'
        with ConsoleProcess(f'{settings}connect = "{connect.address}"\n', directory / "console") as running:
            client = ConsoleClient(running.address)
            for path, text in (
                ("groups", SPARE[1]),
                ("topics", "600"),
                ("topics/orders", "min.insync.replicas"),
                ("decisions", "leader"),
            ):
                eventually(path, lambda: text in client.get(f"/c/live/{path}").html)  # noqa: B023
            yield running
            assert not running.failures, running.failures


def spare(bootstrap: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(SPARE[0], 1, 1)])[SPARE[0]].result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": SPARE[1], "enable.auto.commit": False})
    place = [TopicPartition("orders", 0, 3)]
    eventually("the group's offset", lambda: consumer.commit(offsets=place, asynchronous=False))
    consumer.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row.number))
def test_a_task_takes_as_many_clicks_as_the_page_says(console: ConsoleProcess, browser: Browser, row: Row) -> None:
    with page_of(browser) as page:
        page.goto(f"{console.address}/c/live/")
        hand = Hand(page)
        TASKS[row.number](hand)
        assert hand.clicks == row.kavka, row.task
