"""Where a group's committed offsets are set to, and which of them are forgotten; what `kavka groups` shows of it.

Decides what offset each way of a reset means for a partition, and that a group with members is left alone: they would
commit over what is set. An offset outside of the log becomes the log's nearer end. A group that does not exist comes
into being with its offsets, as a share group only where that is asked for: offsets do not say of which kind it is, and
a share consumer cannot join a classic group, nor any other consumer a share group.

Source: KIP-122, KIP-496; kafka-consumer-groups and kafka-share-groups, which make a group of their own kind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, assert_never

from kavka.cli.output import Failure, Table, counted, done, note, show, show_json, unreadable, usage
from kavka.cli.session import with_cluster
from kavka.cli.times import parse_iso_duration, parse_time

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.group import CommittedOffset
    from kavka.errors import ErrorCode
    from kavka.model import TopicPartition

    Committed = Mapping[TopicPartition, CommittedOffset]

UNKNOWN = "-"
WHY_NOT_OF_SHARE_GROUPS = "the start of a share group is set while it has no members"


class Spot(Enum):
    """A way of a reset that needs no value."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


class ToOffset(NamedTuple):
    """To the same offset everywhere."""

    offset: int


class ShiftBy(NamedTuple):
    """So many records on from what is committed, or back."""

    records: int


class ToTime(NamedTuple):
    """To the first record with this timestamp or a later one; to the end where there is none."""

    at_ms: int


class ToOffsets(NamedTuple):
    """To an offset of its own for each partition, as a file says."""

    offsets: Mapping[TopicPartition, int]


Way = Spot | ToOffset | ShiftBy | ToTime | ToOffsets


class Chosen(NamedTuple):
    """Which partitions are meant: those of `topics` (NAME or NAME:1,2), or of all topics that the group committed."""

    topics: Sequence[str]
    all_topics: bool


class Shown(Enum):
    """What a reset prints."""

    TABLE = "table"
    JSON = "json"
    LINES = "lines for --from-file"


def to_datetime(text: str) -> ToTime:
    return ToTime(parse_time(text))


def by_duration(text: str) -> ToTime:
    return ToTime(int(time.time() * 1000) - parse_iso_duration(text, "--by-duration"))


def from_file(file: str) -> ToOffsets:
    """From lines of topic,partition,offset. Raises Failure."""
    from kavka.model import TopicPartition

    found: dict[TopicPartition, int] = {}
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(unreadable(file, problem), "name a file that you may read; --export prints one") from problem
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip().strip('"') for field in line.rsplit(",", 2)]
        if len(fields) != 3 or not fields[1].isdecimal() or not fields[2].isdecimal():
            usage(f"{file}, line {number}: {line!r} is not topic,partition,offset")
        found[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return ToOffsets(found)


def reset(
    bootstrap: str | None,
    group_id: str,
    chosen: Chosen,
    way: Way,
    shown: Shown,
    *,
    execute: bool,
    is_share: bool = False,
) -> None:
    """Shows where offsets would be set to; sets them with `execute`. `is_share`: a share group's. Raises Failure."""
    if bool(chosen.topics) + chosen.all_topics + isinstance(way, ToOffsets) != 1:
        usage("give exactly one of --topic, --all-topics and --from-file", "for example --topic orders:0,3")

    async def work(cluster: Cluster) -> tuple[bool, Committed, dict[TopicPartition, int]]:
        from kavka.client.group_admin import DEAD, NO_MEMBERS, SHARE, GroupAdmin
        from kavka.client.group_offsets import offsets_of, set_offsets

        group = await GroupAdmin(cluster).describe(group_id)
        is_new = group.state == DEAD
        if is_share and not is_new and group.kind != SHARE:
            raise Failure(f"group {group_id} is a {group.kind} group", "leave out --share, or take another name")
        if group.state not in NO_MEMBERS:
            why = WHY_NOT_OF_SHARE_GROUPS if group.kind == SHARE else "its members would overwrite the new offsets"
            raise Failure(f"group {group_id} is {group.state}: {why}", "stop its consumers first")
        if is_new and is_share:
            group = group._replace(kind=SHARE)
        committed: Committed = {} if is_new else await offsets_of(cluster, group)
        if isinstance(way, ToOffsets):
            places = sorted(way.offsets)
        else:
            places = sorted(committed) if chosen.all_topics else await places_of(cluster, chosen.topics)
        if not places:
            said = f"there is no group {group_id}" if is_new else f"group {group_id} has committed nothing"
            raise Failure(said, "name topics with --topic")
        wanted = await _targets(cluster, places, committed, way)
        if execute:
            await set_offsets(cluster, group, wanted)
        return is_new, committed, wanted

    is_new, committed, wanted = with_cluster(bootstrap, work)
    match shown:
        case Shown.LINES:
            print("\n".join(f'"{place.topic}",{place.partition},{offset}' for place, offset in wanted.items()))
        case Shown.JSON:
            show_json({"group": group_id, "executed": execute, "offsets": _rows(committed, wanted)})
        case Shown.TABLE:
            table = Table(["topic", "partition", "committed", "new"], ["partition", "committed", "new"])
            for row in _rows(committed, wanted):
                was = UNKNOWN if row["committed"] is None else row["committed"]
                table.add(row["topic"], row["partition"], was, row["new"])
            show(table)
        case _:
            assert_never(shown)
    if is_new:
        _tell_of_new_group(group_id, execute=execute, is_share=is_share)
    if not execute:
        note("Nothing was changed: --execute sets these offsets.")


def _tell_of_new_group(group_id: str, *, execute: bool, is_share: bool) -> None:
    kind = "a share group" if is_share else "a classic group"
    made = f"There was no group {group_id}: {kind} was made." if execute else f"There is no group {group_id} yet."
    note(made if is_share else f"{made} Share consumers cannot join a classic group; --share makes one for them.")


def _rows(committed: Committed, wanted: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": committed[place].offset if place in committed else None,
            "new": offset,
        }
        for place, offset in wanted.items()
    ]


