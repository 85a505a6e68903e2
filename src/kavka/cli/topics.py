"""`kavka topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.cli.configs import require_known
from kavka.cli.output import Failure, Table, confirm, counted, done, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import Admin, ConfigEntry
    from kavka.client.cluster import Cluster, TopicMetadata
    from kavka.errors import RequestError
    from kavka.model import TopicPartition


def create(
    bootstrap: str | None,
    names: Sequence[str],
    *,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Creates topics; -1 leaves a number to the broker. Raises Failure where one of them could not be made."""

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin, NewTopic

        topics = [NewTopic(name, partitions, replicas, configs) for name in names]
        return await Admin(cluster).create_topics(topics, validate_only=dry_run)

    failures = with_cluster(bootstrap, work)
    existing = [name for name in failures if if_not_exists and failures[name].code.name == "TOPIC_ALREADY_EXISTS"]
    made = [name for name in names if name not in failures]
    what = "would be created" if dry_run else "created"
    if as_json:
        show_json({"created": made, "existing": existing, "dry_run": dry_run, **_failed(failures, existing)})
    else:
        for name in made:
            print(f"Topic {name} {what}.")
        for name in existing:
            print(f"Topic {name} is there already.")
    _raise_first({name: error for name, error in failures.items() if name not in existing})


def list_topics(bootstrap: str | None, *, internal: bool, as_json: bool) -> None:
    async def work(cluster: Cluster) -> list[TopicMetadata]:
        from kavka.client.admin import Admin

        return await Admin(cluster).list_topics(include_internal=internal)

    topics = with_cluster(bootstrap, work)
    if as_json:
        show_json([_summary(topic) for topic in topics])
        return
    if not topics:
        note("There are no topics yet: create one with `kavka topics create NAME`.")
        return
    table = Table(["topic", "partitions", "replicas"], ["partitions", "replicas"])
    for topic in topics:
        table.add(topic.name, len(topic.partitions), _replicas(topic))
    show(table)


def describe(bootstrap: str | None, names: Sequence[str], *, as_json: bool) -> None:
    """Partitions with leaders, replicas and offsets, and what the topics override."""

    async def work(cluster: Cluster) -> list[tuple[TopicMetadata, dict[str, str], Offsets]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        topics = await (admin.describe_topics(names) if names else admin.list_topics())
        return [(topic, await _overrides(admin, topic.name), await _offsets(cluster, topic)) for topic in topics]

    described = with_cluster(bootstrap, work)
    if as_json:
        show_json([_description(topic, overrides, offsets) for topic, overrides, offsets in described])
        return
    for number, (topic, overrides, offsets) in enumerate(described):
        if number:
            print()
        _show_topic(topic, overrides, offsets)


def alter(
    bootstrap: str | None,
    name: str,
    *,
    partitions: int | None,
    settings: Mapping[str, str],
    unset: Sequence[str],
    as_json: bool,
) -> None:
    """Adds partitions, and changes what the topic overrides."""
    if partitions is None and not settings and not unset:
        usage("nothing to alter", "give --partitions N, --set name=value or --unset name")

    async def work(cluster: Cluster) -> None:
        from kavka.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ResourceType

        admin = Admin(cluster)
        changes = [ConfigChange(each, value) for each, value in settings.items()]
        changes += [ConfigChange(each, None, ConfigOperation.DELETE) for each in unset]
        if changes:
            resource = ConfigResource(ResourceType.TOPIC, name)
            if unset:
                require_known(unset, (await admin.describe_configs([resource]))[resource])
            failures = await admin.alter_configs({resource: changes})
            for error in failures.values():
                raise error
        if partitions is not None:
            for error in (await admin.create_partitions({name: partitions})).values():
                raise error

    with_cluster(bootstrap, work)
    facts = {"topic": name, "partitions": partitions, "set": dict(settings), "unset": list(unset)}
    done(f"Topic {name} altered.", facts, as_json=as_json)


def delete(bootstrap: str | None, names: Sequence[str], *, yes: bool, if_exists: bool, as_json: bool) -> None:
    """Deletes topics with all their records; asks first on a terminal."""
    confirm(f"delete {counted(len(names), 'topic')} with all records: {', '.join(names)}", yes=yes)

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin

        return await Admin(cluster).delete_topics(names)

    failures = with_cluster(bootstrap, work)
    missing = [name for name in failures if if_exists and failures[name].code.name == "UNKNOWN_TOPIC_OR_PARTITION"]
    gone = [name for name in names if name not in failures]
    if as_json:
        show_json({"deleted": gone, "missing": missing, **_failed(failures, missing)})
    else:
        for name in gone:
            print(f"Topic {name} deleted.")
        for name in missing:
            print(f"Topic {name} was not there.")
    _raise_first({name: error for name, error in failures.items() if name not in missing})


Offsets = dict["TopicPartition", tuple[int, int]]
"""Of each partition that has a leader: the first offset and the one behind the last record."""


async def _overrides(admin: Admin, name: str) -> dict[str, str]:
    from kavka.client.admin import ConfigResource, ConfigSource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, name)
    entries: list[ConfigEntry] = (await admin.describe_configs([resource]))[resource]
    return {entry.name: entry.value or "" for entry in entries if entry.source is ConfigSource.TOPIC}


