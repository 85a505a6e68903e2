"""Transactions over three brokers: all of one is visible or nothing, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kavka.broker.metadata.metadata_cache import TRANSACTION_STATE_TOPIC
from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, CoordinatorType
from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset, ProducerSettings
from kavka.client.transactions import GroupMetadata, ProducerFenced, TransactionBroken
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch, TransactionState
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.end_txn_request import EndTxnRequest
from kavka.protocol.messages.end_txn_response import EndTxnResponse
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.messages.produce_response import ProduceResponse
from kavka.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kavka.protocol.messages.update_features_response import UpdateFeaturesResponse
from kavka.records.builder import BatchBuilder, ProducerStamp
from tests.integration.cluster_in_process.in_process_cluster import PATIENCE_S, InProcessCluster

TOPIC, OUTPUT, NAME = "orders", "bills", "tx"
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "replica.lag.time.max.ms": "1000",
}


def runs(
    path: Path, scenario: Callable[[InProcessCluster], Awaitable[None]], settings: Mapping[str, str] | None = None
) -> None:
    async def run() -> None:
        async with InProcessCluster(path, settings={**SETTINGS, **(settings or {})}) as cluster:
            await cluster.wait_until_all_know([1, 2, 3])
            await scenario(cluster)
            assert cluster.halted == {}

    asyncio.run(asyncio.wait_for(run(), 280))


async def create(client: Cluster, name: str = TOPIC, *, partitions: int = 3, replicas: int = 3) -> None:
    assert await Admin(client).create_topics([NewTopic(name, partitions, replicas)]) == {}


async def lower_transaction_version(cluster: InProcessCluster) -> None:
    """To 0: clients that connect from now on add partitions, and keep their epochs."""
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=0, upgrade_type=2)
    request = UpdateFeaturesRequest(feature_updates=[update])
    async with cluster.client() as client:
        answer = await client.ask(ApiKey.UPDATE_FEATURES, request, UpdateFeaturesResponse, to_controller=True)
    assert answer.error_code == ErrorCode.NONE, answer
    await cluster.until(
        lambda: all(cluster.broker(broker_id).features.transaction_version() == 0 for broker_id in cluster.running),
        "transaction version 0",
    )


async def transactional(client: Cluster, *, timeout_ms: int = 60_000, name: str = NAME) -> Producer:
    settings = ProducerSettings(transactional_id=name, transaction_timeout_ms=timeout_ms, linger_ms=0)
    producer = Producer(client, settings)
    await producer.init_transactions()
    return producer


async def write(producer: Producer, *values: bytes, partitions: Sequence[int] = (0, 1, 2), topic: str = TOPIC) -> None:
    for delivery in [await producer.send(topic, value, partition=p) for value in values for p in partitions]:
        await delivery


async def read(
    client: Cluster, *, committed: bool = True, partitions: Sequence[int] = (0, 1, 2), topic: str = TOPIC
) -> dict[int, list[bytes | None]]:
    """The values of each partition, up to where it ends now."""
    settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=committed, fetch_max_wait_ms=50)
    found: dict[int, list[bytes | None]] = {partition: [] for partition in partitions}
    async with Consumer(client, settings) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        ends = await consumer.end_offsets()
        while not consumer.reached(ends):
            for record in await consumer.poll():
                found[record.partition].append(record.value)
    return found


async def becomes(cluster: InProcessCluster, state: TransactionState, name: str = NAME) -> None:
    """Until the coordinator says so."""

    def says() -> bool:
        for broker_id in cluster.running:
            try:
                return cluster.broker(broker_id).transactions.describe(name).state is state
            except RequestError:
                continue
        return False

    await cluster.until(says, f"{name} is {state.name}")


async def stable(cluster: InProcessCluster, partition: int = 0) -> None:
    """Until no transaction is open in the partition."""

    def is_stable() -> bool:
        for broker_id in cluster.running:
            hosted = cluster.broker(broker_id).replicas.partition(TOPIC, partition)
            if hosted is not None and hosted.is_leader:
                return hosted.log.last_stable_offset == hosted.log.log_end_offset
        return False

    await cluster.until(is_stable, f"the last stable offset of {TOPIC}-{partition} is its end")


async def write_four(producer: Producer) -> None:
    """Four transactions, every second one aborted."""
    for number in range(4):
        producer.begin_transaction()
        await write(producer, b"%d" % number)
        await (producer.abort_transaction() if number % 2 else producer.commit_transaction())


@pytest.mark.parametrize("version", [0, 2])
def test_committed_is_visible_and_aborted_is_not(tmp_path: Path, version: int) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        if version == 0:
            await lower_transaction_version(cluster)
        async with cluster.client() as client:
            await create(client)
            producer = await transactional(client)
            await write_four(producer)
            await becomes(cluster, TransactionState.COMPLETE_ABORT)
            await producer.close()
            assert await read(client) == {partition: [b"0", b"2"] for partition in range(3)}
            everything = await read(client, committed=False)
            assert everything == {partition: [b"0", b"1", b"2", b"3"] for partition in range(3)}
            leader = await cluster.leader(TOPIC)
            (entry,) = cluster.log(leader, TOPIC).producers.entries()
            assert entry.producer_epoch == 2 * version

    runs(tmp_path, scenario)


def test_a_producer_that_has_not_heard_of_a_lower_transaction_version_tears_no_transaction(tmp_path: Path) -> None:
    """It adds no partitions, and counts on it that each end brings the next epoch: with the same one its next batch
    would be part of the transaction before, where that still waits for its marker."""

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            producer = await transactional(client)
            await lower_transaction_version(cluster)
            await write_four(producer)
            await becomes(cluster, TransactionState.COMPLETE_ABORT)
            await producer.close()
            assert await read(client) == {partition: [b"0", b"2"] for partition in range(3)}

    runs(tmp_path, scenario)


def test_an_outcome_that_is_decided_reaches_its_partitions_over_the_deaths_of_leader_and_coordinator(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client, partitions=3, replicas=1)
            producer = await transactional(client)
            coordinator = await client.find_coordinator(NAME, CoordinatorType.TRANSACTION)
            leaders = [await cluster.leader(TOPIC, partition) for partition in range(3)]
            lonely, leader = next((p, leader) for p, leader in enumerate(leaders) if leader != coordinator)
            producer.begin_transaction()
            await write(producer, b"kept", partitions=[lonely])
            await cluster.kill(leader)
            committing = asyncio.ensure_future(producer.commit_transaction())
            await becomes(cluster, TransactionState.PREPARE_COMMIT)
            await cluster.kill(coordinator)
            await cluster.start(leader)
            await committing
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert (await read(client, partitions=[lonely]))[lonely] == [b"kept"]
            await producer.close()

    runs(tmp_path, scenario, {"transaction.state.log.min.isr": "1"})


def test_a_transaction_goes_on_over_the_deaths_of_its_leaders(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            producer = await transactional(client)
            producer.begin_transaction()
            await write(producer, b"before")
            coordinator = await client.find_coordinator(NAME, CoordinatorType.TRANSACTION)
            await cluster.kill(coordinator)
            await write(producer, b"after")
            await producer.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert await read(client) == {partition: [b"before", b"after"] for partition in range(3)}
            await producer.close()

    runs(tmp_path, scenario)


def test_a_silent_producer_holds_nobody_up_for_longer_than_its_time_out(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            silent = await transactional(client, timeout_ms=3_000)  # Its writes may take a while.
            silent.begin_transaction()
            await write(silent, b"lost")
            assert await read(client) == {0: [], 1: [], 2: []}
            await becomes(cluster, TransactionState.COMPLETE_ABORT)
            for partition in range(3):
                await stable(cluster, partition)
            with pytest.raises(RequestError) as late:
                await write(silent, b"late")
            assert late.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
            with pytest.raises(TransactionBroken):
                await silent.commit_transaction()
            # The end of its transaction gave it the next epoch, as if it had aborted it itself (KIP-890).
            await silent.abort_transaction()
            silent.begin_transaction()
            await write(silent, b"kept")
            await silent.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert await read(client) == {partition: [b"kept"] for partition in range(3)}
            await silent.close()

    runs(tmp_path, scenario)


def test_of_two_producers_with_one_id_the_first_one_is_fenced(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            zombie = await transactional(client)
            zombie.begin_transaction()
            await write(zombie, b"zombie's")
            heir = await transactional(client)
            heir.begin_transaction()
            await write(heir, b"heir's")
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                zombie.begin_transaction()
            await heir.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert await read(client) == {partition: [b"heir's"] for partition in range(3)}
            await zombie.close()
            await heir.close()

    runs(tmp_path, scenario)


def test_a_topic_that_is_deleted_meanwhile_holds_no_transaction_up(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await create(client, OUTPUT)
            producer = await transactional(client)
            producer.begin_transaction()
            await write(producer, b"kept")
            await write(producer, b"gone", topic=OUTPUT)
            assert await Admin(client).delete_topics([OUTPUT]) == {}
            await producer.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert await read(client) == {partition: [b"kept"] for partition in range(3)}
            await producer.close()

    runs(tmp_path, scenario)


def test_a_topic_whose_deletion_waits_for_a_broker_holds_no_transaction_up(tmp_path: Path) -> None:
    """Its znodes go last: when a broker that is away has come back and deleted its replica."""

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await create(client, OUTPUT)
            producer = await transactional(client)
            coordinator = await client.find_coordinator(NAME, CoordinatorType.TRANSACTION)
            away = next(one for one in (1, 2, 3) if one not in (coordinator, cluster.controller_id))
            producer.begin_transaction()
            await write(producer, b"kept")
            await write(producer, b"gone", topic=OUTPUT)
            await cluster.stop(away)
            deletion = asyncio.ensure_future(Admin(client).delete_topics([OUTPUT]))
            await cluster.until(
                lambda: all(cluster.broker(one).metadata.topic(OUTPUT) is None for one in cluster.running),
                "nobody shows the topic any more",
            )
            await producer.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            assert await read(client) == {partition: [b"kept"] for partition in range(3)}
            deletion.cancel()
            await producer.close()

    runs(tmp_path, scenario)


def test_nothing_is_written_for_a_transaction_that_its_coordinator_does_not_know(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            producer = await transactional(client)
            producer.begin_transaction()
            await write(producer, b"kept")
            await producer.commit_transaction()
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            entry = cluster.log(1, TOPIC).producers.entries()[0]
            leader = await cluster.leader(TOPIC)
            verification = cluster.broker(leader).verification
            partition = TopicPartition(TOPIC, 0)
            for epoch, error in (
                (entry.producer_epoch, ErrorCode.TRANSACTION_ABORTABLE),
                (entry.producer_epoch - 1, ErrorCode.INVALID_PRODUCER_EPOCH),
            ):
                answer = await verification.verify_or_add(NAME, entry.producer_id, epoch, [partition], add=False)
                assert answer == {partition: error}
            answer = await verification.verify_or_add("nobody", entry.producer_id, 0, [partition], add=True)
            assert answer == {partition: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
            await producer.close()

    runs(tmp_path, scenario)


@pytest.mark.setting("add.partitions.to.txn.retry.backoff.max.ms")
@pytest.mark.parametrize("is_coordinator_here", [True, False])
def test_batches_in_flight_on_one_connection_are_appended_in_their_order(
    tmp_path: Path, is_coordinator_here: bool
) -> None:
    """The first one opens the transaction, which the coordinator must say; the others wait, also those that come when
    it is open, and one before them was told to come again."""

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            coordinator = await client.find_coordinator(NAME, CoordinatorType.TRANSACTION)
            leaders = [await cluster.leader(TOPIC, partition) for partition in range(3)]
            partition, leader = next(
                (p, leader) for p, leader in enumerate(leaders) if (leader == coordinator) is is_coordinator_here
            )
            given = await client.ask(
                ApiKey.INIT_PRODUCER_ID,
                InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
                node_id=coordinator,
            )
            producer = ProducerIdAndEpoch(given.producer_id, given.producer_epoch)
            connection = await client.connection(leader)

            async def produce(sequence: int) -> int:
                await asyncio.sleep(0.002 * sequence)
                builder = BatchBuilder()
                builder.append(0, None, b"%d" % sequence)
                stamp = ProducerStamp(*producer, sequence, is_transactional=True)
                data = PartitionProduceData(index=partition, records=builder.build(stamp))
                request = ProduceRequest(
                    transactional_id=NAME,
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
                )
                found = await connection.request(ApiKey.PRODUCE, request, ProduceResponse, highest=12)
                (result,) = found.responses[0].partition_responses
                assert result.error_code == ErrorCode.NONE, (sequence, result)
                return int(result.base_offset)

            # The former transaction may still be ending when the next one begins.
            for number in range(10):
                offsets = await asyncio.gather(*(produce(sequence) for sequence in range(5)))
                assert offsets == [6 * number + sequence for sequence in range(5)]
                end = EndTxnRequest(
                    transactional_id=NAME,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    committed=True,
                )
                ended = await client.ask(ApiKey.END_TXN, end, EndTxnResponse, node_id=coordinator)
                assert ended.error_code == ErrorCode.NONE
                producer = ProducerIdAndEpoch(ended.producer_id, ended.producer_epoch)

    # On a busy machine the markers of the former transaction take longer than Kafka's 100 ms.
    runs(tmp_path, scenario, {"add.partitions.to.txn.retry.backoff.max.ms": "20000"})


async def transform(client: Cluster, name: str, count: int) -> None:
    """Consumes, transforms, produces, each poll in a transaction, until `count` outputs are committed."""
    partitions = [TopicPartition(TOPIC, partition) for partition in range(3)]
    settings = ConsumerSettings(
        group_id="transform",
        auto_offset_reset=OffsetReset.EARLIEST,
        read_committed=True,
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    while True:
        try:
            producer = await transactional(client, name=name, timeout_ms=10_000)
            async with Consumer(client, settings) as consumer:
                consumer.assign(partitions)
                committed = await consumer.committed(partitions)
                for partition in partitions:
                    consumer.seek(partition, max(committed.get(partition, 0), 0))
                while sum(max(committed.get(partition, 0), 0) for partition in partitions) < count:
                    records = (await consumer.poll())[:7]
                    if not records:
                        continue
                    producer.begin_transaction()
                    for record in records:
                        await producer.send(OUTPUT, b"bill for " + (record.value or b""))
                        committed[TopicPartition(TOPIC, record.partition)] = record.offset + 1
                    offsets = {partition: committed[partition] for partition in committed if committed[partition] > 0}
                    await producer.send_offsets_to_transaction(offsets, GroupMetadata("transform"))
                    await producer.commit_transaction()
                    for partition in partitions:
                        consumer.seek(partition, max(committed.get(partition, 0), 0))
            await producer.close()
            return
        except (TransactionBroken, ProducerFenced, ConnectionFailed, RequestError):
            await producer.close(timeout_ms=0)


@pytest.mark.parametrize("version", [0, 2])
def test_every_input_has_one_output_whichever_brokers_die(tmp_path: Path, version: int) -> None:
    count = 120

    async def scenario(cluster: InProcessCluster) -> None:
        if version == 0:
            await lower_transaction_version(cluster)
        patient = ClientSettings(api_timeout_ms=20_000, request_timeout_ms=5_000)
        async with Cluster(cluster.client()._network, cluster.bootstrap, patient) as client:
            await create(client)
            await create(client, OUTPUT)
            async with Producer(client) as producer:
                for delivery in [await producer.send(TOPIC, b"%d" % n, partition=n % 3) for n in range(count)]:
                    await delivery
            working = asyncio.ensure_future(transform(client, NAME, count))
            for number in range(4):
                await asyncio.sleep(0.4)
                victim = number % 3 + 1
                await cluster.kill(victim)
                await asyncio.sleep(0.3)
                await cluster.start(victim)
                for topic in (TOPIC, OUTPUT, TRANSACTION_STATE_TOPIC):
                    for partition in range(3):
                        await cluster.wait_for_isr(topic, partition, [1, 2, 3])
            async with asyncio.timeout(4 * PATIENCE_S):
                await working
            await becomes(cluster, TransactionState.COMPLETE_COMMIT)
            outputs = sorted(value or b"" for values in (await read(client, topic=OUTPUT)).values() for value in values)
            assert outputs == sorted(b"bill for %d" % number for number in range(count))

    runs(tmp_path, scenario)
