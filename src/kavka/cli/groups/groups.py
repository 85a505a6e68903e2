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

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.missing_names import require_groups
from kavka.cli.options import Bootstrap, BootstrapHabit, Json, ListHabit, Yes
from kavka.cli.output import Failure, Table, confirm, counted, note, one_of, plain_words, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.group import CommittedOffset
    from kavka.client.group_admin import ListedGroup, ShownGroup, ShownMember
    from kavka.client.share_group_admin import InFlight, SharePosition
    from kavka.model import TopicPartition

    Committed = Mapping[TopicPartition, CommittedOffset]

app = CommandLine(name="groups", help="List, describe, reset and delete any kind of group.")

GroupIds = Annotated[list[str], typer.Argument(metavar="GROUP", help="Ids of groups.")]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="Id of a group.")]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME[:PARTITION,...]", help="A topic, or some of its partitions."),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All topics that the group has committed offsets for.")]
ToOffset = Annotated[int | None, typer.Option("--to-offset", min=0, metavar="OFFSET", help="To this offset.")]
ShiftBy = Annotated[int | None, typer.Option("--shift-by", metavar="N", help="N records on, or back: -100.")]
ToDatetime = Annotated[
    str | None, typer.Option("--to-datetime", metavar="TIME", help="To the first record from 2026-11-21T10:42 on.")
]
ByDuration = Annotated[
    str | None, typer.Option("--by-duration", metavar="DURATION", help="To the first record since 2h, 7d or P1DT2H.")
]
FromFile = Annotated[str | None, typer.Option("--from-file", metavar="FILE", help="Lines of topic,partition,offset.")]


NOWHERE = "-"
SHARE = "share"
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


@app.callback(invoke_without_command=True)
def groups(context: typer.Context, wants_list: ListHabit = False, bootstrap: BootstrapHabit = None) -> None:
    """List, describe, reset and delete any kind of group."""
    if wants_list:
        list_groups(bootstrap=bootstrap)
    elif context.invoked_subcommand is None:
        usage("groups: no command is named", "`kavka groups --help` shows commands")