async def _offsets(cluster: Cluster, topic: TopicMetadata) -> Offsets:
    from kavka.client.offsets import earliest_offsets, latest_offsets
    from kavka.model import TopicPartition

    led = [TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader >= 0]
    first = await earliest_offsets(cluster, led)
    end = await latest_offsets(cluster, led)
    return {partition: (first[partition], end[partition]) for partition in led}


def _show_topic(topic: TopicMetadata, overrides: Mapping[str, str], offsets: Offsets) -> None:
    from kavka.model import TopicPartition

    records = sum(end - first for first, end in offsets.values())
    counts = (len(topic.partitions), "partition"), (_replicas(topic), "replica"), (records, "offset")
    amounts = ", ".join(f"{number:,} {what}{'' if number == 1 else 's'}" for number, what in counts)
    title = f"{topic.name}: {amounts} in use"
    columns = ["partition", "leader", "preferred", "epoch", "replicas", "in sync", "out of sync"]
    columns += ["first offset", "end offset"]
    numbers = ["partition", "leader", "preferred", "epoch", "first offset", "end offset"]
    table = Table(columns, numbers, title=title)
    for each in topic.partitions:
        first, end = offsets.get(TopicPartition(topic.name, each.partition), (None, None))
        leader = each.leader if each.leader >= 0 else "none"
        out_of_sync = _ids([replica for replica in each.replicas if replica not in each.in_sync_replicas])
        preferred = each.replicas[0] if each.replicas else None
        cells = [each.partition, leader, preferred, each.leader_epoch, _ids(each.replicas)]
        table.add(*cells, _ids(each.in_sync_replicas), out_of_sync, first, end)
    show(table)
    for name, value in overrides.items():
        print(f"{name}={value}")


def _summary(topic: TopicMetadata) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": _replicas(topic),
    }


def _description(topic: TopicMetadata, overrides: Mapping[str, str], offsets: Offsets) -> dict[str, object]:
    from kavka.model import TopicPartition

    partitions = []
    for each in topic.partitions:
        first, end = offsets.get(TopicPartition(topic.name, each.partition), (None, None))
        partitions.append(
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "in_sync_replicas": list(each.in_sync_replicas),
                "first_offset": first,
                "end_offset": end,
            }
        )
    return {**_summary(topic), "partitions": partitions, "configs": dict(overrides)}


def _replicas(topic: TopicMetadata) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _failed(failures: Mapping[str, RequestError], forgiven: Sequence[str]) -> dict[str, object]:
    failed = {name: error.message for name, error in failures.items() if name not in forgiven}
    return {"failed": failed} if failed else {}


def _raise_first(failures: Mapping[str, RequestError]) -> None:
    """Raises the failure of the first topic; the client's own error tells `with_cluster` what to say next."""
    from kavka.cli.output import explain

    for name, error in failures.items():
        failure = explain(error, "")
        problem = failure.problem if name in failure.problem else f"topic {name}: {failure.problem}"
        raise Failure(problem, failure.next_step)
