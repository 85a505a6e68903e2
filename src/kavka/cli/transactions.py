"""`kavka transactions`: what coordinators and partitions know of transactions; one that hangs is ended.

Decides what is shown, and that a transaction is aborted only by who named it and said so. Works with Apache Kafka too.

Source: kafka-transactions (KIP-664).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure, Table, confirm, counted, done, note, one_of, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.transaction_admin import ListedTransaction, ShownProducer, ShownTransaction
    from kavka.model import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
"""Those of Apache Kafka (`TransactionState`)."""


def list_transactions(
    bootstrap: str | None,
    *,
    states: Sequence[str],
    longer_than_ms: int | None,
    pattern: str | None,
    as_json: bool,
) -> None:
    """The transactional ids of all coordinators."""
    states = one_of(states, STATES, what="state of transactions")

    async def work(cluster: Cluster) -> list[ListedTransaction]:
        from kavka.client.transaction_admin import TransactionAdmin

        return await TransactionAdmin(cluster).list_transactions(
            states=states, longer_than_ms=-1 if longer_than_ms is None else longer_than_ms, pattern=pattern
        )

    found = with_cluster(bootstrap, work)
    if as_json:
        show_json([one._asdict() for one in found])
        return
    if not found:
        note("There are no such transactional ids.")
        return
    table = Table(["transactional id", "coordinator", "producer id", "state"], ["coordinator", "producer id"])
    for one in found:
        table.add(one.transactional_id, one.coordinator, one.producer_id, one.state)
    show(table)


def describe(bootstrap: str | None, transactional_ids: Sequence[str], *, as_json: bool) -> None:
    """What coordinators know of these ids."""

    async def work(cluster: Cluster) -> list[ShownTransaction]:
        from kavka.client.transaction_admin import TransactionAdmin

        admin = TransactionAdmin(cluster)
        return [await admin.describe(transactional_id) for transactional_id in transactional_ids]

    found = with_cluster(bootstrap, work)
    now_ms = int(time.time() * 1000)
    if as_json:
        show_json([one._asdict() | {"partitions": [str(each) for each in one.partitions]} for one in found])
        return
    numbers = ["coordinator", "producer id", "epoch", "timeout ms", "open for ms"]
    table = Table(["transactional id", *numbers[:3], "state", *numbers[3:], "partitions"], numbers)
    for one in found:
        table.add(
            one.transactional_id,
            one.coordinator,
            one.producer_id,
            one.producer_epoch,
            one.state,
            one.timeout_ms,
            now_ms - one.started_ms if one.partitions else "-",
            " ".join(str(each) for each in one.partitions) or "-",
        )
    show(table)


def describe_producers(bootstrap: str | None, topic: str, partition: int | None, *, as_json: bool) -> None:
    """The producers that a topic's partitions remember."""

    async def work(cluster: Cluster) -> list[ShownProducer]:
        from kavka.client.transaction_admin import TransactionAdmin

        return await TransactionAdmin(cluster).producers(await _partitions(cluster, topic, partition))

    _show_producers(with_cluster(bootstrap, work), "No producer is remembered there.", as_json=as_json)


def find_hanging(
    bootstrap: str | None, topic: str | None, partition: int | None, *, max_timeout_ms: int, as_json: bool
) -> None:
    """Open transactions that nobody will end. Raises Failure where there are some."""
    if partition is not None and topic is None:
        usage("--partition without --topic", "for example --topic orders --partition 3")

    async def work(cluster: Cluster) -> list[ShownProducer]:
        from kavka.client.admin import Admin
        from kavka.client.transaction_admin import TransactionAdmin

        topics = (
            [topic]
            if topic is not None
            else [each.name for each in await Admin(cluster).list_topics(include_internal=True)]
        )
        partitions = [each for name in topics for each in await _partitions(cluster, name, partition)]
        return await TransactionAdmin(cluster).find_hanging(
            partitions, now_ms=int(time.time() * 1000), max_timeout_ms=max_timeout_ms
        )

    found = with_cluster(bootstrap, work)
    _show_producers(found, "No transaction hangs.", as_json=as_json)
    if found:
        raise Failure(
            f"{counted(len(found), 'hanging transaction')}",
            "end one with `kavka transactions abort --topic T --partition N --start-offset N`",
        )


def abort(bootstrap: str | None, topic: str, partition: int, start_offset: int, *, yes: bool, as_json: bool) -> None:
    """Ends the transaction that began at an offset of a partition."""
    from kavka.model import TopicPartition

    place = TopicPartition(topic, partition)
    confirm(f"abort the transaction at offset {start_offset} of {place}, even if its producer still works", yes=yes)

    async def work(cluster: Cluster) -> ShownProducer | None:
        from kavka.client.transaction_admin import TransactionAdmin

        admin = TransactionAdmin(cluster)
        for producer in await admin.producers([place]):
            if producer.transaction_start == start_offset:
                await admin.abort(producer)
                return producer
        return None

    aborted = with_cluster(bootstrap, work)
    if aborted is None:
        raise Failure(
            f"no open transaction begins at offset {start_offset} of {place}",
            f"`kavka transactions describe-producers {topic} --partition {partition}` shows those that are open",
        )
    facts = {"partition": str(place), "producer_id": aborted.producer_id, "producer_epoch": aborted.producer_epoch}
    done(f"Aborted the transaction of producer {aborted.producer_id} in {place}.", facts, as_json=as_json)


def force_terminate(bootstrap: str | None, transactional_id: str, *, yes: bool, as_json: bool) -> None:
    """Fences an id's producer and aborts its transaction."""
    confirm(f"fence the producer with transactional id {transactional_id!r}, and abort its transaction", yes=yes)

    async def work(cluster: Cluster) -> None:
        from kavka.client.transaction_admin import TransactionAdmin

        await TransactionAdmin(cluster).force_terminate(transactional_id)

    with_cluster(bootstrap, work)
    done(f"Terminated {transactional_id}.", {"transactional_id": transactional_id}, as_json=as_json)


async def _partitions(cluster: Cluster, topic: str, partition: int | None) -> list[TopicPartition]:
    from kavka.model import TopicPartition

    if partition is not None:
        return [TopicPartition(topic, partition)]
    found = await cluster.topic(topic)
    return [TopicPartition(topic, each.partition) for each in found.partitions]


def _show_producers(producers: Sequence[ShownProducer], nothing: str, *, as_json: bool) -> None:
    if as_json:
        show_json([one._asdict() | {"partition": str(one.partition)} for one in producers])
        return
    if not producers:
        note(nothing)
        return
    numbers = ["producer id", "epoch", "coordinator epoch", "last sequence", "last timestamp", "transaction start"]
    table = Table(["partition", *numbers], numbers)
    for one in producers:
        table.add(
            str(one.partition),
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp_ms,
            one.transaction_start if one.transaction_start >= 0 else "-",
        )
    show(table)
