"""No page in Chinese has English left on it, but what it marks as English: while all is well, while it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing import Cluster
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually

TOPIC, GROUP, MOVED = "orders", "billing", "moved"
SETTINGS = {
    **PATIENT,
    "replica.lag.time.max.ms": 2_000,
    "min.insync.replicas": "2",
    "kavka.decisions.topic.enable": "true",
}
C = "/c/live"
ACTIONS = (
    "create-topic",
    "reassign",
    "replication-factor",
    "decommission",
    "elect",
    "add-acl",
    "set-user",
    "set-quota",
)
ON_TOPIC = ("alter-config", "add-partitions", "delete-topic", "delete-records", "produce")
ON_GROUP = ("reset-offsets", "delete-group")


class Live:
    """A cluster, the console over it, and a reader who wants Chinese."""

    def __init__(self, cluster: Cluster, console: ConsoleProcess) -> None:
        self.cluster = cluster
        self.console = console
        self.client = ConsoleClient(console.address, {"Accept-Language": "zh-CN"})

    def look(self, *paths: str) -> dict[str, list[str]]:
        """The English on each of these pages, of those that have any."""
        found = {}
        for path in paths:
            page = self.client.get(path)
            assert page.status < 500 or path.startswith("/c/away"), f"{path}: {page.text}"
            if page.english():
                found[path] = page.english()
        return found

    def decisions(self) -> list[str]:
        """The page of each decision."""
        paths: dict[str, None] = {}
        for page in range(1, 9):
            html = self.client.get(f"{C}/decisions?page={page}").html
            paths |= dict.fromkeys(re.findall(rf'href="({C}/decisions/[^"?]+)"', html))
        return list(paths)


def told(english: dict[str, list[str]]) -> str:
    return "\n".join(f"{where}: {text}" for where, texts in english.items() for text in texts)


def everywhere() -> list[str]:
    pages = ["/", "/simulator", "/audit", f"{C}/", "/c/away/", "/c/away/topics", "/c/away/do/create-topic"]
    pages += [
        f"{C}/{section}"
        for section in ("brokers", "topics", "groups", "decisions", "durability", "churn", "jobs", "requests")
    ]
    pages += [
        f"{C}/{section}" for section in ("zookeeper", "zookeeper/brokers/ids", "simulator", "brokers/1", "brokers/3")
    ]
    pages += [f"{C}/topics/{TOPIC}", f"{C}/topics/none-such", f"{C}/groups/{GROUP}", f"{C}/brokers/77"]
    pages += [f"{C}/topics/{TOPIC}/clients", f"{C}/topics/{TOPIC}/clients?partition=1", f"{C}/brokers/1/clients"]
    pages += [f"{C}/alerts"]
    pages += [f"{C}/access{part}" for part in ("", "/users", "/quotas")]
    pages += [f"{C}/topics/{TOPIC}/settings{query}" for query in ("", "?with=single&all=1", "?q=no-such")]
    pages += [f"{C}/brokers/1/settings?only=none", f"{C}/do/set-config?topic={TOPIC}&setting=retention.ms"]
    pages += [f"{C}/topics/{TOPIC}/messages{query}" for query in ("", "/0/0", "?value=no+such", "?start=x", "/0/99999")]
    pages += [f"{C}/do/{action}" for action in ACTIONS]
    pages += [f"{C}/do/{action}?topic={TOPIC}" for action in ON_TOPIC]
    pages += [f"{C}/do/{action}?group={GROUP}" for action in ON_GROUP]
    return pages


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(TOPIC, 3, 3), NewTopic(MOVED, 1, replica_assignment=[[1, 2]]), NewTopic("single", 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(60):
        producer.produce(TOPIC, key=f"k{number}", value=f'{{"customer": {number}}}', partition=number % 3)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = [TopicPartition(TOPIC, partition, 5) for partition in range(3)]
    eventually("committed", lambda: is_committed(consumer, places))
    consumer.close()


def is_committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    """Not yet while the coordinator is being made, which Apache Kafka takes its time for."""
    try:
        return bool(consumer.commit(offsets=places, asynchronous=False))
    except KafkaException:
        return False


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        fill(cluster.bootstrap_servers)
        settings = (
            f'poll_ms = 300\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap_servers}"\n'
            f'zookeeper = "{cluster.zookeeper_connect}"\n[[cluster]]\nname = "away"\nbootstrap = "127.0.0.1:1"\n'
        )
        with ConsoleProcess(settings, tmp_path_factory.mktemp("zh")) as console:
            found = Live(cluster, console)
            eventually("the console knows the group", lambda: found.client.get(f"{C}/groups/{GROUP}").status == 200)
            yield found
            assert not console.failures, console.failures


def test_while_all_is_well(live: Live) -> None:
    english = live.look(*everywhere())
    assert not english, told(english)


def test_what_actions_and_jobs_say(live: Live) -> None:
    client, english = live.client, {}

    def look(name: str, page: Page) -> Page:
        if page.english():
            english[name] = page.english()
        return page

    for name, subject, fields in (
        ("create-topic", {}, {"topic": "made", "partitions": "2", "replicas": "3"}),
        ("alter-config", {"topic": "made"}, {"settings": "retention.ms=7200000"}),
        ("add-partitions", {"topic": "made"}, {"count": "3"}),
        ("produce", {"topic": "made"}, {"key": "k", "value": "v", "partition": "0"}),
        ("delete-records", {"topic": "made"}, {"partition": "0", "before": "1"}),
        ("reset-offsets", {"group": GROUP}, {"way": "earliest", "topic": TOPIC}),
        ("delete-group", {"group": GROUP}, {}),
        ("delete-topic", {"topic": "made"}, {}),
    ):
        shown = look(f"{name}, preview", client.preview("live", name, subject, **fields))
        typed = {"delete-group": GROUP, "delete-topic": "made", "delete-records": "made"}.get(name)
        look(f"{name}, run", client.confirm(shown, name, **({"typed": typed} if typed else {})))
    for name, subject, fields in (
        ("create-topic", {}, {"topic": "bad name"}),
        ("create-topic", {}, {"topic": "many", "replicas": "9"}),
        ("create-topic", {}, {"topic": "odd", "settings": "nonsense"}),
        ("create-topic", {}, {"topic": "odd", "partitions": "-3"}),
        ("produce", {"topic": TOPIC}, {"value": "{", "value_form": "json"}),
        ("add-partitions", {"topic": TOPIC}, {"count": "2"}),
    ):
        look(f"{name} {fields}, refused", client.preview("live", name, subject, **fields))
    for kind, fields in (
        ("reassign", {"topics": MOVED, "brokers": "2,3"}),
        ("replication-factor", {"topics": MOVED, "factor": "3"}),
        ("decommission", {"broker": "3"}),
        ("elect", {"topics": TOPIC}),
    ):
        plan = look(f"{kind}, plan", client.submit(client.get(f"{C}/do/{kind}"), f"/do/{kind}", **fields))
        if kind in ("reassign", "elect") and any(form.action.endswith("/run") for form in plan.forms()):
            path = look(f"{kind}, begun", client.submit(plan, "/run")).path
            eventually("it is done", lambda: 'class="state ok"' in client.get(path).html)  # noqa: B023
            look(f"{kind}, done", client.get(path))
    look("jobs", client.get(f"{C}/jobs"))
    look("audit", client.get("/audit"))
    assert not english, told(english)


def test_while_it_is_not_and_what_brokers_decided(live: Live) -> None:
    live.cluster.kill(3)
    eventually(
        "the console saw it",
        lambda: "3" in re.findall(r"brokers/(\d+)[^>]*>[^<]*</a>[^<]*", live.client.get(f"{C}/").html),
    )
    english = live.look(*everywhere())
    live.cluster.kill(2)
    eventually("a partition refuses writes", lambda: live.client.get(f"{C}/durability").status == 200)
    english |= live.look(*everywhere())
    live.cluster.restore()
    live.cluster.wait_in_sync()
    decisions = live.decisions()
    english |= live.look(*decisions)
    assert not english, told(english)
    whys = {path: re.findall(r'<p class="lead" lang="(\w+)">([^<]*)', live.client.get(path).html) for path in decisions}
    assert len(whys) > 10
    unsaid = [why for found in whys.values() for language, why in found if language != "zh"]
    assert not unsaid, "\n".join(unsaid)
