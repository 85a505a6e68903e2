"""Jobs of the console against a live cluster: planned, run, called off, killed in the middle, met by a broker's death.

What moves is throttled to a fraction of what there is, so that there is a middle to be interrupted in.
"""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kavka.client.cluster import Cluster as ClientCluster
from kavka.client.cluster import parse_bootstrap
from kavka.client.decisions import read_decisions
from kavka.decisions import DecisionKind, RecordedDecision
from kavka.runtime.loop import run
from kavka.runtime.network.network import SocketNetwork
from kavka.testing import Cluster
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually
from tests.kit.topic_everywhere import wait_everywhere

SIZE_BYTES = 1_600_000
SLOW_MB = "0.3"
"""Five seconds for one partition."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Live:
    def __init__(self, cluster: Cluster, console: ConsoleProcess) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap_servers
        self.console = console
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        self.client = ConsoleClient(console.address)

    def topic(self, name: str, brokers: tuple[int, ...], *, partitions: int = 1, size: int = SIZE_BYTES) -> None:
        placed = [list(brokers)] * partitions
        self.admin.create_topics([NewTopic(name, partitions, replica_assignment=placed)])[name].result(30)
        wait_everywhere(self.bootstrap, name, partitions)
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(size // 100_000):
            producer.produce(name, os.urandom(100_000), partition=number % partitions)
        assert producer.flush(60) == 0

    def replicas(self, name: str) -> list[tuple[int, ...]]:
        found = self.admin.list_topics(name, timeout=10).topics[name].partitions
        return [tuple(found[number].replicas) for number in sorted(found)]

    def leaders(self, name: str) -> list[int]:
        found = self.admin.list_topics(name, timeout=10).topics[name].partitions
        return [found[number].leader for number in sorted(found)]

    def throttles(self, *topics: str, brokers: tuple[int, ...] = (1, 2, 3, 4)) -> list[str]:
        """What throttles there are, in words. Any broker is asked about a topic, and those that did not make a change
        learn of it a moment later."""
        resources = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers]
        resources += [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        found = []
        for resource in resources:
            entries = self.admin.describe_configs([resource])[resource].result(10)
            names = RATES if resource.restype is ConfigResource.Type.BROKER else REPLICAS
            for name in names:
                entry = entries.get(name)
                # 1: the topic's own, 2: the broker's own, set at run time
                if entry is not None and entry.source in (1, 2) and entry.value:
                    found.append(f"{resource.name} {name}={entry.value}")
        return found

    def begun(self, topic: str) -> list[int]:
        """The partitions of a topic whose reassignment was begun, as often as it was, by the controller's word."""

        async def read() -> list[RecordedDecision]:
            hosts = parse_bootstrap(self.bootstrap)
            async with ClientCluster(SocketNetwork(), hosts) as cluster:
                return await read_decisions(cluster, 0)

        return sorted(
            each.decision.partition.partition
            for each in run(read())
            if each.decision.kind is DecisionKind.REASSIGNMENT_STARTED
            and each.decision.partition is not None
            and each.decision.partition.topic == topic
        )

    def plan(self, kind: str, **fields: str) -> Page:
        form = self.client.get(f"/c/live/do/{kind}")
        page = self.client.submit(form, f"/do/{kind}", **fields)
        assert "/jobs/" in page.path, page.text
        return page

    def run(self, page: Page) -> str:
        started = self.client.submit(page, "/run")
        assert started.status == 200, started.text
        return started.path

    def state(self, path: str) -> str:
        found = re.search(r'<p class="lead"><span class="state \w+">([^<]+)</span>', self.client.get(path).html)
        assert found is not None
        return found[1]

    def wait(self, path: str, *states: str, timeout_s: float = 120.0) -> str:
        return eventually(
            f"{path} {states}",
            lambda: (state := self.state(path)) in states and state,
            timeout_s=timeout_s,
            every_s=0.3,
        )

    def log(self, path: str) -> str:
        return self.client.get(path).text


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("jobs")
    with Cluster(brokers=4, settings={**PATIENT, "auto.leader.rebalance.enable": "false"}) as cluster:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap_servers}"\n'
        with ConsoleProcess(settings, directory / "console") as console:
            found = Live(cluster, console)
            eventually("the console knows it", lambda: found.client.get("/c/live/do/create-topic").status == 200)
            yield found
            assert not console.failures, console.failures


