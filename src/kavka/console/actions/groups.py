"""What can be done to groups: set what they committed back or forth, and delete them.

Decides where offsets would be set to, on values only (`targets`), and what is shown before. Must not know pages.

I1  Offsets are set of a group without members only: its members would commit over them. The coordinator refuses others,
    too, if one joins between the preview and the change.
I2  No offset is set outside of its log: it is moved to the log's nearer end, and the preview says so.
I3  A time is read in the zone of the form, is shown as an instant, and is past (typed_time).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from kavka.client.group_admin import NO_MEMBERS, SHARE, GroupAdmin
from kavka.client.group_offsets import offsets_of, set_offsets
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.console.actions.action import (
    Action,
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    group_field,
    quoted,
    text,
    whole,
)
from kavka.console.actions.typed_time import in_utc, instant, past_ms, zone_of_name
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

SHOWN_CHANGES = 500
KAFKAS_TOOLS = {SHARE: "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
"""By the kind of group; kafka-consumer-groups.sh for the others."""


class Way(Enum):
    """Where offsets are set to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


class Target(NamedTuple):
    """One partition: what is committed (None: nothing) and what would be; `moved_from` where the log bounds it."""

    partition: TopicPartition
    committed: int | None
    wanted: int
    moved_from: int | None = None


class Position(NamedTuple):
    """What a group committed in a partition, and from where to where its log goes."""

    committed: int | None
    log_start: int
    log_end: int


def targets(
    way: Way,
    places: Mapping[TopicPartition, Position],
    *,
    number: int = 0,
    at_time: Mapping[TopicPartition, int] | None = None,
) -> list[Target]:
    """number: the offset, or by how much to shift. at_time: the first offset at the time, where there is one. Raises
    ActionRefused where a partition without a committed offset is to be shifted."""
    found = []
    for place, (was, start, end) in places.items():
        match way:
            case Way.EARLIEST:
                wanted = start
            case Way.LATEST:
                wanted = end
            case Way.OFFSET:
                wanted = number
            case Way.SHIFT:
                if was is None:
                    raise ActionRefused(f"{place} has no committed offset to shift")
                wanted = was + number
            case Way.TIME:
                wanted = (at_time or {}).get(place, end)
        bounded = min(max(wanted, start), end)
        found.append(Target(place, was, bounded, wanted if bounded != wanted else None))
    return found


