"""The checks of topics' settings: what will lose records or refuse writes on the day a broker dies.

Decides weights, evidence and advice of these. Pure, as checks.py says.

Source: Kafka's documentation of replication and of unclean.leader.election.enable.
"""

from __future__ import annotations

from kavka.observe.health.findings import Look, Thresholds, of_part, result
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part

WARNING = Severity.WARNING


def single_replica(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "single-replica",
        "Topics have more than one replica",
        2,
        WARNING,
        Statement("replication factor of at least 2, where there are several brokers"),
        "Raise the replication factor (kavka reassign), unless losing the topic with a disk is acceptable.",
    )
    look = Look()
    if len(snapshot.brokers) < 2:
        return result(check, look, Statement("there is only one broker"))
    for topic in snapshot.topics.values():
        look.looked_at += 1
        if topic.replication_factor == 1:
            look.found(
                "topic",
                topic.name,
                "one replica: if its broker is lost, so is every partition of it ({count})",
                count=topic.partition_count,
            )
    return result(check, look, Statement("topics checked: {count}", {"count": look.looked_at}))


def min_isr_settings(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "min-isr-settings",
        "One broker can restart without refused writes",
        3,
        WARNING,
        Statement("min.insync.replicas below the replication factor"),
        "Lower min.insync.replicas or raise the replication factor: 2 of 3 is usual.",
    )
    look = Look()
    for topic in snapshot.topics.values():
        least = next((each.min_insync_replicas for each in topic.partitions), None)
        if least is None or topic.replication_factor < 2:
            continue
        look.looked_at += 1
        if least >= topic.replication_factor:
            text = "min.insync.replicas is {least}, of {replicas} replicas: with any of them down acks=all is refused"
            look.found("topic", topic.name, text, least=least, replicas=topic.replication_factor)
    return of_part(snapshot, Part.TOPIC_CONFIGS, check, look, "topics checked: {count}")


def unclean_elections(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "unclean-elections",
        "Unclean elections are not allowed",
        3,
        WARNING,
        Statement("unclean.leader.election.enable is false"),
        "Set unclean.leader.election.enable=false: otherwise a replica that lacks acknowledged records may become "
        "leader.",
    )
    look = Look()
    name = "unclean.leader.election.enable"
    for topic in snapshot.topics.values():
        if topic.configs is None:
            continue
        look.looked_at += 1
        if topic.configs.get(name) == "true":
            look.found("topic", topic.name, "it allows unclean elections")
    for broker in snapshot.alive_brokers:
        if broker.configs.get(name) == "true":
            look.looked_at += 1
            look.found("broker", str(broker.broker_id), "it allows unclean elections by default")
    return of_part(snapshot, Part.TOPIC_CONFIGS, check, look, "topics and brokers checked: {count}")
