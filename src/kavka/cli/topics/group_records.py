"""`kavka groups describe --in-flight`: which records of a share group who holds, until when, and how often they came.

Decides how runs of records are shown, and what is said where brokers do not tell. Must not know how brokers are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure, Table, counted, note, show

if TYPE_CHECKING:
    from kavka.client.group_admin import ShownGroup
    from kavka.client.share_group_admin import InFlight, RecordRun, SharePosition
    from kavka.model import TopicPartition

NOBODY = "-"


def require_told(group: ShownGroup, told: InFlight | None) -> InFlight:
    """What brokers told. Raises Failure where none tells."""
    if told is None:
        raise Failure(
            "the brokers of this cluster do not report which records are in flight: Apache Kafka has no API for that",
            f"`kavka groups describe {group.group_id}` shows the first record that is not done, and how many are not",
        )
    return told


def require_share_group(group: ShownGroup, kind: str) -> None:
    """Raises Failure for a group of another kind."""
    if group.kind != kind:
        raise Failure(
            f"group {group.group_id} is not a share group: only share groups hold single records",
            f"`kavka groups describe {group.group_id}` shows what it has committed",
        )


def show_records(group: ShownGroup, told: InFlight, title: str, stored: Mapping[TopicPartition, SharePosition]) -> None:
    """A line for each run of records in the same state. `stored`: where the group is, also in partitions that nobody
    fetches from."""
    clients = {member.member_id: member.client_id for member in group.members}
    table = Table(
        ["topic", "partition", "offsets", "records", "state", "deliveries", "held by", "lock left"],
        ["partition", "records", "deliveries", "lock left"],
        title=title,
    )
    for place, records in told.partitions.items():
        for run in records.runs:
            holder = NOBODY if run.member_id is None else _holder(run.member_id, clients)
            table.add(
                place.topic,
                place.partition,
                _offsets(run),
                run.last - run.first + 1,
                run.state if run.being_written is None else f"{run.state}, soon {run.being_written}",
                run.deliveries,
                holder,
                NOBODY if run.lock_left_ms is None else f"{run.lock_left_ms / 1000:.1f} s",
            )
    show(table)
    if not table.rows:
        note("No record is in flight.")
    for place, position in stored.items():
        if place not in told.partitions:
            note(f"{place}: {_at_rest(position)}")
    for place, records in told.partitions.items():
        if more := records.run_count - len(records.runs):
            note(f"{place.topic}-{place.partition}: {counted(more, 'more run')} of records not shown.")
    for node_id, why in told.silent.items():
        note(f"Broker {node_id} did not report what it leads: {why}")


def _at_rest(position: SharePosition) -> str:
    """Of a partition of which no leader holds records: the last member has left, or its leader has moved since."""
    left = (
        "how many are not done is not known" if position.lag is None else f"{counted(position.lag, 'record')} not done"
    )
    return (
        f"its leader holds no records, because no member has fetched from it lately. Stored: first record not done "
        f"{position.start}, {left}. A record that a member held is given out again, with its count."
    )


def _offsets(run: RecordRun) -> str:
    return str(run.first) if run.first == run.last else f"{run.first} to {run.last}"


def _holder(member_id: str, clients: Mapping[str, str]) -> str:
    """A member that has left the group may hold records until its lock is over."""
    client_id = clients.get(member_id)
    return f"{member_id} (no longer a member)" if client_id is None else f"{client_id} ({member_id})"


def facts(told: InFlight) -> Sequence[Mapping[str, object]]:
    """The same for --json."""
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start": records.start,
            "end": records.end,
            "in_flight": records.in_flight,
            "run_count": records.run_count,
            "runs": [run._asdict() for run in records.runs],
        }
        for place, records in told.partitions.items()
    ]