class ResetOffsets(Action):
    name, title, role, section = "reset-offsets", "Set a group's offsets", "operator", "groups"

    def topics(self, values: Values) -> None:
        return None

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        group = values.get("group", "").strip()
        seen = watch.snapshot.groups.get(group)
        topics = () if seen is None else seen.topics
        return (
            Field("group", "Group", "hidden", group) if group else group_field(values),
            Field(
                "topic",
                "Topic",
                "choice" if topics else "text",
                values.get("topic", ""),
                "Empty: all topics for which it has committed offsets.",
                ("", *topics) if topics else (),
            ),
            Field("partition", "Partition", "number", values.get("partition", ""), "Empty: all partitions."),
            Field("way", "To", "choice", values.get("way", Way.EARLIEST.value), "", tuple(way.value for way in Way)),
            Field(
                "number",
                "Offset, or shift by",
                "text",
                values.get("number", ""),
                "A shift may be negative: -100.",
                chooses="way=offset",
            ),
            Field("zone", "Time zone", "hidden", values.get("zone", "")),
            Field("time", "Time", "moment", values.get("time", ""), chooses="way=time"),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        group = text(values, "group", "the group")
        found = await self._targets(watch, values)
        rows = [_row(each) for each in found if each.committed != each.wanted]
        if not rows:
            raise ActionRefused("nothing changes: the group has committed these offsets already")
        again = sum(max((each.committed or each.wanted) - each.wanted, 0) for each in found)
        over = sum(max(each.wanted - each.committed, 0) for each in found if each.committed is not None)
        warnings = []
        if again:
            known = {"n": f"{again:,}"}
            warnings.append(
                Warned("warn", Statement("Offsets that are read again: {n}. Their records are processed twice.", known))
            )
        if over:
            known = {"n": f"{over:,}"}
            warnings.append(
                Warned("bad", Statement("Offsets that are skipped: {n}. Their records are not processed.", known))
            )
        moved = [str(each.partition) for each in found if each.moved_from is not None]
        if moved:
            text_ = "Offsets outside the log were set to its nearer end: {partitions}."
            warnings.append(Warned("warn", Statement(text_, {"partitions": ", ".join(moved[:5])})))
        if len(rows) > SHOWN_CHANGES:
            known = {"n": f"{len(rows) - SHOWN_CHANGES:,}"}
            warnings.append(Warned("warn", Statement("Partitions that change but are not shown: {n}.", known)))
        return Preview(
            f"group {group}",
            _summary(group, len(rows), values),
            tuple(rows[:SHOWN_CHANGES]),
            tuple(warnings),
            self._commands(watch, values),
            before="\n".join(f"{each.partition} {each.committed}" for each in found),
            wanted="\n".join(f"{each.partition} {each.wanted}" for each in found),
            button="Set them",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        found = await self._targets(watch, values)
        group = await GroupAdmin(watch.cluster).describe(text(values, "group", "the group"))
        await set_offsets(watch.cluster, group, {each.partition: each.wanted for each in found})

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        group = await GroupAdmin(watch.cluster).describe(values["group"])
        committed = await offsets_of(watch.cluster, group)
        return "\n".join(f"{place} {at.offset}" for place, at in sorted(committed.items()))

    def link(self, base: str, values: Values) -> str:
        return f"{base}/groups/{quote(values.get('group', ''), safe='')}"

    async def _targets(self, watch: ClusterWatch, values: Values) -> list[Target]:
        group = await GroupAdmin(watch.cluster).describe(text(values, "group", "the group"))
        if group.state not in NO_MEMBERS:
            raise ActionRefused(
                f"the group is {group.state}: its members would overwrite the offsets. Stop its consumers first"
            )
        committed = {place: at.offset for place, at in (await offsets_of(watch.cluster, group)).items()}
        places = await self._places(watch, values, committed)
        starts = {
            place: at.offset
            for place, at in (await list_offsets(watch.cluster, dict.fromkeys(places, EARLIEST))).items()
        }
        ends = {
            place: at.offset for place, at in (await list_offsets(watch.cluster, dict.fromkeys(places, LATEST))).items()
        }
        try:
            way = Way(values.get("way", ""))
        except ValueError:
            raise ActionRefused("where are the offsets to be set to?") from None
        number, at_time = 0, None
        if way in (Way.OFFSET, Way.SHIFT):
            least = 0 if way is Way.OFFSET else -(2**63)
            number = whole(values, "number", "the offset or shift", least=least, most=2**63 - 1)
        if way is Way.TIME:
            at_ms = _at_ms(values)
            found = await list_offsets(watch.cluster, dict.fromkeys(places, at_ms))
            at_time = {place: at.offset for place, at in found.items() if at.offset >= 0}
        positions = {place: Position(committed.get(place), starts[place], ends[place]) for place in places}
        return targets(way, positions, number=number, at_time=at_time)

    async def _places(
        self, watch: ClusterWatch, values: Values, committed: Mapping[TopicPartition, int]
    ) -> list[TopicPartition]:
        name = values.get("topic", "").strip()
        if not name:
            if not committed:
                raise ActionRefused("the group has committed nothing: name a topic")
            return sorted(committed)
        try:
            topic = await watch.cluster.topic(name)
        except RequestError as refused:
            raise ActionRefused(f"there is no topic {name[:250]}") from refused
        places = [TopicPartition(name, each.partition) for each in topic.partitions]
        if values.get("partition"):
            number = whole(values, "partition", "the partition")
            places = [place for place in places if place.partition == number]
            if not places:
                raise ActionRefused(f"{name} has no partition {number}")
        return places

    def _commands(self, watch: ClusterWatch, values: Values) -> tuple[str, ...]:
        group, topic = quoted(values["group"]), values.get("topic", "").strip()
        partition = f":{values['partition']}" if values.get("partition") else ""
        what = f"--topic {quoted(topic + partition)}" if topic else "--all-topics"
        number = values.get("number", "").strip()
        at = in_utc(_at_ms(values)) if values["way"] == Way.TIME.value else ""
        way = {
            "earliest": "--to-earliest",
            "latest": "--to-latest",
            "offset": f"--to-offset {number}",
            "shift": f"--shift-by {number}",
            "time": f"--to-datetime {quoted(at)}",
        }[values["way"]]
        own = f"kavka groups reset-offsets {group} {what} {way} -b {watch.settings.bootstrap} --execute"
        tool = _tool(watch, values["group"])
        if tool == KAFKAS_TOOLS["streams"]:
            what = f"--input-topic {quoted(topic + partition)}" if topic else "--all-input-topics"
        server = f"--bootstrap-server {watch.settings.bootstrap}"
        kafkas = f"{tool} {server} --group {group} --reset-offsets {what} {way} --execute"
        # Kafka's tool sets a share group to an end of its topics or a time, and whole topics only.
        knows = tool != KAFKAS_TOOLS[SHARE] or (not partition and values["way"] in ("earliest", "latest", "time"))
        return (own, kafkas) if knows else (own,)


class DeleteGroup(Action):
    name, title, role, section = "delete-group", "Delete a group", "admin", "groups"

    def topics(self, values: Values) -> None:
        return None

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        group = values.get("group", "").strip()
        return (Field("group", "Group", "hidden", group) if group else group_field(values),)

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        group = text(values, "group", "the group")
        shown = await GroupAdmin(watch.cluster).describe(group)
        state = shown.state
        if state not in NO_MEMBERS:
            raise ActionRefused(f"the group is {state}: it has members. Stop its consumers first")
        committed = {
            str(place): str(at.offset) for place, at in sorted((await offsets_of(watch.cluster, shown)).items())
        }
        if state == "Dead" and not committed:
            raise ActionRefused(f"there is no group {group[:250]}")
        rows = [Change(place, offset, "") for place, offset in committed.items()]
        text_ = (
            "What it has done is forgotten. If it comes back, it starts where its share.auto.offset.reset says."
            if shown.kind == SHARE
            else "Its committed offsets are lost. If it comes back, it starts where auto.offset.reset says."
        )
        return Preview(
            f"group {group}",
            Statement(
                "This deletes the group {group} with its committed offsets: {n}.", {"group": group, "n": len(rows)}
            ),
            tuple(rows[:SHOWN_CHANGES]),
            (Warned("bad", Statement(text_)),),
            (
                f"kavka groups delete {quoted(group)} -b {watch.settings.bootstrap}",
                f"{_tool(watch, group)} --bootstrap-server {watch.settings.bootstrap} --delete --group {quoted(group)}",
            ),
            before="\n".join(f"{place} {offset}" for place, offset in committed.items()),
            button="Delete it",
            is_danger=True,
            type_name=group,
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        await GroupAdmin(watch.cluster).delete(text(values, "group", "the group"))

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        return (await GroupAdmin(watch.cluster).describe(values["group"])).state

    def is_ambiguous(self, refused: RequestError) -> bool:
        return super().is_ambiguous(refused) or refused.code is ErrorCode.GROUP_ID_NOT_FOUND


def _tool(watch: ClusterWatch, group: str) -> str:
    """The tool of Apache Kafka's for this kind of group."""
    seen = watch.snapshot.groups.get(group)
    return KAFKAS_TOOLS.get("" if seen is None else seen.kind, "kafka-consumer-groups.sh")


def _at_ms(values: Values) -> int:
    """The time that the form says. Raises ActionRefused."""
    zone = zone_of_name(values.get("zone", ""))
    return past_ms(text(values, "time", "the time"), zone, time.time_ns() // 1_000_000)


def _summary(group: str, changes: int, values: Values) -> Statement:
    known: dict[str, object] = {"n": changes, "group": group}
    if values.get("way") != Way.TIME.value:
        return Statement("Committed offsets of {group} that change: {n}.", known)
    known["instant"] = instant(_at_ms(values), zone_of_name(values.get("zone", "")))
    text_ = "Committed offsets of {group} that change: {n}. They go to the first records from {instant} on."
    return Statement(text_, known)


def _row(target: Target) -> Change:
    before = "" if target.committed is None else str(target.committed)
    return Change(str(target.partition), before, str(target.wanted))
