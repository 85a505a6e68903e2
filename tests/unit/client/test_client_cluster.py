"""The cluster: bootstrap, metadata that never goes back, retries that end."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.settings import ClientSettings
from kavka.errors import ConfigError, ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.unit.client.fake_cluster import FakeCluster

SETTINGS = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=1_000, api_timeout_ms=1_500, topic_propagation_ms=200
)


def run(fake: FakeCluster, scenario: Callable[[Cluster], Awaitable[None]], *bootstrap: int) -> None:
    async def main() -> None:
        addresses = [("fake", port) for port in bootstrap or (9001,)]
        async with Cluster(fake, addresses, SETTINGS, random=Random(1)) as cluster:
            await scenario(cluster)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("[::1]:9093,[::1]", [("::1", 9093), ("::1", 9092)]),
    ],
)
def test_bootstrap_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:70000", ":9092"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


def test_a_dead_bootstrap_address_is_passed_over() -> None:
    fake = FakeCluster(3)
    fake.down = {1, 2}

    async def scenario(cluster: Cluster) -> None:
        assert list(cluster.brokers) == [3]
        assert cluster.cluster_id == "fake"

    run(fake, scenario, 9001, 9002, 9003)


def test_no_broker_at_all_is_an_error_in_time() -> None:
    fake = FakeCluster()
    fake.down = {1}

    async def scenario(cluster: Cluster) -> None:
        raise AssertionError("there is nothing to connect to")

    with pytest.raises(ConnectionFailed, match="find the cluster within 1500 ms"):
        run(fake, scenario)


def test_one_connection_serves_all_who_ask_for_it_at_once() -> None:
    fake = FakeCluster(2)

    async def scenario(cluster: Cluster) -> None:
        found = await asyncio.gather(*(cluster.connection(2) for _ in range(10)))
        assert len({id(connection) for connection in found}) == 1
        assert await cluster.connection(2, "fetch") is not found[0]
        fake.stop(2)
        await asyncio.sleep(0)
        with pytest.raises(ConnectionFailed):
            await cluster.connection(2)
        with pytest.raises(ConnectionFailed, match="no broker 9"):
            await cluster.connection(9)

    run(fake, scenario)


def test_metadata_with_an_older_leader_epoch_is_not_taken() -> None:
    fake = FakeCluster(2)
    (log,) = fake.add_topic("t")
    log.leader_epoch = 5

    async def scenario(cluster: Cluster) -> None:
        await cluster.topic("t")
        partition = TopicPartition("t", 0)
        log.leader, log.leader_epoch = 2, 4
        await cluster.refresh()
        assert (cluster.leader(partition), cluster.leader_epoch(partition)) == (1, 5)
        log.leader_epoch = 6
        await cluster.refresh()
        assert (cluster.leader(partition), cluster.leader_epoch(partition)) == (2, 6)
        assert cluster.leader(TopicPartition("t", 1)) == -1

    run(fake, scenario)


def test_partitions_without_their_place_are_not_taken() -> None:
    def listed(*numbers: int) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for number in numbers
        ]
        return MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    async def scenario(cluster: Cluster) -> None:
        for numbers, taken in (
            ((1, 0), [0, 1]),
            ((-1, 0, 1), [0, 1]),
            ((-5, 2**31 - 1), []),
            ((0, 0, 1), [0, 1]),
            ((0, 2), [0]),
        ):
            for _ in range(2):
                cluster.take_metadata(listed(*numbers))
                assert [each.partition for each in cluster.topics["t"].partitions] == taken, numbers

    run(FakeCluster(), scenario)


def test_a_missing_topic_is_waited_for_only_as_long_as_topics_take_to_spread() -> None:
    fake = FakeCluster()

    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(RequestError, match="within 200 ms") as refusal:
            await cluster.topic("late")
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asyncio.get_running_loop().call_later(0.01, lambda: fake.add_topic("late"))
        assert (await cluster.topic("late")).name == "late"
        del fake.topics["late"]
        with pytest.raises(RequestError):
            await cluster.refresh()
        assert "late" not in cluster.topics

    run(fake, scenario)


def test_refreshes_at_the_same_time_share_one_request() -> None:
    fake = FakeCluster()
    fake.add_topic("t")

    async def scenario(cluster: Cluster) -> None:
        await cluster.topic("t")
        before = len(fake.asked(ApiKey.METADATA))
        await asyncio.gather(*(cluster.refresh() for _ in range(20)))
        assert len(fake.asked(ApiKey.METADATA)) - before <= 2

    run(fake, scenario)


def test_retries_stop_at_once_for_what_no_retry_helps() -> None:
    async def scenario(cluster: Cluster) -> None:
        tries = 0

        async def refuse(code: ErrorCode) -> None:
            nonlocal tries
            tries += 1
            raise RequestError(code, "no")

        with pytest.raises(RequestError, match=r"^no$"):
            await cluster.retry(lambda: refuse(ErrorCode.INVALID_CONFIG), what="try")
        assert tries == 1
        with pytest.raises(RequestError, match="could not try within 1000 ms: no"):
            await cluster.retry(lambda: refuse(ErrorCode.NOT_CONTROLLER), what="try", timeout_ms=1000)
        assert tries > 3

    run(FakeCluster(), scenario)


def test_pauses_grow_to_their_bound() -> None:
    settings = ClientSettings(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    pauses = [backoff_ms(settings, failures, Random(1)) for failures in (1, 2, 3, 10, 10_000)]
    assert [80 <= pauses[0] <= 120, 160 <= pauses[1] <= 240, 320 <= pauses[2] <= 480] == [True] * 3
    assert max(pauses) <= 1200


def test_offsets_are_asked_of_the_leaders() -> None:
    fake = FakeCluster(3)
    for number, log in enumerate(fake.add_topic("t", 3)):
        log.start_offset, log.end_offset = number, 10 * number

    async def scenario(cluster: Cluster) -> None:
        partitions = [TopicPartition("t", n) for n in range(3)]
        ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        assert [at.offset for at in ends.values()] == [0, 10, 20]
        fake.topics["t"][1].leader, fake.topics["t"][1].leader_epoch = 3, 1
        starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        assert [at.offset for at in starts.values()] == [0, 1, 2]
        with pytest.raises(RequestError):
            await list_offsets(cluster, {TopicPartition("t", 7): LATEST})

    run(fake, scenario)


def test_client_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="request_timeout_ms is 0"):
        ClientSettings(request_timeout_ms=0)


def test_a_topic_that_is_missing_hides_no_other() -> None:
    fake = FakeCluster(1)
    fake.add_topic("there", 2)
    fake.add_topic("goes")

    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(RequestError, match="missing"):
            await cluster.topic("missing")
        await cluster.topic("goes")
        del fake.topics["goes"]
        await cluster.refresh_quietly()
        assert len((await cluster.topic("there")).partitions) == 2
        with pytest.raises(RequestError, match="goes"):
            await cluster.topic("goes")

    run(fake, scenario)


def test_a_topic_is_known_without_a_request_until_its_metadata_is_too_old() -> None:
    fake = FakeCluster(1)
    fake.add_topic("there", 2)
    fake.add_topic("not looked at")

    async def scenario(cluster: Cluster) -> None:
        now_s = asyncio.get_running_loop().time()
        assert cluster.known_topic("there", now_s=now_s) is None
        found = await cluster.topic("there")
        refreshed_s = asyncio.get_running_loop().time()
        assert cluster.known_topic("there", now_s=refreshed_s) == found
        assert cluster.known_topic("not looked at", now_s=refreshed_s) is None
        assert cluster.known_topic("there", now_s=refreshed_s + SETTINGS.metadata_max_age_ms / 1000 + 1) is None
        del fake.topics["there"]
        await cluster.refresh_quietly()
        assert cluster.known_topic("there", now_s=asyncio.get_running_loop().time()) is None

    run(fake, scenario)


def test_only_what_may_be_created_is_asked_for_so() -> None:
    fake = FakeCluster(1)
    for name in ("read", "written"):
        fake.add_topic(name)

    async def scenario(cluster: Cluster) -> None:
        await cluster.topic("read")
        await cluster.topic("written", may_create=True)
        before = len(fake.asked(ApiKey.METADATA))
        await cluster.refresh()
        asked = fake.asked(ApiKey.METADATA)[before:]
        assert [(r.allow_auto_topic_creation, [topic.name for topic in r.topics]) for r in asked] == [
            (False, ["read"]),
            (True, ["written"]),
        ]

    run(fake, scenario)