@app.command("list")
def list_groups(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only groups in this state: Empty, Stable, ...")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="classic|consumer|share|streams", help="Only groups of this kind."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List groups with their type, protocol and state.

    [bold]Examples[/bold]

    kavka groups list

    kavka groups list --state Empty --type consumer --json
    """

    async def work(cluster: Cluster) -> list[ListedGroup]:
        from kavka.client.group_admin import GroupAdmin

        return await GroupAdmin(cluster).list_groups()

    wanted_states = {state.lower() for state in one_of(states or [], GROUP_STATES, what="group state")}
    wanted_kinds = one_of(kinds or [], GROUP_TYPES, what="group type")
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
        note("There are no such groups." if wanted_states or wanted_kinds else "There are no groups.")
        return
    table = Table(["group", "type", "protocol", "state", "coordinator"], ["coordinator"])
    for group in groups:
        table.add(group.group_id, group.kind, group.protocol_type, group.state, group.coordinator)
    show(table)


class _Described(NamedTuple):
    """`offsets` are what was committed, `shares` where a share group is, `in_flight` its records, where asked for."""

    group: ShownGroup
    offsets: Committed
    ends: Mapping[TopicPartition, int]
    shares: Mapping[TopicPartition, SharePosition]
    in_flight: InFlight | None = None


@app.command("describe")
def describe(
    group_ids: GroupIds,
    members: Annotated[
        bool, typer.Option("--members", help="Show members and their partitions or tasks instead of offsets.")
    ] = False,
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="For a share group: who holds which records, and for how long.")
    ] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show a group's partitions: what is committed, how far it lags, who reads them.

    For a share group: the first record that is not done, and how many are not. --in-flight shows runs of records with
    their state, how often they were delivered, and who holds them for how long. Apache Kafka's brokers do not say.

    [bold]Examples[/bold]

    kavka groups describe readers

    kavka groups describe readers --members

    kavka groups describe workers --in-flight
    """
    if members and in_flight:
        usage("--members and --in-flight show different things", "give one of them")

    async def work(cluster: Cluster) -> list[_Described]:
        described = [await _look(cluster, group_id) for group_id in group_ids]
        return [await _look_closer(cluster, one) for one in described] if in_flight else described

    described = with_cluster(bootstrap, work)
    missing = [one.group.group_id for one in described if one.group.state == "Dead" and not one.offsets]
    if as_json:
        show_json([_facts(one) for one in described])
    else:
        for number, one in enumerate(one for one in described if one.group.group_id not in missing):
            if number:
                print()
            shown = _show_members if members else _show_shares if one.group.kind == SHARE else _show_offsets
            (_show_in_flight if in_flight else shown)(one)
    if missing:
        require_groups(bootstrap, missing)
        raise Failure(f"there is no group {', '.join(missing)}", "`kavka groups list` shows all")


async def _look(cluster: Cluster, group_id: str) -> _Described:
    from kavka.client.group_admin import GroupAdmin
    from kavka.client.offsets import LATEST, list_offsets
    from kavka.client.share_group_admin import ShareGroupAdmin

    admin = GroupAdmin(cluster)
    group = await admin.describe(group_id)
    is_share = group.kind == SHARE
    shares = await ShareGroupAdmin(cluster).positions(group_id) if is_share else {}
    offsets = {} if is_share else await admin.offsets(group_id)
    places = sorted({*offsets, *shares, *(place for member in group.members for place in member.assignment)})
    await cluster.refresh([place.topic for place in places])
    there = [place for place in places if _exists(cluster, place)]
    ends = await list_offsets(cluster, dict.fromkeys(there, LATEST)) if there else {}
    return _Described(group, offsets, {place: found.offset for place, found in ends.items()}, shares)


async def _look_closer(cluster: Cluster, one: _Described) -> _Described:
    """With the records that are in flight. Raises Failure where there are none to tell of."""
    from kavka.cli.topics.group_records import require_share_group, require_told
    from kavka.client.share_group_admin import ShareGroupAdmin

    if one.group.state == "Dead":  # It is said to be missing.
        return one
    require_share_group(one.group, SHARE)
    told = await ShareGroupAdmin(cluster).in_flight(one.group.group_id)
    return one._replace(in_flight=require_told(one.group, told))


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


def _share_rows(one: _Described) -> list[tuple[TopicPartition, int | None, int | None, int | None, list[ShownMember]]]:
    """Of a share group: partition, start offset, end of the log, records that are not done, members."""
    assigned = {place for member in one.group.members for place in member.assignment}
    rows = []
    for place in sorted({*one.shares, *assigned}):
        at = one.shares.get(place)
        start, lag = (None, None) if at is None else at
        rows.append((place, start, one.ends.get(place), lag, [m for m in one.group.members if place in m.assignment]))
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


def _show_shares(one: _Described) -> None:
    table = Table(
        ["topic", "partition", "start", "end", "lag", "members"],
        ["partition", "start", "end", "lag"],
        title=_title(one.group),
    )
    for place, start, end, lag, members in _share_rows(one):
        readers = ", ".join(f"{member.client_id} ({member.member_id})" for member in members) or NOWHERE
        table.add(place.topic, place.partition, *map(_number, (start, end, lag)), readers)
    show(table)


def _show_in_flight(one: _Described) -> None:
    from kavka.cli.topics.group_records import show_records

    assert one.in_flight is not None  # `_look_closer` has seen to it.
    show_records(one.group, one.in_flight, _title(one.group), one.shares)


def _show_members(one: _Described) -> None:
    if one.group.kind == "streams":
        _show_tasks(one.group)
        return
    table = Table(["member", "instance", "client", "host", "epoch", "partitions"], ["epoch"], title=_title(one.group))
    for member in one.group.members:
        by_topic: dict[str, list[int]] = {}
        for place in sorted(member.assignment):
            by_topic.setdefault(place.topic, []).append(place.partition)
        partitions = " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())
        instance = member.instance_id or NOWHERE
        table.add(member.member_id, instance, member.client_id, member.host, _number(member.epoch), partitions)
    show(table)


def _show_tasks(group: ShownGroup) -> None:
    table = Table(["member", "process", "host", "epoch", "active", "standby"], ["epoch"], title=_title(group))
    for member in group.members:
        active, standby = ("", "") if member.tasks is None else map(_by_part, member.tasks[:2])
        table.add(member.member_id, member.process_id, member.host, _number(member.epoch), active, standby or NOWHERE)
    show(table)


def _by_part(tasks: Mapping[str, Sequence[int]]) -> str:
    """Tasks by the part of the application that they are of."""
    return " ".join(f"{part}:{','.join(map(str, numbers))}" for part, numbers in sorted(tasks.items()))


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
        "members": [_member_facts(member) for member in group.members],
        "offsets": _share_facts(one) if group.kind == SHARE else _offset_facts(one),
        **_records_of(one),
    }


