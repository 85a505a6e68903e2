"""`kavka transactions`: what coordinators and partitions know of transactions; one that hangs is ended.

Decides what is shown, and that a transaction is aborted only by who named it and said so. Works with Apache Kafka too.

Source: kafka-transactions (KIP-664).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, Table, confirm, counted, done, note, one_of, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.transaction_admin import ListedTransaction, ShownProducer, ShownTransaction
    from kavka.model import TopicPartition

app = CommandLine(name="transactions", help="List transactions, and end those that hang.")


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


@app.command("list")
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only ids in this state: Ongoing, Empty, ...")
    ] = None,
    longer_than_ms: Annotated[
        int | None,
        typer.Option("--running-longer-than-ms", metavar="MS", help="Only transactions open for longer than this."),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List transactional ids with their coordinator, producer id and state.

    [bold]Examples[/bold]

    kavka transactions list

    kavka transactions list --state Ongoing --running-longer-than-ms 60000
    """
    states = one_of(states or [], STATES, what="transaction state")

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
        is_asked_for = states or pattern or longer_than_ms is not None
        note("No transaction matches." if is_asked_for else "There are no transactional ids.")
        return
    table = Table(["transactional id", "coordinator", "producer id", "state"], ["coordinator", "producer id"])
    for one in found:
        table.add(one.transactional_id, one.coordinator, one.producer_id, one.state)
    show(table)


@app.command("describe")
def describe(
    transactional_ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional ids.")],
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show transactional ids: state, producer, timeout, partitions.

    [bold]Examples[/bold]

    kavka transactions describe orders-to-bills
    """

    async def work(cluster: Cluster) -> list[ShownTransaction]:
        from kavka.client.transaction_admin import TransactionAdmin

        admin = TransactionAdmin(cluster)
        return [await admin.describe(transactional_id) for transactional_id in transactional_ids]

    found = with_cluster(bootstrap, work)
    if as_json:
        show_json([one._asdict() | {"partitions": [str(each) for each in one.partitions]} for one in found])
    else:
        _show_states(found, now_ms=int(time.time() * 1000))


def _show_states(found: Sequence[ShownTransaction], *, now_ms: int) -> None:
    """What each transactional id is in the middle of, and for how long."""
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


@app.command("describe-producers")
def describe_producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the producers of a topic's partitions, and where their open transactions begin.

    [bold]Examples[/bold]

    kavka transactions describe-producers orders --partition 0
    """

    async def work(cluster: Cluster) -> list[ShownProducer]:
        from kavka.client.transaction_admin import TransactionAdmin

        return await TransactionAdmin(cluster).producers(await _partitions(cluster, topic, partition))

    _show_producers(with_cluster(bootstrap, work), "No producer is remembered there.", as_json=as_json)


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition of it.")
    ] = None,
    max_timeout_ms: Annotated[
        int, typer.Option("--max-timeout-ms", min=0, metavar="MS", help="The cluster's transaction.max.timeout.ms.")
    ] = 900_000,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Find open transactions that no coordinator will end.

    [bold]Examples[/bold]

    kavka transactions find-hanging

    kavka transactions find-hanging --topic orders
    """
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


@app.command("abort")
def abort(
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", min=0, metavar="N", help="The partition.")],
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, metavar="OFFSET", help="Where the transaction begins.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Abort the transaction that begins at an offset of a partition, whatever its coordinator says.

    [bold]Examples[/bold]

    kavka transactions abort --topic orders --partition 0 --start-offset 1042
    """
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


@app.command("force-terminate")
def force_terminate(
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID", help="The transactional id.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Fence the producer of a transactional id, and abort its open transaction.

    [bold]Examples[/bold]

    kavka transactions force-terminate orders-to-bills
    """
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