def test_a_console_that_is_killed_in_the_middle_goes_on_and_does_nothing_twice(live: Live) -> None:
    live.topic("killed", (1, 2), partitions=2)
    page = live.plan("reassign", topics="killed", brokers="3,4", throttle=SLOW_MB)
    for told in ("To copy", "kavka reassign execute plan.json", "kafka-reassign-partitions.sh", "Takes at least"):
        assert told in page.text
    assert live.replicas("killed") == [(1, 2)] * 2, "a plan moves nothing"
    path = live.run(page)
    live.wait(path, "moving")
    eventually("it copies", lambda: any(3 in replicas for replicas in live.replicas("killed")))
    eventually("it is throttled", lambda: live.throttles("killed"), every_s=0.2)
    live.console.kill()
    eventually("every broker knows the throttles", lambda: len(live.throttles("killed")) >= 6, every_s=0.2)
    live.console.start()
    assert live.wait(path, "done") == "done"
    eventually("it has moved", lambda: all(set(replicas) == {3, 4} for replicas in live.replicas("killed")))
    eventually("throttles are lifted at the end", lambda: live.throttles("killed") == [], every_s=0.2)
    begun = eventually("the controller has told it", lambda: len(found := live.begun("killed")) >= 2 and found)
    assert begun == [0, 1], "each partition was begun to move once"
    entry = live.client.get("/audit?q=killed").text
    assert "committed" in entry


def test_chosen_replicas_leave_a_broker_and_the_way_back_is_a_plan_of_its_own(live: Live) -> None:
    live.topic("chosen", (3, 4), partitions=3, size=300_000)
    form = eventually("the form lists them", lambda: _form_with(live, "chosen-2"))
    sent = [(name, value) for name, value in form.forms()[-1].fields.items() if name not in ("chosen", "target")]
    sent += [("chosen", "chosen-0"), ("chosen", "chosen-2"), ("target", "1"), ("target", "2")]
    plan = live.client.send(urllib.request.Request(f"{live.console.address}/c/live/do/move", urlencode(sent).encode()))
    assert "/jobs/" in plan.path, plan.text
    assert "Move 2 replicas off broker 3" in plan.text
    assert "takes the place of broker 3: of 2 brokers that may it holds the least" in plan.text
    path = live.run(plan)
    live.wait(path, "done")
    live.cluster.wait_in_sync("chosen")  # Any broker is asked, and metadata of all shows it then.
    replicas = live.replicas("chosen")
    assert replicas[1] == (3, 4), "it was not chosen"
    assert all(each[0] in (1, 2) and each[1] == 4 for each in (replicas[0], replicas[2]))
    back = live.client.submit(live.client.get(path), "/undo")
    assert back.path != path
    assert "Undo job" in back.text
    assert live.replicas("chosen") == replicas, "a plan moves nothing"
    live.wait(live.run(back), "done")
    eventually("it has moved back", lambda: live.replicas("chosen") == [(3, 4)] * 3)
    eventually("throttles are lifted", lambda: live.throttles("chosen") == [], every_s=0.2)


def _form_with(live: Live, partition: str) -> Page | None:
    page = live.client.get("/c/live/do/move?broker=3&q=chosen")
    return page if partition in page.text else None


def test_replicas_are_typed_partition_by_partition(live: Live) -> None:
    live.topic("typed", (1, 2), partitions=2, size=200_000)
    form = eventually(
        "the form knows the topic",
        lambda: (
            (page := live.client.get("/c/live/do/move?topic=typed")) and "Replicas afterwards" in page.text and page
        ),
    )
    assert live.client.get(f"/c/live/do/move?topic=typed&from={'9' * 5_000}").status == 200
    refused = live.client.submit(form, "/do/move", **{"replicas:0": "1 " * 500_000})
    assert refused.status == 400
    assert "at most 1000 characters" in refused.text
    refused = live.client.submit(form, "/do/move", **{"replicas:0": "1,99"})
    assert refused.status == 400
    assert "typed-0: there is no live broker 99" in refused.text
    assert refused.form("/do/move").fields["replicas:0"] == "1,99", "what was typed stays"
    plan = live.client.submit(refused, "/do/move", **{"replicas:0": "2, 1"})
    assert "only the order changes: broker 2 is preferred" in plan.text
    live.wait(live.run(plan), "done")
    eventually("every broker knows the order", lambda: live.replicas("typed") == [(2, 1), (1, 2)])


