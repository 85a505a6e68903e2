"""Jobs from an open page: what may be done with one while it goes on, two operators at it, and the console's death.

What moves is throttled to a fraction of what there is, so that there is a middle. Nobody loads a page again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.client.admin import Admin
from kavka.client.cluster import Cluster as ClientCluster
from kavka.client.cluster import parse_bootstrap
from kavka.client.decisions import read_decisions
from kavka.decisions import DecisionKind
from kavka.model import TopicPartition
from kavka.runtime.loop import run
from kavka.runtime.network.network import SocketNetwork
from kavka.testing import Cluster
from tests.kit.browser import chromium, fill, look, page_of
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.thorough
SOON_MS = 20_000
Answer = TypeVar("Answer")
SIZE_BYTES = 1_600_000
SLOW, SLOWER = "0.3", "0.02"
"""MiB/s: some five seconds for a partition, and more than a minute."""


class Live:
    def __init__(self, cluster: Cluster, console: ConsoleProcess) -> None:
        self.cluster = cluster
        self.console = console
        self.bootstrap = cluster.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def url(self, path: str) -> str:
        return f"{self.console.address}/c/live{path}"

    def topic(self, name: str, brokers: tuple[int, ...], *, size: int = SIZE_BYTES) -> None:
        wanted = NewTopic(name, 1, replica_assignment=[list(brokers)])

        def is_made() -> bool:
            try:
                self.admin.create_topics([wanted])[name].result(30)
            except KafkaException as refused:
                # Of a controller that has just changed; librdkafka hands it on.
                if refused.args[0].code() != KafkaError.NOT_CONTROLLER:
                    raise
                return False
            return True

        eventually("a topic", is_made)
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for _number in range(size // 100_000):
            producer.produce(name, os.urandom(100_000), partition=0)
        assert producer.flush(60) == 0

    def replicas(self, name: str) -> tuple[int, ...]:
        return tuple(self.admin.list_topics(name, timeout=10).topics[name].partitions[0].replicas)

    def leader(self, name: str) -> int:
        return int(self.admin.list_topics(name, timeout=10).topics[name].partitions[0].leader)

    def ask(self, question: Callable[[ClientCluster], Awaitable[Answer]]) -> Answer:
        """In a thread of its own: in the tests' runs the browser's loop."""

        async def asked() -> Answer:
            async with ClientCluster(SocketNetwork(), parse_bootstrap(self.bootstrap)) as cluster:
                return await question(cluster)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: run(asked())).result()

    def prefer(self, name: str, brokers: tuple[int, ...]) -> None:
        """The same replicas in another order: who leads goes on."""

        async def move(cluster: ClientCluster) -> None:
            assert not await Admin(cluster).alter_partition_reassignments({TopicPartition(name, 0): brokers})

        self.ask(move)
        eventually("another order", lambda: self.replicas(name) == brokers)

    def begun(self, name: str) -> int:
        """How often a reassignment of the topic was begun, by the controller's word."""

        async def count(cluster: ClientCluster) -> int:
            return sum(
                each.decision.kind is DecisionKind.REASSIGNMENT_STARTED
                and each.decision.partition == TopicPartition(name, 0)
                for each in await read_decisions(cluster, 0)
            )

        return self.ask(count)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("jobs-in-browser")
    with Cluster(brokers=4, settings={"auto.leader.rebalance.enable": "false"}) as cluster:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap_servers}"\n'
        with ConsoleProcess(settings, directory / "console") as console:
            yield Live(cluster, console)
            assert not console.failures, console.failures


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def plan(page: Page, live: Live, kind: str, **fields: str) -> None:
    """Opens the form, once the console knows the cluster, and makes the plan."""
    eventually(kind, lambda: (page.goto(live.url(f"/do/{kind}")), page.locator("main form").count() > 0)[1])
    fill(page, **fields)
    page.get_by_role("button", name="Plan it").click()
    page.get_by_role("button", name="Discard it").wait_for(timeout=SOON_MS)


def see_state(page: Page, *states: str, timeout_ms: int = SOON_MS) -> None:
    word = re.compile(f"^({'|'.join(states)})$")
    page.locator("#state .state").filter(has_text=word).wait_for(timeout=timeout_ms)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def test_a_plan_that_nobody_wants_is_discarded(live: Live, browser: Browser) -> None:
    live.topic("unwanted", (1, 2), size=100_000)
    with page_of(browser) as page:
        plan(page, live, "reassign", topics="unwanted", brokers="3,4", throttle="50")
        assert "50.0 MiB/s" in page.inner_text("#state"), "in the units in which it was said"
        press(page, "Discard it")
        see_state(page, "discarded")
        assert page.locator("#state button").count() == 0, "nothing is to be done with it any more"
        look(page)
        page.goto(live.url("/jobs"))
        assert "unwanted" not in page.inner_text("#jobs")
        look(page)
    assert live.replicas("unwanted") == (1, 2)


