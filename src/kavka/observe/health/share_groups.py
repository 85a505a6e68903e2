"""The checks of share groups: they get on, give nothing up, and what they give up has its dead letter.

Decides weights, evidence and advice of these; thresholds are findings.py's. Pure, as checks.py says.

Source: KIP-932 (delivery count limit), KIP-1191 (dead letters).
"""

from __future__ import annotations

from kavka.model import TopicPartition
from kavka.observe.health.findings import Look, Thresholds, for_how_long, of_part
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, GroupView, Part

WARNING = Severity.WARNING


def share_groups_still(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "share-groups-still",
        "No share group stands still at a record",
        4,
        WARNING,
        Statement(
            "its first record that is not done is another one after {minutes:.0f} min",
            {"minutes": limits.share_still_ms / 60_000},
        ),
        "A member may renew its lock forever, or nobody may take the record. `kavka groups describe GROUP --in-flight` "
        "shows who holds it, `kavka consume TOPIC -p PARTITION -o OFFSET -c 1` what is in it, and `kavka why "
        "TOPIC-PARTITION` why it came back.",
    )
    look = Look()
    for group in snapshot.groups.values():
        if not group.is_share:
            continue
        look.looked_at += 1
        for offset in group.offsets:
            since = offset.still_since_ms
            if since is None or now_ms - since <= limits.share_still_ms or offset.committed is None:
                continue
            look.found(
                "group",
                group.group_id,
                "{partition} at {offset} is not done{since}: {state}, lag {lag}",
                partition=str(offset.partition),
                offset=offset.committed,
                since=for_how_long(since, now_ms),
                state=_state(group, offset.partition),
                lag=f"{offset.lag or 0:,}",
            )
    return of_part(snapshot, Part.GROUPS, check, look, "share groups checked: {count}")


def _state(group: GroupView, partition: TopicPartition) -> Statement:
    """What is known of the partition's first record that is not done."""
    records = None if group.records is None else group.records.get(partition)
    if records is None or not records.runs:
        return Statement("nobody has it")
    first = records.runs[0]
    if first.member_id is not None:
        values = {"member": first.member_id, "count": first.deliveries}
        return Statement("member {member} holds it, deliveries: {count}", values)
    return Statement("nobody holds it, deliveries: {count}", {"count": first.deliveries})


def share_records_given_up(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "share-records-given-up",
        "Share groups give no records up",
        3,
        WARNING,
        Statement("none in the last hour was delivered as often as share.delivery.count.limit says"),
        "Members fail on these records, or hold them longer than their locks. `kavka why TOPIC-PARTITION` says which, "
        "and `kavka consume TOPIC -p PARTITION -o OFFSET -c 1` shows one. With errors.deadletterqueue.topic.name the "
        "group keeps a copy of them.",
    )
    look = Look()
    for each in snapshot.given_up:
        look.looked_at += 1
        if each.at_limit:
            text = "records of {partition} within the last hour: {count}, the last at offset {offset}"
            values = {"count": f"{each.at_limit:,}", "partition": str(each.partition), "offset": each.last_offset}
            look.found("group", each.group_id, text, **values)
    return of_part(snapshot, Part.DECISIONS, check, look, "partitions with records that were given up: {count}")


def dead_letters(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "dead-letters",
        "Dead letters of share groups are written",
        6,
        WARNING,
        Statement("none was refused in the last hour"),
        "The records are archived without a copy, and stay in their topic until retention deletes them. `kavka why "
        "TOPIC-PARTITION` names the reason for each; docs/groups.md has what a topic of dead letters needs.",
    )
    look = Look()
    for each in snapshot.given_up:
        look.looked_at += 1
        if each.without_letter:
            text = "records of {partition} within the last hour: {count}, because of: {problem}"
            values = {"count": f"{each.without_letter:,}", "partition": str(each.partition), "problem": each.problem}
            look.found("group", each.group_id, text, **values)
    return of_part(snapshot, Part.DECISIONS, check, look, "partitions with records that were given up: {count}")