@pytest.mark.thorough
def test_called_off_in_the_middle_everything_is_as_it_was(live: Live) -> None:
    live.topic("stopped", (1, 2))
    before = live.throttles("stopped")
    path = live.run(live.plan("reassign", topics="stopped", brokers="3,4", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: 3 in live.replicas("stopped")[0])
    page = live.client.get(path)
    live.client.submit(page, "/cancel")
    live.wait(path, "cancelled")
    eventually("it is where it was", lambda: set(live.replicas("stopped")[0]) == {1, 2})
    eventually("throttles are lifted", lambda: live.throttles("stopped") == before, every_s=0.2)
    late = live.client.submit(page, "/cancel")
    assert late.status == 409
    assert "somebody was faster" in late.text


@pytest.mark.thorough
def test_a_throttle_that_was_there_before_is_put_back(live: Live) -> None:
    live.topic("standing", (1, 2), size=200_000)
    standing = ConfigEntry(REPLICAS[0], "0:1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "standing", incremental_configs=[standing])
    live.admin.incremental_alter_configs([resource])[resource].result(10)
    path = live.run(live.plan("reassign", topics="standing", brokers="3,4", throttle="50"))
    live.wait(path, "done")
    eventually("it is put back", lambda: live.throttles("standing") == [f"standing {REPLICAS[0]}=0:1"], every_s=0.2)


@pytest.mark.thorough
def test_of_two_jobs_at_once_the_second_is_refused_and_told(live: Live) -> None:
    live.topic("first", (1, 2))
    live.topic("second", (1, 2), size=200_000)
    one = live.plan("reassign", topics="first", brokers="3,4", throttle=SLOW_MB)
    two = live.plan("reassign", topics="second", brokers="3,4", throttle="50")
    path = live.run(one)
    refused = live.client.submit(two, "/run")
    assert refused.status == 409
    assert "one goes on at a time" in refused.text
    again = live.client.submit(one, "/run")
    assert again.status == 409, "the same plan is not run twice"
    live.client.submit(live.client.get(path), "/cancel")
    live.wait(path, "cancelled")
    assert live.state(live.run(live.client.get(two.path))) in ("confirmed", "throttling", "moving", "clearing", "done")
    live.wait(two.path, "done")


@pytest.mark.thorough
def test_a_plan_that_the_cluster_has_left_behind_is_not_run(live: Live) -> None:
    live.topic("moved", (1, 2), size=200_000)
    old = live.plan("reassign", topics="moved", brokers="3,4", throttle="50")
    path = live.run(live.plan("reassign", topics="moved", brokers="2,3", throttle="50"))
    live.wait(path, "done")
    refused = live.client.submit(old, "/run")
    assert refused.status == 409
    assert "out of date" in refused.text


@pytest.mark.thorough
def test_replicas_are_added_and_taken_away(live: Live) -> None:
    live.topic("factor", (1, 2), size=200_000)
    live.wait(live.run(live.plan("replication-factor", topics="factor", factor="3", throttle="")), "done")
    eventually("it has three replicas", lambda: len(live.replicas("factor")[0]) == 3)
    assert live.replicas("factor")[0][:2] == (1, 2)
    live.wait(live.run(live.plan("replication-factor", topics="factor", factor="1", throttle="")), "done")
    eventually("it has one replica", lambda: live.replicas("factor")[0] == (1,))


@pytest.mark.thorough
def test_preferred_leaders_lead_again(live: Live) -> None:
    live.topic("led", (4, 1, 2), size=200_000)
    live.cluster.kill(4)
    eventually("another leads", lambda: live.leaders("led") != [4] and live.leaders("led")[0] > 0)
    live.cluster.start(4)
    partition = "led"
    eventually(
        "4 is in sync",
        lambda: 4 in live.admin.list_topics(partition, timeout=10).topics[partition].partitions[0].isrs,
    )
    path = live.run(live.plan("elect", topics="led"))
    live.wait(path, "done")
    assert eventually("4 leads", lambda: live.leaders("led") == [4])


@pytest.mark.thorough
def test_a_broker_that_dies_in_the_middle_is_given_up_and_its_throttle_lifted_when_it_is_back(live: Live) -> None:
    live.topic("dying", (1, 2))
    live.topic("going", (1, 2))
    path = live.run(live.plan("reassign", topics="dying\ngoing", brokers="3,4", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: 3 in live.replicas("dying")[0])
    live.cluster.kill(3)
    eventually("said", lambda: "broker 3 is not alive" in live.log(path), every_s=0.3)
    live.wait(path, "clearing", timeout_s=120)
    eventually("waits", lambda: "is lifted when it is back" in live.log(path), every_s=0.3)
    live.cluster.start(3)
    live.wait(path, "partial")
    assert "which should copy it, is not alive" in live.log(path)
    assert live.throttles("dying", "going") == []
    assert set(live.replicas("dying")[0]) == {1, 2}


@pytest.mark.thorough
def test_a_cluster_that_goes_away_and_comes_back_is_waited_for(live: Live) -> None:
    live.topic("away", (1, 2))
    path = live.run(live.plan("reassign", topics="away", brokers="3,4", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: 3 in live.replicas("away")[0])
    live.cluster.kill(*live.cluster.running)
    eventually("said", lambda: "cannot do this now" in live.log(path), timeout_s=60, every_s=0.5)
    assert live.state(path) == "moving"
    live.cluster.start(1, 2, 3, 4)
    eventually("over", lambda: live.state(path) in ("done", "partial"), timeout_s=90, every_s=0.5)
    assert live.state(path) == "done", live.log(path)
    assert set(live.replicas("away")[0]) == {3, 4}
    assert live.begun("away") == [0]
    assert live.throttles("away") == []


@pytest.mark.thorough
def test_a_broker_is_decommissioned(live: Live) -> None:
    live.topic("leaving", (4, 1), partitions=3, size=300_000)
    path = live.run(live.plan("decommission", broker="4", throttle="50"))
    live.wait(path, "done", "partial", timeout_s=120)
    topics = live.admin.list_topics(timeout=10).topics
    left = [
        f"{name}-{number}"
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
        if 4 in partition.replicas
    ]
    assert left == [], live.log(path)
    page = live.client.submit(live.client.get("/c/live/do/decommission"), "/do/decommission", broker="4", throttle="")
    assert "it can be stopped" in page.text
