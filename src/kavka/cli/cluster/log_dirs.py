"""`kavka log-dirs`: the log directories of the brokers, what lies in them, and moves between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, Table, done, plain_words, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import LogDirectory
    from kavka.client.cluster import Cluster
    from kavka.errors import RequestError
    from kavka.model import TopicPartition

app = CommandLine()


Topics = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Show each replica of these topics.")]
Move = Annotated[
    list[str] | None,
    typer.Option("--move", metavar="PARTITION", help="A replica to move, such as orders-3, on --broker."),
]


@app.command("log-dirs")
def log_dirs(
    topics: Topics = None,
    broker: Annotated[int | None, typer.Option("--broker", min=0, metavar="ID", help="Only this broker.")] = None,
    move: Move = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="DIRECTORY", help="The log directory to move it to.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show log directories; move replicas between them.

    [bold]Examples[/bold]

    kavka log-dirs

    kavka log-dirs orders --broker 1

    kavka log-dirs --move orders-3 --broker 1 --to /data/kafka-2
    """
    if move:
        _move(bootstrap, move, broker=broker, directory=to, as_json=as_json)
        return
    if to is not None:
        usage("--to needs --move", "for example kavka log-dirs --move orders-3 --broker 1 --to /data/kafka-2")
    topics = topics or []

    found = _read(bootstrap, topics, broker)
    if as_json:
        show_json([_summary(node, directory, topics) for node, listed in found.items() for directory in listed])
        return
    show(_replicas(found, topics) if topics else _directories(found))


def _replicas(found: Mapping[int, Sequence[LogDirectory]], topics: Collection[str]) -> Table:
    """Where the replicas of these topics are."""
    table = Table(["partition", "broker", "directory", "size", "lag", "state"], ["broker", "size", "lag"])
    rows = [
        (replica.partition, node, directory.path, replica.size_bytes, replica.offset_lag, replica.is_future)
        for node, listed in found.items()
        for directory in listed
        for replica in directory.replicas
        if replica.partition.topic in topics
    ]
    for partition, node, path, size, lag, is_future in sorted(rows):
        table.add(partition, node, path, _bytes(size), lag, "on its way" if is_future else "")
    return table


def _directories(found: Mapping[int, Sequence[LogDirectory]]) -> Table:
    """How full the directories are, and which ones take no more replicas."""
    numbers = ["broker", "replicas", "size", "usable", "total"]
    table = Table(["broker", "directory", "replicas", "size", "usable", "total", "state"], numbers)
    for node, listed in found.items():
        for directory in listed:
            size = sum(replica.size_bytes for replica in directory.replicas)
            healthy = "cordoned" if directory.is_cordoned else ""
            state = directory.error.name if directory.error else healthy
            usable, total = _bytes(directory.usable_bytes), _bytes(directory.total_bytes)
            table.add(node, directory.path, len(directory.replicas), _bytes(size), usable, total, state)
    return table


def _read(bootstrap: str | None, topics: Sequence[str], broker: int | None) -> dict[int, list[LogDirectory]]:
    """The log directories of each broker, or of one. Raises Failure where there is no such broker or topic."""

    async def work(cluster: Cluster) -> dict[int, list[LogDirectory]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        found = await admin.describe_log_dirs(None if broker is None else [broker])
        held = {replica.partition.topic for listed in found.values() for each in listed for replica in each.replicas}
        if elsewhere := [name for name in topics if name not in held]:
            await admin.describe_topics(elsewhere)  # Raises RequestError for one that there is not.
        return found

    return with_cluster(bootstrap, work)


_AFTER_REFUSAL: Final = {
    "LOG_DIR_NOT_FOUND": "`kavka log-dirs` shows the directories of each broker",
    "INVALID_REPLICA_ASSIGNMENT": "the directory is cordoned (cordoned.log.dirs): choose another one",
    "REPLICA_NOT_AVAILABLE": "the broker has no such replica, and will put one into that directory if it gets one; "
    "`kavka topics describe` shows which brokers have replicas",
    "KAFKA_STORAGE_ERROR": "the directory is offline: repair its disk and restart the broker",
}
"""The next step by the broker's error."""


def _move(
    bootstrap: str | None, partitions: Sequence[str], *, broker: int | None, directory: str | None, as_json: bool
) -> None:
    """Has a broker move replicas to another of its log directories. Raises Failure where one is refused."""
    if broker is None or directory is None:
        usage(
            "--move needs --broker and --to", "for example kavka log-dirs --move orders-3 --broker 1 --to /data/kafka-2"
        )
    target = directory
    wanted = [_partition(text) for text in partitions]

    async def work(cluster: Cluster) -> dict[TopicPartition, RequestError]:
        from kavka.client.admin import Admin

        await cluster.refresh([])
        return await Admin(cluster).move_replicas(broker, dict.fromkeys(wanted, target))

    for partition, error in with_cluster(bootstrap, work).items():
        step = _AFTER_REFUSAL.get(error.code.name, "`kavka topics describe` shows which brokers have replicas")
        raise Failure(f"{partition}: {plain_words(error.code.name)}", step)
    text = "\n".join(f"{partition} is on its way to {target}." for partition in wanted)
    facts = {"broker": broker, "directory": target, "partitions": list(map(str, wanted))}
    done(text, facts, as_json=as_json)


def _summary(node: int, directory: LogDirectory, topics: Collection[str]) -> dict[str, object]:
    return {
        "broker": node,
        "directory": directory.path,
        "error": directory.error.name if directory.error else None,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "cordoned": directory.is_cordoned,
        "replicas": [
            {
                "topic": replica.partition.topic,
                "partition": replica.partition.partition,
                "size_bytes": replica.size_bytes,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
            }
            for replica in directory.replicas
            if not topics or replica.partition.topic in topics
        ],
    }


def _partition(text: str) -> TopicPartition:
    from kavka.model import TopicPartition

    topic, separator, number = text.rpartition("-")
    if not separator or not topic or not number.isdecimal():
        usage(f"--move {text}: not a partition", "for example --move orders-3")
    return TopicPartition(topic, int(number))


def _bytes(size: int) -> str:
    """A size for people; nothing where the broker does not tell."""
    if size < 0:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} TB"
