"""`kavka groups`: list and describe groups, set back what they committed, delete groups and offsets.

Decides what is shown, and where offsets are set to. A reset is a preview until --execute, and is refused while the
group has members: they would commit their own positions over it. Works with Apache Kafka as well.

    --to-earliest --to-latest   the ends of the log
    --to-offset N, --shift-by N within the log: what lies outside is brought to its nearer end
    --to-datetime, --by-duration the first record at or after that time, the end of the log where there is none
    --to-current                what is committed, the end of the log where nothing is
    --from-file                 lines of topic,partition,offset, as --export and Kafka's own tool write them

Source: kafka-consumer-groups (KIP-122).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.output import Failure, Table, counted, done, note, one_of, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.group import CommittedOffset
    from kavka.client.group_admin import ListedGroup, ShownGroup, ShownMember
    from kavka.errors import ErrorCode
    from kavka.model import TopicPartition

    Committed = Mapping[TopicPartition, CommittedOffset]

NOWHERE = "-"
GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
    "Dead",
)
GROUP_TYPES = ("classic", "consumer", "share", "streams")
"""Those of Apache Kafka 4 (`GroupState`, `GroupType`): the commands work with its groups, too."""


def list_groups(bootstrap: str | None, *, states: Sequence[str], kinds: Sequence[str], as_json: bool) -> None:
    """All groups, or those in one of `states` and of one of `kinds`."""

    async def work(cluster: Cluster) -> list[ListedGroup]:
        from kavka.client.group_admin import GroupAdmin

        return await GroupAdmin(cluster).list_groups()

    wanted_states = {state.lower() for state in one_of(states, GROUP_STATES, what="state of groups")}
    wanted_kinds = one_of(kinds, GROUP_TYPES, what="type of groups")
    groups = [
        group
        for group in with_cluster(bootstrap, work)
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_kinds or group.kind in wanted_kinds)
    ]
    if as_json:
        show_json([group._asdict() for group in groups])
        return
    if not groups:
        note("There are no such groups.")
        return
    table = Table(["group", "type", "protocol", "state", "coordinator"], ["coordinator"])
    for group in groups:
        table.add(group.group_id, group.kind, group.protocol_type, group.state, group.coordinator)
    show(table)


# ------------------------------------------------------------------------------------------------------------ describe


class _Described(NamedTuple):
    group: ShownGroup
    offsets: Committed
    ends: Mapping[TopicPartition, int]


def describe(bootstrap: str | None, group_ids: Sequence[str], *, members: bool, as_json: bool) -> None:
    """Partitions with committed offsets, lag and who reads them; or the members."""

    async def work(cluster: Cluster) -> list[_Described]:
        return [await _look(cluster, group_id) for group_id in group_ids]

    described = with_cluster(bootstrap, work)
    missing = [one.group.group_id for one in described if one.group.state == "Dead" and not one.offsets]
    if as_json:
        show_json([_facts(one) for one in described])
    else:
        for number, one in enumerate(one for one in described if one.group.group_id not in missing):
            if number:
                print()
            _show_members(one) if members else _show_offsets(one)
    if missing:
        raise Failure(f"there is no group {', '.join(missing)}", "`kavka groups list` shows all")


async def _look(cluster: Cluster, group_id: str) -> _Described:
    from kavka.client.group_admin import GroupAdmin
    from kavka.client.offsets import LATEST, list_offsets

    admin = GroupAdmin(cluster)
    group = await admin.describe(group_id)
    offsets = await admin.offsets(group_id)
    places = sorted({*offsets, *(place for member in group.members for place in member.assignment)})
    await cluster.refresh([place.topic for place in places])
    there = [place for place in places if _exists(cluster, place)]
    ends = await list_offsets(cluster, dict.fromkeys(there, LATEST)) if there else {}
    return _Described(group, offsets, {place: found.offset for place, found in ends.items()})


def _exists(cluster: Cluster, place: TopicPartition) -> bool:
    topic = cluster.topics.get(place.topic)
    return topic is not None and any(each.partition == place.partition for each in topic.partitions)


def _readers(group: ShownGroup) -> dict[TopicPartition, ShownMember]:
    return {place: member for member in group.members for place in member.assignment}


def _rows(one: _Described) -> list[tuple[TopicPartition, int | None, int | None, int | None, ShownMember | None]]:
    readers = _readers(one.group)
    rows = []
    for place in sorted({*one.offsets, *readers}):
        committed = one.offsets.get(place)
        end = one.ends.get(place)
        lag = None if committed is None or end is None else max(end - committed.offset, 0)
        rows.append((place, None if committed is None else committed.offset, end, lag, readers.get(place)))
    return rows


def _title(group: ShownGroup) -> str:
    epochs = "" if group.epoch is None else f", epoch {group.epoch}, assignment {group.assignment_epoch}"
    assignor = f", {group.protocol}" if group.protocol else ""
    return (
        f"{group.group_id}: {group.kind or 'no members'}, {group.state}{assignor}{epochs}, "
        f"{counted(len(group.members), 'member')}, coordinator {group.coordinator}"
    )


def _show_offsets(one: _Described) -> None:
    table = Table(
        ["topic", "partition", "committed", "end", "lag", "client", "host", "member"],
        ["partition", "committed", "end", "lag"],
        title=_title(one.group),
    )
    for place, committed, end, lag, member in _rows(one):
        reader = (NOWHERE,) * 3 if member is None else (member.client_id, member.host, member.member_id)
        table.add(place.topic, place.partition, *map(_number, (committed, end, lag)), *reader)
    show(table)


def _show_members(one: _Described) -> None:
    table = Table(["member", "instance", "client", "host", "epoch", "partitions"], ["epoch"], title=_title(one.group))
    for member in one.group.members:
        by_topic: dict[str, list[int]] = {}
        for place in sorted(member.assignment):
            by_topic.setdefault(place.topic, []).append(place.partition)
        partitions = " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())
        instance = member.instance_id or NOWHERE
        table.add(member.member_id, instance, member.client_id, member.host, _number(member.epoch), partitions)
    show(table)


def _number(value: int | None) -> str:
    return NOWHERE if value is None else str(value)


def _facts(one: _Described) -> dict[str, object]:
    group = one.group
    return {
        "group": group.group_id,
        "type": group.kind,
        "state": group.state,
        "assignor": group.protocol,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "epoch": member.epoch,
                "partitions": [list(place) for place in sorted(member.assignment)],
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": committed,
                "end": end,
                "lag": lag,
                "member": None if member is None else member.member_id,
            }
            for place, committed, end, lag, member in _rows(one)
        ],
    }


# --------------------------------------------------------------------------------------------------------------- reset


class Reset(NamedTuple):
    """Where to set offsets to; exactly one of these is given."""

    earliest: bool = False
    latest: bool = False
    current: bool = False
    offset: int | None = None
    shift: int | None = None
    datetime: str | None = None
    duration: str | None = None
    file: str | None = None


def reset_offsets(
    bootstrap: str | None,
    group_id: str,
    topics: Sequence[str],
    reset: Reset,
    *,
    all_topics: bool,
    execute: bool,
    export: bool,
    as_json: bool,
) -> None:
    """Shows where a group's offsets would be set to, and sets them with `execute`."""
    chosen = [one for one in reset if one is not None and one is not False]
    if len(chosen) != 1:
        usage(
            f"exactly one way to set offsets is needed, and {len(chosen)} are given",
            "for example --to-earliest, --to-offset 42, --shift-by -100",
        )
    if bool(topics) + all_topics + (reset.file is not None) != 1:
        usage("which topics?", "--topic NAME[:PARTITION,...], --all-topics, or --from-file")
    timestamp_ms = _timestamp(reset)
    from_file = None if reset.file is None else _read_file(reset.file)

    async def work(cluster: Cluster) -> tuple[Committed, dict[TopicPartition, int]]:
        from kavka.client.group_admin import NO_MEMBERS, GroupAdmin

        admin = GroupAdmin(cluster)
        state = (await admin.describe(group_id)).state
        if state not in NO_MEMBERS:
            raise Failure(
                f"group {group_id} is {state}: its members would commit over what is set", "stop its consumers first"
            )
        committed = await admin.offsets(group_id)
        places = sorted(from_file or committed) if all_topics or from_file else await _places(cluster, topics)
        if not places:
            raise Failure(f"group {group_id} has committed nothing", "name topics with --topic")
        wanted = await _targets(cluster, places, committed, reset, timestamp_ms, from_file)
        if execute:
            await admin.set_offsets(group_id, wanted)
        return committed, wanted

    committed, wanted = with_cluster(bootstrap, work)
    if export:
        print("\n".join(f'"{place.topic}",{place.partition},{offset}' for place, offset in wanted.items()))
    elif as_json:
        show_json(
            {
                "group": group_id,
                "executed": execute,
                "offsets": [
                    {
                        "topic": place.topic,
                        "partition": place.partition,
                        "committed": committed[place].offset if place in committed else None,
                        "new": offset,
                    }
                    for place, offset in wanted.items()
                ],
            }
        )
    else:
        table = Table(["topic", "partition", "committed", "new"], ["partition", "committed", "new"])
        for place, offset in wanted.items():
            was = committed.get(place)
            table.add(place.topic, place.partition, _number(None if was is None else was.offset), offset)
        show(table)
    if not execute:
        note("Nothing was changed: --execute sets these offsets.")


