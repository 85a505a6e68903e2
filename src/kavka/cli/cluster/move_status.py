"""How far moves of partitions are: read from a cluster, as a table, a line and JSON.

Decides what counts as done, and how much of the copying is behind. Must not know how moves begin or end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.output import Failure, Table, note, show

if TYPE_CHECKING:
    from kavka.client.admin import Admin
    from kavka.client.cluster import PartitionMetadata
    from kavka.model import TopicPartition

Replicas = dict["TopicPartition", tuple[int, ...]]


class MoveStatus(NamedTuple):
    """One partition. `state` is "done", "moving" or "elsewhere" (it moves no more, and is not where it was to be)."""

    partition: TopicPartition
    state: str
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    copied_bytes: int = 0
    total_bytes: int = 0
    """Of all replicas that are added."""


async def read_status(admin: Admin, wanted: Replicas | None) -> list[MoveStatus]:
    under_way = await admin.list_partition_reassignments()
    partitions = list(wanted) if wanted is not None else list(under_way)
    if not partitions:
        return []
    current = await current_partitions(admin, partitions)
    sizes: dict[tuple[TopicPartition, int], int] = {}
    if any(partition in under_way for partition in partitions):
        for node_id, directories in (await admin.describe_log_dirs()).items():
            for directory in directories:
                for replica in directory.replicas:
                    sizes[replica.partition, node_id] = replica.size_bytes
    found = []
    for partition in sorted(partitions):
        if partition not in current:
            raise Failure(f"there is no partition {partition}", "see `kavka topics describe`")
        now = current[partition]
        target = wanted[partition] if wanted is not None else under_way[partition].target
        moving = under_way.get(partition)
        if moving is None:
            state = "done" if now.replicas == target else "elsewhere"
            found.append(MoveStatus(partition, state, now.replicas, target, in_sync=now.in_sync_replicas))
            continue
        whole = sizes.get((partition, now.leader), 0)
        copied = sum(min(sizes.get((partition, replica), 0), whole) for replica in moving.adding)
        found.append(
            MoveStatus(
                partition,
                "moving",
                moving.replicas,
                moving.target,
                moving.adding,
                moving.removing,
                now.in_sync_replicas,
                copied,
                whole * len(moving.adding),
            )
        )
    return found


def show_status(found: Sequence[MoveStatus]) -> None:
    if not found:
        note("No partition is moving.")
        return
    table = Table(
        ["partition", "state", "replicas", "adding", "removing", "in sync", "copied"],
        ["copied"],
        title=progress([each for each in found if each.state == "moving"]) or "all done",
    )
    if any(each.state == "elsewhere" for each in found) and not any(each.state == "moving" for each in found):
        table.title = "nothing moves, and not all is where the file wants it"
    for each in found:
        copied = ""
        if each.state == "moving":
            waiting = [replica for replica in each.adding if replica not in each.in_sync]
            share = 100 * each.copied_bytes // each.total_bytes if each.total_bytes else 100
            copied = f"{share} %" if waiting else "in sync"
        table.add(
            each.partition,
            each.state,
            ids(each.replicas),
            ids(each.adding),
            ids(each.removing),
            ids(each.in_sync),
            copied,
        )
    show(table)


def progress(moving: Sequence[MoveStatus]) -> str:
    if not moving:
        return ""
    copied, total = sum(each.copied_bytes for each in moving), sum(each.total_bytes for each in moving)
    word = "partition moves" if len(moving) == 1 else "partitions move"
    return f"{len(moving)} {word}, {copied / 1e6:,.1f} of {total / 1e6:,.1f} MB copied"


def facts_of(each: MoveStatus) -> dict[str, object]:
    return {
        "partition": str(each.partition),
        "topic": each.partition.topic,
        "number": each.partition.partition,
        "state": each.state,
        "replicas": list(each.replicas),
        "target": list(each.target),
        "adding": list(each.adding),
        "removing": list(each.removing),
        "in_sync": list(each.in_sync),
        "copied_bytes": each.copied_bytes,
        "total_bytes": each.total_bytes,
    }


async def current_partitions(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionMetadata]:
    names = sorted({partition.topic for partition in partitions})
    return {
        partition_of(topic.name, each): each
        for topic in await admin.describe_topics(names)
        for each in topic.partitions
    }


def partition_of(topic: str, each: PartitionMetadata) -> TopicPartition:
    from kavka.model import TopicPartition

    return TopicPartition(topic, each.partition)


def ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
