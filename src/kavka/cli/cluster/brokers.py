"""`kavka brokers`: the registered brokers, what each leads and stores, and which of them answer."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.cluster.answering_brokers import answers
from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, note, show, show_json
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import LogDirectorySize
    from kavka.client.cluster import Broker, Cluster, TopicMetadata

app = CommandLine()

DIRECTORIES_PATIENCE_S = 10.0
"""How long it may take to describe its log directories before it is shown without."""


@app.command("brokers")
def brokers(as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Show brokers, with what each leads and stores.

    It also shows which broker is the controller, and which ones do not answer.

    [bold]Examples[/bold]

    kavka brokers

    kavka brokers --json
    """
    gc.disable()  # The answers become a few objects for each partition, and the process ends with them.
    reading = with_cluster(bootstrap, _read_brokers)
    rows = [_broker_fields(each, reading) for each in reading.brokers]
    if as_json:
        show_json(rows)
        return
    _show_brokers(rows)
    silent = [str(row["id"]) for row in rows if not row["answers"]]
    if silent:
        note(f"Registered, but not answering: {', '.join(silent)}. A dead broker is registered until its session ends.")
    missing = sorted(reading.shares.keys() - {each.node_id for each in reading.brokers})
    if missing:
        note(f"Not registered, but replicas are assigned to them: {', '.join(map(str, missing))}.")


def _show_brokers(rows: Sequence[Mapping[str, object]]) -> None:
    columns = ["broker", "address", "state", "rack", "controller", "leads", "preferred", "replicas", "out of sync"]
    table = Table([*columns, "bytes"], ["broker", "leads", "preferred", "replicas", "out of sync", "bytes"])
    for row in rows:
        cells = [row["id"], row["address"], row["state"], row["rack"], "yes" if row["controller"] else ""]
        table.add(*cells, row["leads"], row["preferred"], row["replicas"], row["out_of_sync"], _bytes(row["bytes"]))
    show(table)


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

    if not await answers(cluster, broker_id):
        return False, None
    try:
        async with asyncio.timeout(DIRECTORIES_PATIENCE_S):
            return True, await Admin(cluster).log_directory_sizes(broker_id)
    except (KavkaError, TimeoutError):
        return True, None


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