def _timestamp(reset: Reset) -> int | None:
    """The time that is meant, in milliseconds since 1970."""
    if reset.datetime is not None:
        from kavka.cli.consume import parse_time

        return parse_time(reset.datetime)
    if reset.duration is not None:
        return int(time.time() * 1000) - _duration_ms(reset.duration)
    return None


def _duration_ms(text: str) -> int:
    """90s, 10m, 2h, 7d, or ISO 8601's P1DT2H3M4S as Kafka's tool takes it."""
    import re

    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.upper())
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    from kavka.cli.why import parse_duration

    return parse_duration(text)


def _read_file(file: str) -> dict[TopicPartition, int]:
    from kavka.model import TopicPartition

    found: dict[TopicPartition, int] = {}
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"{file}: {problem}") from problem
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip().strip('"') for field in line.rsplit(",", 2)]
        if len(fields) != 3 or not fields[1].isdecimal() or not fields[2].isdecimal():
            usage(f"{file}, line {number}: {line!r} is not topic,partition,offset")
        found[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return found


async def _places(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
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
    cluster: Cluster,
    places: Sequence[TopicPartition],
    committed: Committed,
    reset: Reset,
    timestamp_ms: int | None,
    from_file: Mapping[TopicPartition, int] | None,
) -> dict[TopicPartition, int]:
    from kavka.client.offsets import EARLIEST, LATEST, list_offsets

    starts = {place: at.offset for place, at in (await list_offsets(cluster, dict.fromkeys(places, EARLIEST))).items()}
    ends = {place: at.offset for place, at in (await list_offsets(cluster, dict.fromkeys(places, LATEST))).items()}
    at_time: Mapping[TopicPartition, int] = {}
    if timestamp_ms is not None:
        found = await list_offsets(cluster, dict.fromkeys(places, timestamp_ms))
        at_time = {place: at.offset for place, at in found.items() if at.offset >= 0}
    wanted: dict[TopicPartition, int] = {}
    for place in places:
        was = committed[place].offset if place in committed else None
        if from_file is not None:
            offset = from_file[place]
        elif reset.earliest:
            offset = starts[place]
        elif reset.offset is not None:
            offset = reset.offset
        elif reset.shift is not None:
            if was is None:
                raise Failure(f"{place.topic}-{place.partition} has no committed offset to shift", "use --to-earliest")
            offset = was + reset.shift
        elif timestamp_ms is not None:
            offset = at_time.get(place, ends[place])
        elif reset.current and was is not None:
            offset = was
        else:
            offset = ends[place]
        wanted[place] = min(max(offset, starts[place]), ends[place])
        if wanted[place] != offset:
            note(
                f"{place.topic}-{place.partition}: {offset} lies outside of the log, {wanted[place]} is its nearer end"
            )
    return wanted


# ------------------------------------------------------------------------------------------------------------ deletion


def delete(bootstrap: str | None, group_ids: Sequence[str], *, as_json: bool) -> None:
    """Deletes groups without members, with what they committed."""

    async def work(cluster: Cluster) -> dict[str, str]:
        from kavka.client.group_admin import GroupAdmin
        from kavka.errors import RequestError

        failed: dict[str, str] = {}
        for group_id in group_ids:
            try:
                await GroupAdmin(cluster).delete(group_id)
            except RequestError as refused:
                failed[group_id] = refused.code.name
        return failed

    failed = with_cluster(bootstrap, work)
    deleted = [group_id for group_id in group_ids if group_id not in failed]
    if as_json:
        show_json({"deleted": deleted, "failed": failed})
    else:
        for group_id in deleted:
            print(f"Group {group_id} deleted.")
    for group_id, why in failed.items():
        next_step = "stop its consumers first" if why == "NON_EMPTY_GROUP" else "`kavka groups list` shows all"
        raise Failure(f"group {group_id} was not deleted: {why}", next_step)


def delete_offsets(bootstrap: str | None, group_id: str, topics: Sequence[str], *, as_json: bool) -> None:
    """Forgets what a group committed for these topics or partitions."""

    async def work(cluster: Cluster) -> dict[TopicPartition, ErrorCode]:
        from kavka.client.group_admin import GroupAdmin

        return await GroupAdmin(cluster).delete_offsets(group_id, await _places(cluster, topics))

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
