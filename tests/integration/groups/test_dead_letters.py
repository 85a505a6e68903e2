"""Dead letters of share groups (KIP-1191): what a group gives up is in its dead-letter topic, with headers that say
what it was; and what a broker does where none can be written. Also after kill -9 between the two.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages import read_share_group_state_summary_request as summarizing
from kavka.protocol.messages import update_features_request as features
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression
from kavka.records.record import Record
from tests.kit.broker_client import BrokerClient
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_member import ACCEPT, GAP, REJECT, RELEASE, ShareMember

TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
TOPIC_NAME = "errors.deadletterqueue.topic.name"
ALLOWED = {"errors.deadletterqueue.group.enable": "true"}
SETTINGS = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    with KavkaProcess(tmp_path_factory.mktemp("graves"), settings=SETTINGS) as process:
        yield process


@pytest.fixture
def client(broker: KavkaProcess) -> Iterator[BrokerClient]:
    with BrokerClient(broker.port) as client:
        yield client


def alter(client: BrokerClient, kind: int, name: str, settings: dict[str, str]) -> Any:
    changes = [configs.AlterableConfig(name=key, config_operation=0, value=value) for key, value in settings.items()]
    resource = configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


def take_back(client: BrokerClient, group: str) -> None:
    """The group has no dead-letter topic any more."""
    change = configs.AlterableConfig(name=TOPIC_NAME, config_operation=1, value=None)
    resource = configs.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[change])
    assert client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0


def records_of(client: BrokerClient, topic: str, partition: int = 0) -> list[Record]:
    found = client.fetch(topic, partition=partition).records or b""
    return [record for batch in iterate_batches(memoryview(found)) for record in batch.records()]


def batch(count: int, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(compression)
    for number in range(count):
        builder.append(1_000 + number, b"k%d" % number, b"v%d" % number)
    return builder.build()


def told_of(partition: str, broker: KavkaProcess) -> str:
    """What `kavka why` says of a partition."""
    return run_alone("why", partition, "-b", broker.bootstrap, "--json").stdout.decode()


class Queue:
    """A topic of three records, and a group with a dead-letter topic and its only member."""

    def __init__(self, client: BrokerClient, port: int, *, letters: str = "", **settings: str) -> None:
        self.client = client
        self.topic = client.create_topic(f"queue-{uuid.uuid4().hex}", partitions=2)
        assert client.produce(self.topic, batch(3, Compression.ZSTD), partition=1).error_code == 0
        self.topic_id = client.topic_id(self.topic)
        self.group = f"g-{uuid.uuid4().hex}"
        self.letters = letters or f"dlq.{self.group}"
        wanted = {TOPIC_NAME: self.letters, "share.auto.offset.reset": "earliest", **settings}
        answer = alter(client, GROUP_RESOURCE, self.group, wanted)
        assert answer.error_code == 0, answer
        self.member = ShareMember(port, self.group)
        self.member.join_assigned(self.topic)

    def take(self) -> list[tuple[int, int, int]]:
        return self.member.fetch(self.topic_id, 1)

    def say(self, *said: tuple[int, int, list[int]]) -> None:
        assert self.member.acknowledge(self.topic_id, *said, partition=1) == 0

    def close(self) -> None:
        self.member.close()

    def start(self) -> int:
        data = summarizing.ReadStateSummaryData(
            topic_id=self.topic_id, partitions=[summarizing.PartitionData(partition=1, leader_epoch=-1)]
        )
        request = summarizing.ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[data])
        return int(self.client.ask(request, 1).results[0].partitions[0].start_offset)


@pytest.fixture
def queues(client: BrokerClient, broker: KavkaProcess) -> Iterator[Any]:
    made: list[Queue] = []

    def make(**settings: str) -> Queue:
        made.append(Queue(client, broker.port, **settings))
        return made[-1]

    yield make
    for queue in made:
        queue.member.close()


@pytest.mark.setting("errors.deadletterqueue.group.enable")
def test_what_is_given_up_is_in_the_dead_letter_topic_and_says_what_it_was(
    queues: Any, client: BrokerClient, broker: KavkaProcess
) -> None:
    queue = queues(**{"share.delivery.count.limit": "2"})
    client.create_topic(queue.letters, partitions=2, **ALLOWED)
    assert queue.take() == [(0, 2, 1)]
    queue.say((0, 2, [REJECT, RELEASE, ACCEPT]))
    assert queue.take() == [(1, 1, 2)]
    queue.say((1, 1, [RELEASE]))
    eventually("all is done", lambda: queue.start() == 3)
    assert records_of(client, queue.letters, 0) == []
    first, second = records_of(client, queue.letters, 1)  # Partition 1 of 2, as the records.
    assert (first.key, first.value) == (None, None)
    assert dict(first.headers) == {
        "__dlq.errors.topic": queue.topic.encode(),
        "__dlq.errors.partition": b"1",
        "__dlq.errors.offset": b"0",
        "__dlq.errors.group": queue.group.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    told = dict(second.headers)
    assert (told["__dlq.errors.offset"], told["__dlq.errors.delivery.count"]) == (b"1", b"2")
    assert told["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert second.timestamp > 1_600_000_000_000, "the time of its writing, not of the record"
    why = f"group {queue.group} has given up records 0 to 0 (1 of them) of {queue.topic}-1"
    eventually("it is told", lambda: why in told_of(f"{queue.letters}-1", broker))


def test_a_copy_has_the_key_and_the_value_of_a_compressed_record(queues: Any, client: BrokerClient) -> None:
    queue = queues(**{"errors.deadletterqueue.copy.record.enable": "true"})
    client.create_topic(queue.letters, **ALLOWED)
    assert queue.take() == [(0, 2, 1)]
    queue.say((0, 2, [REJECT, GAP, REJECT]))
    eventually("all is done", lambda: queue.start() == 3)
    assert [(record.key, record.value) for record in records_of(client, queue.letters)] == [
        (b"k0", b"v0"),
        (b"k2", b"v2"),
    ]


def test_a_copy_that_does_not_fit_is_written_without_key_and_value(queues: Any, client: BrokerClient) -> None:
    queue = queues(**{"errors.deadletterqueue.copy.record.enable": "true"})
    builder = BatchBuilder()
    builder.append(0, None, b"x" * 5_000)
    assert client.produce(queue.topic, builder.build(), partition=1).error_code == 0
    client.create_topic(queue.letters, **ALLOWED, **{"max.message.bytes": "1000"})
    assert queue.take() == [(0, 3, 1)]
    queue.say((0, 3, [REJECT]))
    eventually("all is done", lambda: queue.start() == 4)
    values = [record.value for record in records_of(client, queue.letters)]
    assert values == [b"v0", b"v1", b"v2", None]


@pytest.mark.setting("errors.deadletterqueue.auto.create.topics.enable")
def test_a_missing_topic_is_created_where_the_cluster_allows_it_at_run_time(queues: Any, client: BrokerClient) -> None:
    name = "errors.deadletterqueue.auto.create.topics.enable"
    assert alter(client, BROKER_RESOURCE, "", {name: "true"}).error_code == 0
    try:
        queue = queues()
        assert queue.take() == [(0, 2, 1)]
        queue.say((0, 2, [REJECT]))
        eventually("all is done", lambda: queue.start() == 3)
        assert len(records_of(client, queue.letters)) == 3
    finally:
        assert alter(client, BROKER_RESOURCE, "", {name: "false"}).error_code == 0


REFUSED = {
    "missing": "does not exist and auto create is disabled",
    "not allowed": "DLQ is not enabled on configured DLQ topic",
    "outside of the prefix": "does not comply with the DLQ topic prefix",
    "its own topic": "is in the DLQ topic",
}


@pytest.mark.setting("errors.deadletterqueue.topic.name.prefix")
def test_where_none_may_be_written_for_long_the_group_goes_on_and_says_why(
    queues: Any, client: BrokerClient, broker: KavkaProcess
) -> None:
    of: dict[str, Queue] = {}
    for case in ("its own topic", *(each for each in REFUSED if each != "its own topic")):
        of[case] = queue = queues(letters=f"graves-{uuid.uuid4().hex}" if case.startswith("outside") else "")
        if case == "not allowed":
            client.create_topic(queue.letters)
        if case.startswith("outside"):
            client.create_topic(queue.letters, **ALLOWED)
        if case == "its own topic":
            assert alter(client, GROUP_RESOURCE, queue.group, {TOPIC_NAME: queue.topic}).error_code == 0
        assert queue.take() == [(0, 2, 1)]
        queue.say((0, 2, [REJECT]))
        if case == "its own topic":
            # Others are waited for, for LASTING_MS.
            eventually("what no time mends is done", lambda: queue.start() == 3, timeout_s=30)  # noqa: B023
        if case == "missing":
            assert queue.start() == 0, "the topic may be made in a moment"
    eventually("all is done", lambda: all(queue.start() == 3 for queue in of.values()), timeout_s=120, every_s=0.2)
    for case, reason in REFUSED.items():

        def is_told() -> bool:
            why = told_of(f"{of[case].topic}-1", broker)  # noqa: B023
            return "are archived without dead letters" in why and reason in why  # noqa: B023

        eventually(f"it is told: {case}", is_told)


@pytest.mark.parametrize("case", ["missing", "not allowed"])
def test_a_topic_that_is_made_or_allowed_a_moment_later_gets_the_dead_letters(
    queues: Any, client: BrokerClient, case: str
) -> None:
    queue = queues()
    if case == "not allowed":
        client.create_topic(queue.letters)
    assert queue.take() == [(0, 2, 1)]
    queue.say((0, 2, [REJECT]))
    assert queue.start() == 0
    if case == "missing":
        client.create_topic(queue.letters, **ALLOWED)
    else:
        assert alter(client, TOPIC_RESOURCE, queue.letters, ALLOWED).error_code == 0
    eventually("all is done", lambda: queue.start() == 3)
    assert len(records_of(client, queue.letters)) == 3


def test_a_reserved_name_is_refused(client: BrokerClient) -> None:
    answer = alter(client, GROUP_RESOURCE, "g", {TOPIC_NAME: "__consumer_offsets"})
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "must not start with '__'" in answer.error_message


def test_below_share_version_2_the_setting_is_refused_and_with_it_a_downgrade_is(tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "data", settings=SETTINGS) as process, BrokerClient(process.port) as client:
        assert alter(client, GROUP_RESOURCE, "g", {TOPIC_NAME: "dlq.g"}).error_code == 0
        refused = run_alone("features", "downgrade", "share.version=1", "-b", process.bootstrap)
        assert refused.returncode != 0
        assert "1 group has a dead-letter topic, for example g" in refused.stderr.decode()
        take_back(client, "g")
        done = run_alone("features", "downgrade", "share.version=1", "-b", process.bootstrap)
        assert done.returncode == 0, done.stderr
        answer = alter(client, GROUP_RESOURCE, "g", {TOPIC_NAME: "dlq.g"})
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert "the feature share.version is 1" in answer.error_message


def test_a_downgrade_of_share_version_is_refused_while_a_dead_letter_is_due(tmp_path: Path) -> None:
    """Earlier versions of kavka, and Apache Kafka 4.3, cannot read the state of its record."""

    def downgrade() -> Any:
        update = features.FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=2)
        return client.ask(features.UpdateFeaturesRequest(feature_updates=[update]), 2)

    with (
        KavkaProcess(tmp_path / "data", settings=SETTINGS) as process,
        BrokerClient(process.port) as client,
        closing(Queue(client, process.port)) as queue,
    ):
        assert queue.take() == [(0, 2, 1)]
        queue.say((0, 2, [REJECT]))  # The dead-letter topic is not there yet.
        take_back(client, queue.group)
        refused = downgrade()
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        why = f"1 group has records whose dead letters are not written yet, for example {queue.group}"
        assert why in (refused.error_message or "")
        assert alter(client, GROUP_RESOURCE, queue.group, {TOPIC_NAME: queue.letters}).error_code == 0
        client.create_topic(queue.letters, **ALLOWED)
        eventually("the dead letters are written", lambda: queue.start() == 3, every_s=0.1)
        assert len(records_of(client, queue.letters, 0)) == 3
        take_back(client, queue.group)
        assert downgrade().error_code == ErrorCode.NONE


def test_dead_letters_that_are_due_when_a_broker_dies_are_written_by_the_next(tmp_path: Path) -> None:
    """Their topic cannot be created before: it would have two replicas, and there is one broker."""
    auto = {"errors.deadletterqueue.auto.create.topics.enable": "true", "default.replication.factor": "2"}
    with KavkaProcess(tmp_path / "data", settings={**SETTINGS, **auto}) as process:
        with BrokerClient(process.port) as client:
            queue = Queue(client, process.port)
            assert queue.take() == [(0, 2, 1)]
            queue.say((0, 2, [REJECT]))  # It is stored, and answered, though no dead letter can be written yet.
            assert queue.start() == 0
            assert queue.member.fetch(queue.topic_id, 1, wait_ms=0) == []
            process.kill()
        process.start()
        with BrokerClient(process.port) as client, ShareMember(process.port, queue.group) as member:
            queue.client = client
            client.create_topic(queue.letters, **ALLOWED)
            member.join_assigned(queue.topic)
            assert member.fetch(queue.topic_id, 1, wait_ms=0) == []
            eventually("all is done", lambda: queue.start() == 3)
            told = [dict(record.headers) for record in records_of(client, queue.letters)]
            assert [each["__dlq.errors.offset"] for each in told] == [b"0", b"1", b"2"]
            assert {each["__dlq.errors.message"] for each in told} == {b"Offset rejected by client."}
