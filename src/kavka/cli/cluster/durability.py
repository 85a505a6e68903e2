"""`kavka durability`: what would be lost if a broker died now, and whether one may be restarted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import FAILED, Failure, Table, counted, show, show_json
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Broker, Cluster
    from kavka.client.durability import BrokerRisk, PartitionReplicas
    from kavka.model import TopicPartition

app = CommandLine()


SHOWN_PARTITIONS = 5
"""Partitions that a line names before it says how many more there are."""


class _Reading(NamedTuple):
    brokers: list[Broker]
    controller: int
    partitions: list[PartitionReplicas]


@app.command("durability")
def durability(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; all by default.")] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker", min=0, metavar="ID", help="Only this broker; exit status 1 unless it is safe to restart."
        ),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show what a broker's death would lose or block now.

    It also shows which brokers are safe to restart.

    [bold]Examples[/bold]

    kavka durability

    kavka durability --broker 2 && systemctl restart kavka@2
    """
    from kavka.client.durability import Health, health, risks

    reading = with_cluster(bootstrap, lambda cluster: _read(cluster, topics or []))
    ids = [each.node_id for each in reading.brokers]
    if broker is not None and broker not in ids:
        raise Failure(f"there is no live broker {broker}", f"live are {', '.join(map(str, ids))}; see `kavka brokers`")
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


async def _read(cluster: Cluster, topics: Sequence[str]) -> _Reading:
    from kavka.client.admin import Admin
    from kavka.client.durability import read_replicas

    described = await Admin(cluster).describe_cluster()
    return _Reading(
        list(described.brokers), described.controller_id, await read_replicas(cluster, list(topics) or None)
    )


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


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas)) or "none"