def _member_facts(member: ShownMember) -> dict[str, object]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": [list(place) for place in sorted(member.assignment)],
        **({} if member.tasks is None else {"process": member.process_id, **member.tasks._asdict()}),
    }


def _share_facts(one: _Described) -> list[dict[str, object]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start": start,
            "end": end,
            "lag": lag,
            "members": [member.member_id for member in members],
        }
        for place, start, end, lag, members in _share_rows(one)
    ]


def _offset_facts(one: _Described) -> list[dict[str, object]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": committed,
            "end": end,
            "lag": lag,
            "member": None if member is None else member.member_id,
        }
        for place, committed, end, lag, member in _rows(one)
    ]


def _records_of(one: _Described) -> dict[str, object]:
    told = one.in_flight
    if told is None:
        return {}
    from kavka.cli.topics.group_records import facts

    return {"in_flight": facts(told), "silent_brokers": {str(node_id): why for node_id, why in told.silent.items()}}


@app.command("delete")
def delete(group_ids: GroupIds, yes: Yes = False, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Delete groups without members, with all that they committed.

    [bold]Examples[/bold]

    kavka groups delete readers

    kavka groups delete readers --yes
    """
    if not yes:
        require_groups(bootstrap, group_ids)
    confirm(f"delete {counted(len(group_ids), 'group')} with all committed offsets: {', '.join(group_ids)}", yes=yes)

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
    require_groups(bootstrap, [group_id for group_id, why in failed.items() if why == "GROUP_ID_NOT_FOUND"])
    for group_id, why in failed.items():
        next_step = "stop its consumers first" if why == "NON_EMPTY_GROUP" else "`kavka groups list` shows all"
        raise Failure(f"group {group_id} was not deleted: {plain_words(why)}", next_step)


@app.command("reset-offsets")
def reset_offsets(
    group_id: GroupId,
    topics: Topics = None,
    all_topics: AllTopics = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To what is committed (with --export).")] = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    from_file: FromFile = None,
    share: Annotated[bool, typer.Option("--share", help="A share group; created if it does not exist.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Set the offsets instead of only showing them.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print lines for --from-file.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show where a group's offsets would be set to; set them with --execute.

    [bold]Examples[/bold]

    kavka groups reset-offsets readers --topic orders --to-earliest

    kavka groups reset-offsets readers --topic orders:0,3 --shift-by -100 --execute

    kavka groups reset-offsets readers --all-topics --by-duration 2h --execute
    """
    from kavka.cli.groups import group_offsets as offsets

    given: list[Callable[[], offsets.Way]] = []
    spots = (to_earliest, offsets.Spot.EARLIEST), (to_latest, offsets.Spot.LATEST), (to_current, offsets.Spot.CURRENT)
    given += [partial(offsets.Spot, spot) for is_given, spot in spots if is_given]
    given += [partial(offsets.ToOffset, to_offset)] if to_offset is not None else []
    given += [partial(offsets.ShiftBy, shift_by)] if shift_by is not None else []
    given += [partial(offsets.to_datetime, to_datetime)] if to_datetime is not None else []
    given += [partial(offsets.by_duration, by_duration)] if by_duration is not None else []
    given += [partial(offsets.from_file, from_file)] if from_file is not None else []
    if len(given) != 1:
        usage(
            f"give exactly one way to set the offsets, not {len(given)}",
            "for example --to-earliest, --to-offset 42, --shift-by -100",
        )
    chosen = offsets.Chosen(topics or [], all_topics)
    shown = offsets.Shown.LINES if export else offsets.Shown.JSON if as_json else offsets.Shown.TABLE
    offsets.reset(bootstrap, group_id, chosen, given[0](), shown, execute=execute, is_share=share)


@app.command("delete-offsets")
def delete_offsets(
    group_id: GroupId,
    topics: Annotated[
        list[str], typer.Option("--topic", "-t", metavar="NAME[:PARTITION,...]", help="A topic, or partitions of it.")
    ],
    yes: Yes = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the offsets that a group committed for topics that none of its members reads.

    [bold]Examples[/bold]

    kavka groups delete-offsets readers --topic orders:2

    kavka groups delete-offsets readers --topic orders --yes
    """
    from kavka.cli.groups.group_offsets import delete_offsets as delete

    if not yes:
        require_groups(bootstrap, [group_id])
    confirm(f"delete what group {group_id} has committed for {', '.join(topics)}", yes=yes)
    delete(bootstrap, group_id, topics, as_json=as_json)
