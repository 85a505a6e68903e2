"""`kavka trace`: one record's way: written by whom, on each replica when, committed when, read by which group.

Decides where is looked: the log, the groups' commits and the why-records through any broker; traces of requests and
flight recordings in the brokers' log directories, as far as they are on this machine, or in those of --data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, counted, note, show_json, usage
from kavka.cli.understand.record_way import (
    Commit,
    Findings,
    FoundRecord,
    ShareState,
    as_fields,
    earliest_ms,
    tell,
    way_of,
)
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.consumer import ConsumerRecord
    from kavka.decisions import Decision
    from kavka.flight.record_way import RecordedWay
    from kavka.traces import RequestTrace

app = CommandLine()

RING_DEPTH: Final = 3
"""How far below --data rings are looked for: data/broker-1/logs."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_SHARE_GROUPS: Final = 100
"""Share groups that are asked at most."""
MAX_COMMITS: Final = 500_000
"""Records of groups that are read at most."""
READ_MS: Final = 5_000
"""How long the record is waited for."""
POLL_RECORDS: Final = 5_000
DAY_MS: Final = 24 * 3_600_000


@app.command("trace")
def trace(
    record: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION@OFFSET", help="The record.")],
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="DIRECTORY", help="Read log directories instead of asking the cluster."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Follow one record from its writer to its readers.

    It shows who wrote the record, when each replica had it, when it was committed, and which groups had read it, and by
    when. It also says what cannot be known, and why.

    [bold]Examples[/bold]

    kavka trace orders-3@4711

    kavka trace orders-3@4711 --data kavka-data
    """
    partition, offset = _parse(record)
    found = Findings(partition, offset)
    if data:
        found = _from_directories(found, data, RING_DEPTH)._replace(
            commits_missing="which group read it: no cluster was asked"
        )
    else:
        found = _from_cluster(found, bootstrap)
    way = way_of(found)
    if as_json:
        show_json(as_fields(found, way))
        return
    for line in tell(found, way):
        print(line)


def _parse(text: str) -> tuple[TopicPartition, int]:
    name, _, offset = text.rpartition("@")
    topic, _, partition = name.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        usage(f"{text} is not a record", "write TOPIC-PARTITION@OFFSET, for example orders-3@4711")
    return TopicPartition(topic, int(partition)), int(offset)


# -- log directories


def _from_directories(found: Findings, directories: Sequence[str], depth: int) -> Findings:
    """Adds what the rings in these directories, and up to `depth` below, tell."""
    from kavka.flight.record_way import recorded_way
    from kavka.flight.ring_reader import find_rings

    try:
        rings = find_rings(directories, depth)
        traces = list(_traces(found.partition, directories, depth))
    except OSError as problem:
        raise Failure(f"{problem.filename}: {problem.strerror}", "name directories that you may read") from None
    recordings: list[RecordedWay] = []
    for ring in rings:
        try:
            way = recorded_way(ring.read(), found.partition, found.offset)
        except OSError as problem:
            note(f"{problem.filename} cannot be read: {problem.strerror}")
            continue
        if way is not None:
            recordings.append(way)
    return found._replace(traces=traces, recordings=recordings)


def _traces(partition: TopicPartition, directories: Sequence[str], depth: int) -> Iterator[RequestTrace]:
    """Traces of requests that name the partition. A torn line is skipped."""
    from kavka.traces import MalformedTrace, decode_trace

    for path in dict.fromkeys(path for directory in directories for path in _trace_files(directory, depth)):
        try:
            with open(path, "rb") as file:
                for line in file:
                    try:
                        found = decode_trace(line)
                    except MalformedTrace:
                        continue
                    if any(each.topic_partition == partition for each in found.partitions):
                        yield found
        except OSError as problem:
            note(f"{path} cannot be read: {problem.strerror}")


def _trace_files(directory: str, depth: int) -> Iterator[str]:
    from kavka.traces import RING_FILES

    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.name in RING_FILES:
            yield os.path.realpath(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _trace_files(entry.path, depth - 1)


# -- the cluster


def _from_cluster(found: Findings, bootstrap: str | None) -> Findings:
    from kavka.cli.session import with_cluster

    async def work(cluster: Cluster) -> Findings:
        known = await _with_record(cluster, found)
        here, elsewhere = await _directories(cluster)
        known = _from_directories(known, here, 0)._replace(unread=elsewhere)
        known = _with_decisions(known, await _decisions(cluster, known))
        return await _with_shares(cluster, await _with_commits(cluster, known))

    return with_cluster(bootstrap, work)


async def _with_record(cluster: Cluster, found: Findings) -> Findings:
    from kavka.client.admin import Admin
    from kavka.client.offsets import earliest_offsets, latest_offsets

    place = found.partition
    (topic,) = await Admin(cluster).describe_topics([place.topic])
    if place.partition >= len(topic.partitions):
        raise Failure(
            f"there is no partition {place}", f"{place.topic} has {counted(len(topic.partitions), 'partition')}"
        )
    described = topic.partitions[place.partition]
    found = found._replace(leader=described.leader, replicas=described.replicas)
    start, end = (await earliest_offsets(cluster, [place]))[place], (await latest_offsets(cluster, [place]))[place]
    if found.offset >= end:
        raise Failure(
            f"there is no committed record {place}@{found.offset} yet",
            f"the high watermark is {end}; `kavka why {place}` shows what happened to the partition",
        )
    if found.offset < start:
        return found._replace(record_missing=f"the record itself: the log begins at {start} now")
    return await _read(cluster, found)


async def _read(cluster: Cluster, found: Findings) -> Findings:
    from kavka.client.consumer import Consumer
    from kavka.client.settings import ConsumerSettings
    from kavka.records.batch import TimestampType

    async with Consumer(cluster, ConsumerSettings()) as consumer:
        consumer.assign([found.partition], offsets={found.partition: found.offset})
        records = await consumer.poll(max_records=1, timeout_ms=READ_MS)
    if not records or records[0].offset != found.offset:
        return found._replace(
            record_missing="the record itself: compaction removed it, or it is a transaction's marker"
        )
    (record,) = records
    by_broker = record.timestamp_type is TimestampType.LOG_APPEND_TIME
    return found._replace(record=FoundRecord(record.timestamp_ms, by_broker, record.leader_epoch))


async def _directories(cluster: Cluster) -> tuple[list[str], list[int]]:
    """The log directories that are on this machine, and the brokers of which none is."""
    from kavka.cli.cluster.local_log_directories import is_of_cluster
    from kavka.client.admin import Admin

    cluster_id = (await Admin(cluster).describe_cluster()).cluster_id
    described = await Admin(cluster).describe_log_dirs()
    here: list[str] = []
    elsewhere = []
    for broker_id, places in described.items():
        mine = [place.path for place in places if is_of_cluster(place.path, cluster_id)]
        here += mine
        if not mine:
            elsewhere.append(broker_id)
    return here, elsewhere


async def _decisions(cluster: Cluster, found: Findings) -> list[Decision]:
    """Why-records since the record was written; they come from all brokers."""
    from kavka.cli.understand.decision_source import from_cluster
    from kavka.errors import RequestError

    since_ms = max(earliest_ms(found) - DAY_MS, 0)
    try:
        return [each.decision for each in await from_cluster(cluster, since_ms)]
    except (RequestError, Failure):
        return []  # There are none, or they may not be read: what is there of them is told nowhere else.


def _with_decisions(found: Findings, decisions: Sequence[Decision]) -> Findings:
    """Adds why-records of slow requests that begin with the record, and of share groups to which it came back."""
    from kavka.decisions import DecisionKind

    place = (found.partition.topic, found.partition.partition, found.offset)
    shares = (DecisionKind.SHARE_RECORDS_RELEASED, DecisionKind.SHARE_RECORDS_ARCHIVED)
    slow, told = [], []
    for each in decisions:
        said = each.evidence
        if each.kind is DecisionKind.REQUEST_SLOW:
            if tuple(said.get(name) for name in ("topic", "partition", "offset")) == place:
                slow.append(each)
        elif each.kind in shares and each.partition == found.partition:
            first, last = said.get("first_offset"), said.get("last_offset")
            # Of several ranges the record names the ends only: where there are gaps, it may lie in one.
            if isinstance(first, int) and isinstance(last, int) and first <= found.offset <= last:
                told.append(each)
    return found._replace(slow=slow, told_of_shares=told)


async def _with_shares(cluster: Cluster, found: Findings) -> Findings:
    """What each share group that reads the partition has done with the record."""
    from kavka.client.group_admin import SHARE, GroupAdmin
    from kavka.errors import KavkaError

    try:
        listed = [each.group_id for each in await GroupAdmin(cluster).list_groups() if each.kind == SHARE]
        states = [await _share_state(cluster, found, group) for group in sorted(listed)[:MAX_SHARE_GROUPS]]
    except KavkaError as problem:
        return found._replace(shares_missing=f"what share groups did with it: {problem}")
    missing = f"what share groups did with it beyond the first {MAX_SHARE_GROUPS}, of {len(listed)}"
    return found._replace(
        shares=[state for state in states if state is not None],
        shares_missing=missing if len(listed) > MAX_SHARE_GROUPS else "",
    )


async def _share_state(cluster: Cluster, found: Findings, group: str) -> ShareState | None:
    """None where the group does not read the partition. Raises KavkaError."""
    from kavka.client.share_group_admin import ShareGroupAdmin

    admin = ShareGroupAdmin(cluster)
    at = (await admin.positions(group)).get(found.partition)
    if at is None:
        return None
    if found.offset < at.start:
        return ShareState(group, "passed", at.start)
    told = await admin.in_flight(group)
    records = None if told is None else told.partitions.get(found.partition)
    if records is None:
        silent = "its leader does not tell what became of records in flight"
        unused = (
            "no member fetches from the partition, so nobody holds records of it; not all from its start on are done"
        )
        return ShareState(group, silent if told is None else unused, at.start)
    for run in records.runs:
        if run.first <= found.offset <= run.last:
            return ShareState(group, run.state, records.start, run.deliveries, run.member_id)
    if found.offset < records.start:  # It went on between the two questions.
        return ShareState(group, "passed", records.start)
    state = "not delivered" if found.offset >= records.end else "in flight, among more runs of records than are told"
    return ShareState(group, state, records.start)


async def _with_commits(cluster: Cluster, found: Findings) -> Findings:
    """Of each group the earliest commit behind the record that the log of commits still has."""
    from kavka.client.admin import Admin
    from kavka.errors import RequestError

    try:
        if OFFSETS_TOPIC not in {each.name for each in await Admin(cluster).list_topics(include_internal=True)}:
            return found._replace(commits_missing="which group read it: no group has committed anything")
        commits, is_whole = await _read_commits(cluster, found)
    except RequestError as refused:
        return found._replace(commits_missing=f"which group read it: {refused}")
    missing = "" if is_whole else f"which group read it first: more than {MAX_COMMITS:,} commits came since"
    return found._replace(commits=commits, commits_missing=missing)


async def _read_commits(cluster: Cluster, found: Findings) -> tuple[list[Commit], bool]:
    """In the order of time, and whether all were read."""
    from kavka.client.consumer import Consumer
    from kavka.client.settings import ConsumerSettings

    first: dict[str, Commit] = {}
    count = 0
    async with Consumer(cluster, ConsumerSettings()) as consumer:
        await consumer.assign_topic(OFFSETS_TOPIC)
        await consumer.seek_to_timestamp(earliest_ms(found))
        ends = await consumer.end_offsets()
        while not consumer.reached(ends) and count < MAX_COMMITS:
            for record in await consumer.poll(max_records=POLL_RECORDS):
                count += 1
                commit = _commit_behind(found, record)
                if commit is not None:
                    first[commit.group] = min(first.get(commit.group, commit), commit, key=lambda each: each.at_ms)
    return sorted(first.values(), key=lambda each: each.at_ms), count < MAX_COMMITS


def _commit_behind(found: Findings, record: ConsumerRecord) -> Commit | None:
    from kavka.coordinator.groups.decide.records import OffsetRecord, decode_record
    from kavka.errors import ProtocolViolation

    try:
        said = decode_record(bytes(record.key or b""), None if record.value is None else bytes(record.value))
    except ProtocolViolation:
        return None
    if not isinstance(said, OffsetRecord) or said.committed is None or said.committed.offset <= found.offset:
        return None
    if (said.topic, said.partition) != found.partition:
        return None
    return Commit(said.group_id, said.committed.commit_timestamp_ms, said.committed.offset)