def test_everything_moves_off_a_broker_by_boxes_and_back(live: Live, browser: Browser) -> None:
    live.topic("boxed", (3, 4), size=200_000)
    with page_of(browser) as page:
        listed = "tbody input[value=boxed-0]"
        form = live.url("/do/move?broker=3&q=boxed")
        eventually("the form", lambda: (page.goto(form), page.locator(listed).count() > 0)[1])
        every = page.get_by_role("checkbox", name="Choose all")
        assert every.is_checked()
        every.uncheck()
        assert not page.locator(listed).is_checked()
        press(page, "Plan it")
        page.get_by_text("choose at least one partition").wait_for(timeout=SOON_MS)
        page.get_by_role("checkbox", name="Choose all").check()
        page.get_by_role("checkbox", name="Broker 2").uncheck()
        look(page)
        press(page, "Plan it")
        page.get_by_text("no other broker may").wait_for(timeout=SOON_MS)
        look(page)
        press(page, "Run it")
        see_state(page, "done")
        assert live.replicas("boxed") == (1, 4)
        press(page, "Plan the way back")
        page.get_by_role("heading", name="Undo job").wait_for(timeout=SOON_MS)
        press(page, "Run it")
        see_state(page, "done")
        look(page)
    assert live.replicas("boxed") == (3, 4)


def test_preferred_leaders_are_elected(live: Live, browser: Browser) -> None:
    live.topic("led", (1, 2), size=100_000)
    live.prefer("led", (2, 1))
    assert live.leader("led") == 1
    with page_of(browser) as page:
        plan(page, live, "elect", topics="led")
        look(page)
        press(page, "Run it")
        see_state(page, "done")
        look(page)
        assert live.leader("led") == 2
        page.goto(live.url("/do/elect"))
        fill(page, topics="led")
        press(page, "Plan it")
        page.get_by_text("every preferred leader already leads").wait_for(timeout=SOON_MS)
        look(page)


def test_of_two_operators_at_one_plan_the_second_is_told_of_the_first(live: Live, browser: Browser) -> None:
    live.topic("wanted", (1, 2), size=100_000)
    with page_of(browser) as first, page_of(browser) as second:
        plan(first, live, "reassign", topics="wanted", brokers="3,4", throttle="50")
        second.goto(first.url)
        press(first, "Run it")
        press(second, "Run it")
        second.get_by_text("somebody was faster").wait_for(timeout=SOON_MS)
        assert "Nothing was done twice" in second.inner_text("#problem")
        look(second)
        see_state(first, "done")
    assert set(live.replicas("wanted")) == {3, 4}
    assert live.begun("wanted") == 1


def test_the_throttle_of_a_job_is_changed_while_it_moves(live: Live, browser: Browser) -> None:
    live.topic("hurried", (1, 2))
    with page_of(browser) as page:
        plan(page, live, "reassign", topics="hurried", brokers="3,4", throttle=SLOWER)
        press(page, "Run it")
        see_state(page, "moving")
        assert page.locator("main [name=throttle]").input_value() == SLOWER
        look(page)
        page.locator("main [name=throttle]").fill("20")
        # The page goes on under the reader's hands, and leaves what was typed.
        eventually("it copies", lambda: 3 in live.replicas("hurried"))
        page.wait_for_timeout(2_500)
        assert page.locator("main [name=throttle]").input_value() == "20"
        press(page, "Change it")
        page.locator("#state").filter(has_text="20.0 MiB/s").wait_for(timeout=SOON_MS)
        see_state(page, "done", timeout_ms=60_000)
        page.locator("#log summary").click()
        assert "throttle changed to 20,971,520 bytes/s by local" in page.inner_text("#log")
        look(page)
    assert live.begun("hurried") == 1


def test_a_job_is_called_off_while_it_moves(live: Live, browser: Browser) -> None:
    live.topic("stopped", (1, 2))
    with page_of(browser) as page:
        plan(page, live, "reassign", topics="stopped", brokers="3,4", throttle=SLOWER)
        press(page, "Run it")
        see_state(page, "moving")
        eventually("it copies", lambda: 3 in live.replicas("stopped"))
        press(page, "Cancel it")
        see_state(page, "cancelled", timeout_ms=60_000)
        look(page)
        page.goto(live.console.address + "/audit?q=job")
        assert "job cancel" in page.inner_text("tbody")
        look(page)
    assert set(live.replicas("stopped")) == {1, 2}


def test_a_console_that_is_killed_under_the_open_page_goes_on_and_does_nothing_twice(
    live: Live, browser: Browser
) -> None:
    live.topic("killed", (1, 2))
    with page_of(browser) as page:
        plan(page, live, "reassign", topics="killed", brokers="3,4", throttle=SLOW)
        press(page, "Run it")
        see_state(page, "moving")
        eventually("it copies", lambda: 3 in live.replicas("killed"))
        live.console.kill()
        page.locator("#link.lost").filter(has_text="Connection to the console lost").wait_for(timeout=SOON_MS)
        assert "moving" in page.inner_text("#state"), "what is known stays"
        live.console.start()
        see_state(page, "done", timeout_ms=60_000)
        look(page)
    assert set(live.replicas("killed")) == {3, 4}
    assert live.begun("killed") == 1


@pytest.mark.timeout(300)
def test_a_job_that_waits_for_a_dead_broker_is_given_up(live: Live, browser: Browser) -> None:
    live.topic("dying", (1, 2))
    with page_of(browser) as page:
        plan(page, live, "reassign", topics="dying", brokers="3,4", throttle=SLOWER)
        press(page, "Run it")
        see_state(page, "moving")
        eventually("it copies", lambda: 3 in live.replicas("dying"))
        live.cluster.kill(3)
        see_state(page, "clearing", timeout_ms=120_000)
        give_up = page.get_by_role("button", name="End it and leave these throttles in place")
        give_up.wait_for(timeout=60_000)
        assert "is lifted when it is back" in page.inner_text("#state")
        look(page)
        give_up.click()
        see_state(page, "partial")
        assert "throttles are left on" in page.inner_text("#state")
        look(page)
    live.cluster.start(3)
    assert set(live.replicas("dying")) == {1, 2}
