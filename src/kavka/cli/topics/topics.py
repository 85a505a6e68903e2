"""`kavka topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.cluster.configs import require_known
from kavka.cli.help import CommandLine
from kavka.cli.missing_names import require_topics
from kavka.cli.options import Bootstrap, BootstrapHabit, DryRun, Json, ListHabit, TopicHabit
from kavka.cli.output import Failure, Table, confirm, counted, done, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import Admin, ConfigEntry
    from kavka.client.cluster import Cluster, TopicMetadata
    from kavka.errors import RequestError
    from kavka.model import TopicPartition

app = CommandLine(name="topics", help="Create, list, describe, alter and delete topics.")

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", "--config", metavar="NAME=VALUE", help="A setting of the topic; repeatable."),
]
BROKERS_CHOICE = -1
"""As a number of partitions or replicas: the broker's default."""


@app.callback(invoke_without_command=True)
def topics(context: typer.Context, wants_list: ListHabit = False, bootstrap: BootstrapHabit = None) -> None:
    """Create, list, describe, alter and delete topics."""
    if wants_list:
        list_topics(bootstrap=bootstrap)
    elif context.invoked_subcommand is None:
        usage("topics: no command is named", "`kavka topics --help` shows commands")


@app.command("create")
def create(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME*", help="Topics to create.")] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", show_default="the broker's num.partitions", help="Partitions."
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            "-r",
            "--replication-factor",
            min=1,
            metavar="N",
            show_default="the broker's default.replication.factor",
            help="Replicas of each partition.",
        ),
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is not an error.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Create topics.

    [bold]Example[/bold]

    kavka topics create orders payments -p 6 --set retention.ms=86400000 --set cleanup.policy=compact
    """
    names = _named(names, topic, "create")
    configs = _assignments(settings)

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin, NewTopic

        topics = [NewTopic(name, partitions or BROKERS_CHOICE, replicas or BROKERS_CHOICE, configs) for name in names]
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


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", "-a", help="Include internal topics.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List topics with their partitions and replicas.

    [bold]Examples[/bold]

    kavka topics list

    kavka topics list --internal --json
    """

    async def work(cluster: Cluster) -> list[TopicMetadata]:
        from kavka.client.admin import Admin

        return await Admin(cluster).list_topics(include_internal=internal)

    _show_topics(with_cluster(bootstrap, work), as_json=as_json)


def _show_topics(topics: Sequence[TopicMetadata], *, as_json: bool) -> None:
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


@app.command("describe")
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Topics; all by default.")] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Show partitions with leaders, replicas and offsets, and the settings that a topic overrides.

    [bold]Examples[/bold]

    kavka topics describe

    kavka topics describe orders --json
    """
    wanted = [*(names or []), *(topic or [])]

    async def work(cluster: Cluster) -> list[tuple[TopicMetadata, dict[str, str], Offsets]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        topics = await (admin.describe_topics(wanted) if wanted else admin.list_topics())
        return [(topic, await _overrides(admin, topic.name), await _offsets(cluster, topic)) for topic in topics]

    described = with_cluster(bootstrap, work)
    if as_json:
        show_json([_description(*each) for each in described])
        return
    for number, each in enumerate(described):
        if number:
            print()
        _show_topic(*each)


@app.command("alter")
def alter(
    name: Annotated[str | None, typer.Argument(metavar="NAME*", help="The topic.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, metavar="N", help="Raise the number of partitions to N.")
    ] = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove a setting: the broker's value applies.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Add partitions to a topic, or change its settings.

    [bold]Example[/bold]

    kavka topics alter orders -p 12 --set retention.ms=3600000 --unset cleanup.policy
    """
    named = _named([name] if name is not None else [], topic, "alter")
    if len(named) > 1:
        usage(f"alter one topic at a time, not {', '.join(named)}")
    name, changed, unset = named[0], _assignments(settings), unset or []
    if partitions is None and not changed and not unset:
        usage("no change is given", "give --partitions N, --set name=value or --unset name")

    async def work(cluster: Cluster) -> None:
        from kavka.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ResourceType

        admin = Admin(cluster)
        changes = [ConfigChange(each, value) for each, value in changed.items()]
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
    facts = {"topic": name, "partitions": partitions, "set": changed, "unset": list(unset)}
    done(f"Topic {name} altered.", facts, as_json=as_json)


@app.command("delete")
def delete(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME*", help="Topics to delete with all their records.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing topic is not an error.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Delete topics with all their records.

    [bold]Examples[/bold]

    kavka topics delete orders

    kavka topics delete orders payments --if-exists --yes
    """
    names = _named(names, topic, "delete")
    if not yes and not if_exists:
        require_topics(bootstrap, names)
    confirm(f"delete {counted(len(names), 'topic')} with all records: {', '.join(names)}", yes=yes)

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin

        return await Admin(cluster).delete_topics(names)

    failures = with_cluster(bootstrap, work)
    unknown = [name for name, error in failures.items() if error.code.name == "UNKNOWN_TOPIC_OR_PARTITION"]
    missing = unknown if if_exists else []
    gone = [name for name in names if name not in failures]
    if as_json:
        show_json({"deleted": gone, "missing": missing, **_failed(failures, missing)})
    else:
        for name in gone:
            print(f"Topic {name} deleted.")
        for name in missing:
            print(f"Topic {name} was not there.")
    if not if_exists:
        require_topics(bootstrap, unknown)
    _raise_first({name: error for name, error in failures.items() if name not in missing})


def _named(names: Sequence[str] | None, habit: Sequence[str] | None, what: str) -> list[str]:
    """Topics, as arguments or as Kafka's tools take them."""
    named = [*(names or []), *(habit or [])]
    if not named:
        usage("no topic is named", f"for example kavka topics {what} orders")
    return named


def _assignments(texts: Sequence[str] | None) -> dict[str, str]:
    from kavka.config.properties import parse_assignments
    from kavka.errors import ConfigError

    try:
        return parse_assignments(texts or [])
    except ConfigError as problem:
        usage(f"--set: {problem}", "for example --set retention.ms=3600000")


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
        named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", failure.problem)
        problem = failure.problem if named else f"topic {name}: {failure.problem}"
        raise Failure(problem, failure.next_step)
