"""`kavka durability`: what would be lost if a broker died now, and whether one may be restarted; `kavka brokers`."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.output import FAILED, Failure, Table, counted, note, show, show_json
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import LogDirectorySize
    from kavka.client.cluster import Broker, Cluster, TopicMetadata
    from kavka.client.durability import BrokerRisk, PartitionReplicas
    from kavka.model import TopicPartition

BROKER_PATIENCE_S = 2.0
"""How long one broker may take to accept a connection and say which versions it speaks; then it does not answer."""
DIRECTORIES_PATIENCE_S = 10.0
"""How long it may take to describe its log directories before it is shown without."""
SHOWN_PARTITIONS = 5
"""Partitions that a line names before it says how many more there are."""


class _Reading(NamedTuple):
    brokers: list[Broker]
    controller: int
    partitions: list[PartitionReplicas]


def durability(bootstrap: str | None, topics: Sequence[str], *, broker: int | None, as_json: bool) -> None:
    """Prints what is at risk. With `broker`, raises Failure (status 1) unless that one is safe to restart."""
    from kavka.client.durability import Health, health, risks

    reading = with_cluster(bootstrap, lambda cluster: _read(cluster, topics))
    ids = [each.node_id for each in reading.brokers]
    if broker is not None and broker not in ids:
        raise Failure(f"there is no live broker {broker}", f"alive are {', '.join(map(str, ids))}; see `kavka brokers`")
    found = risks(reading.partitions, ids if broker is None else [broker])
    if as_json:
        show_json(
            {
                "brokers": [_risk_fields(risk) for risk in found],
                "partitions": [_partition_fields(each) for each in reading.partitions],
            }
        )
    else:
        _show_partitions([each for each in reading.partitions if health(each) is not Health.FULL], reading)
        _show_risks(found)
    if broker is not None and not found[0].safe_to_restart:
        raise Failure("", status=FAILED)


def brokers(bootstrap: str | None, *, as_json: bool) -> None:
    """Prints the registered brokers, what each leads and holds, and how far that is from its preferred share."""
    gc.disable()  # The answers become a few objects for each partition, and the process ends with them.
    reading = with_cluster(bootstrap, _read_brokers)
    rows = [_broker_fields(each, reading) for each in reading.brokers]
    if as_json:
        show_json(rows)
        return
    columns = ["broker", "address", "state", "rack", "controller", "leads", "preferred", "replicas", "out of sync"]
    table = Table([*columns, "bytes"], ["broker", "leads", "preferred", "replicas", "out of sync", "bytes"])
    for row in rows:
        cells = [row["id"], row["address"], row["state"], row["rack"], "yes" if row["controller"] else ""]
        table.add(*cells, row["leads"], row["preferred"], row["replicas"], row["out_of_sync"], _bytes(row["bytes"]))
    show(table)
    silent = [str(row["id"]) for row in rows if not row["answers"]]
    if silent:
        note(f"Registered, but not answering: {', '.join(silent)}. A dead broker is registered until its session ends.")
    missing = sorted(reading.shares.keys() - {each.node_id for each in reading.brokers})
    if missing:
        note(f"Not registered, but replicas are assigned to them: {', '.join(map(str, missing))}.")


@dataclass(slots=True)
class _Share:
    """What one broker has of the cluster."""

    leads: int = 0
    preferred: int = 0
    replicas: int = 0
    out_of_sync: int = 0


class _BrokerReading(NamedTuple):
    """`directories` lacks brokers that do not tell, `answering` those that cannot be reached."""

    brokers: list[Broker]
    controller: int
    shares: dict[int, _Share]
    answering: frozenset[int]
    directories: dict[int, list[LogDirectorySize]]


def shares_of(topics: Iterable[TopicMetadata]) -> dict[int, _Share]:
    """What each broker leads and holds, in one pass: a cluster may have a hundred thousand partitions."""
    shares: defaultdict[int, _Share] = defaultdict(_Share)
    for topic in topics:
        for each in topic.partitions:
            if each.leader >= 0:
                shares[each.leader].leads += 1
            if each.replicas:
                shares[each.replicas[0]].preferred += 1
            for replica in each.replicas:
                shares[replica].replicas += 1
            if len(each.in_sync_replicas) < len(each.replicas):
                for replica in each.replicas:
                    shares[replica].out_of_sync += replica not in each.in_sync_replicas
    return dict(shares)


async def _read(cluster: Cluster, topics: Sequence[str]) -> _Reading:
    from kavka.client.admin import Admin
    from kavka.client.durability import read_replicas

    described = await Admin(cluster).describe_cluster()
    return _Reading(
        list(described.brokers), described.controller_id, await read_replicas(cluster, list(topics) or None)
    )


async def _read_brokers(cluster: Cluster) -> _BrokerReading:
    """A broker that died a moment ago is still registered, and does not answer."""
    from kavka.client.admin import Admin

    admin = Admin(cluster)
    described = await admin.describe_cluster()
    ids = [each.node_id for each in described.brokers]
    places = asyncio.gather(*(_log_directories(cluster, broker_id) for broker_id in ids))
    topics, found = await asyncio.gather(admin.list_topics(include_internal=True), places)
    answers = dict(zip(ids, found, strict=True))
    return _BrokerReading(
        list(described.brokers),
        described.controller_id,
        shares_of(topics),
        frozenset(broker_id for broker_id, (answering, _) in answers.items() if answering),
        {broker_id: directories for broker_id, (_, directories) in answers.items() if directories is not None},
    )


async def _log_directories(cluster: Cluster, broker_id: int) -> tuple[bool, list[LogDirectorySize] | None]:
    """Whether the broker answers, and its log directories if it tells them in time."""
    from kavka.client.admin import Admin
    from kavka.errors import KavkaError

    answering = False
    try:
        async with asyncio.timeout(BROKER_PATIENCE_S):
            await cluster.connection(broker_id)
        answering = True
        async with asyncio.timeout(DIRECTORIES_PATIENCE_S):
            return True, await Admin(cluster).log_directory_sizes(broker_id)
    except (KavkaError, TimeoutError):
        return answering, None


def _show_partitions(partitions: Sequence[PartitionReplicas], reading: _Reading) -> None:
    from kavka.client.durability import health

    total = len(reading.partitions)
    if not partitions:
        all_of_them = "The only partition has" if total == 1 else f"All {total:,} partitions have"
        print(f"{all_of_them} all replicas in sync." if total else "There are no partitions.")
        return
    columns = ["partition", "state", "leader", "in sync", "out of sync", "min in sync", "records behind"]
    table = Table(
        columns,
        ["leader", "min in sync"],
        title=f"{len(partitions):,} of {counted(total, 'partition')} not in full sync",
    )
    for each in sorted(partitions, key=lambda each: (list(type(health(each))).index(health(each)), each.partition)):
        leader = each.leader if each.leader >= 0 else "none"
        table.add(
            each.partition,
            health(each).value,
            leader,
            _ids(each.in_sync_replicas),
            _ids(each.out_of_sync),
            each.min_insync_replicas,
            _behind(each),
        )
    show(table)


def _behind(partition: PartitionReplicas) -> str:
    """How far each replica that is out of sync lies behind the leader."""
    end = partition.log_ends.get(partition.leader)
    if end is None:
        return ""
    parts = []
    for replica in partition.out_of_sync:
        known = partition.log_ends.get(replica)
        parts.append(f"{replica}: {'unknown' if known is None else f'{max(end - known, 0):,}'}")
    return ", ".join(parts)


def _show_risks(found: Sequence[BrokerRisk]) -> None:
    print()
    for risk in found:
        if risk.safe_to_restart:
            print(f"Broker {risk.broker}: safe to restart.{_unreplicated(risk)}")
            continue
        print(f"Broker {risk.broker}: not safe to restart.{_unreplicated(risk)}")
        if risk.unavailable:
            print(f"  It is the only in-sync replica of {_some(risk.unavailable)}: no reads, no writes without it.")
        if risk.blocked:
            print(f"  acks=all writes would be refused on {_some(risk.blocked)}.")


def _unreplicated(risk: BrokerRisk) -> str:
    if not risk.unreplicated:
        return ""
    noun = "record is" if risk.unreplicated == 1 else "records are"
    return f" {risk.unreplicated:,} {noun} only there just now, and lost with it (acks=1 only)."


def _some(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions[:SHOWN_PARTITIONS]))
    more = len(partitions) - SHOWN_PARTITIONS
    return f"{names} and {more:,} more" if more > 0 else names


def _risk_fields(risk: BrokerRisk) -> dict[str, object]:
    return {
        "broker": risk.broker,
        "safe_to_restart": risk.safe_to_restart,
        "unavailable": list(map(str, risk.unavailable)),
        "blocked": list(map(str, risk.blocked)),
        "unreplicated_records": risk.unreplicated,
    }


def _partition_fields(each: PartitionReplicas) -> dict[str, object]:
    from kavka.client.durability import health

    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "state": health(each).value,
        "leader": each.leader,
        "leader_epoch": each.leader_epoch,
        "replicas": list(each.replicas),
        "in_sync_replicas": list(each.in_sync_replicas),
        "min_insync_replicas": each.min_insync_replicas,
        "log_end_offsets": {str(broker): end for broker, end in each.log_ends.items()},
    }


def _bytes(size: object) -> str:
    return "unknown" if size is None else f"{size:,}"


def _broker_fields(broker: Broker, reading: _BrokerReading) -> dict[str, object]:
    share = reading.shares.get(broker.node_id, _Share())
    directories = reading.directories.get(broker.node_id)
    answers = broker.node_id in reading.answering
    return {
        "id": broker.node_id,
        "address": f"{broker.host}:{broker.port}",
        "state": "alive" if answers else "not answering",
        "rack": broker.rack,
        "controller": broker.node_id == reading.controller,
        "leads": share.leads,
        "preferred": share.preferred,
        "replicas": share.replicas,
        "out_of_sync": share.out_of_sync,
        "answers": answers,
        "bytes": None if directories is None else sum(place.size_bytes for place in directories),
        "log_directories": [directory.path for directory in directories or ()],
    }


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas)) or "none"