async def places_of(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of NAME or NAME:1,2."""
    from kavka.model import TopicPartition

    places: list[TopicPartition] = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        topic = await cluster.topic(name)
        there = sorted(each.partition for each in topic.partitions)
        if not colon:
            places.extend(TopicPartition(name, number) for number in there)
            continue
        for number in numbers.split(","):
            if not number.isdecimal() or int(number) not in there:
                usage(f"topic {name} has no partition {number!r}", f"it has {there[0]} to {there[-1]}")
            places.append(TopicPartition(name, int(number)))
    return sorted(dict.fromkeys(places))


async def _targets(
    cluster: Cluster, places: Sequence[TopicPartition], committed: Committed, way: Way
) -> dict[TopicPartition, int]:
    from kavka.client.offsets import EARLIEST, LATEST, list_offsets

    starts = {place: at.offset for place, at in (await list_offsets(cluster, dict.fromkeys(places, EARLIEST))).items()}
    ends = {place: at.offset for place, at in (await list_offsets(cluster, dict.fromkeys(places, LATEST))).items()}
    at_time: Mapping[TopicPartition, int] = {}
    if isinstance(way, ToTime):
        found = await list_offsets(cluster, dict.fromkeys(places, way.at_ms))
        at_time = {place: at.offset for place, at in found.items() if at.offset >= 0}
    wanted: dict[TopicPartition, int] = {}
    for place in places:
        was = committed[place].offset if place in committed else None
        match way:
            case ToOffsets(offsets):
                offset = offsets[place]
            case ToOffset(offset):
                pass
            case ShiftBy(records):
                if was is None:
                    raise Failure(
                        f"{place.topic}-{place.partition} has no committed offset to shift", "use --to-earliest"
                    )
                offset = was + records
            case ToTime():
                offset = at_time.get(place, ends[place])
            case Spot.EARLIEST:
                offset = starts[place]
            case Spot.CURRENT | Spot.LATEST:
                offset = was if way is Spot.CURRENT and was is not None else ends[place]
            case _:
                assert_never(way)
        wanted[place] = min(max(offset, starts[place]), ends[place])
        if wanted[place] != offset:
            note(f"{place.topic}-{place.partition}: offset {offset} is outside the log; using {wanted[place]} instead.")
    return wanted


def delete_offsets(bootstrap: str | None, group_id: str, topics: Sequence[str], *, as_json: bool) -> None:
    """Forgets what a group committed for these topics or partitions. Raises Failure."""

    async def work(cluster: Cluster) -> dict[TopicPartition, ErrorCode]:
        from kavka.client.group_admin import SHARE, GroupAdmin
        from kavka.client.share_group_admin import ShareGroupAdmin
        from kavka.errors import ErrorCode, RequestError

        admin = GroupAdmin(cluster)
        places = await places_of(cluster, topics)
        if (await admin.describe(group_id)).kind != SHARE:
            return await admin.delete_offsets(group_id, places)
        if parts := [text for text in topics if ":" in text]:
            usage(
                f"{parts[0]}: a share group forgets whole topics", f"for example --topic {parts[0].partition(':')[0]}"
            )
        try:
            errors = await ShareGroupAdmin(cluster).delete_positions(group_id, topics)
        except RequestError as refused:
            if refused.code is not ErrorCode.NON_EMPTY_GROUP:
                raise
            raise Failure(
                f"group {group_id} has members: what it did was not forgotten", "stop its consumers first"
            ) from refused
        return {place: errors[place.topic] for place in places}

    errors = with_cluster(bootstrap, work)
    failed = {f"{place.topic}-{place.partition}": error.name for place, error in sorted(errors.items()) if error}
    deleted = [f"{place.topic}-{place.partition}" for place, error in sorted(errors.items()) if not error]
    if failed and as_json:
        show_json({"group": group_id, "deleted": deleted, "failed": failed})
    elif deleted:
        done(
            f"Offsets of {counted(len(deleted), 'partition')} deleted.",
            {"group": group_id, "deleted": deleted, "failed": failed},
            as_json=as_json,
        )
    for place, why in failed.items():
        raise Failure(f"offset of {place} was not deleted: {why}", "stop the consumers that read the topic first")
