"""Log homes: where this broker had its logs before, and whether it may begin on the directories that it has now.

A broker whose log.dirs names other directories than before starts with empty logs. If it was in sync, others count on
records that it does not have: with one replica they are gone, and with several they are gone if it is elected before it
has copied them. This is mostly a mistake: a relative path was used in another working directory, or a disk was not
mounted. So each broker saves where its logs are. One that would start without them refuses, and says where they are.

    /kavka_log_directories/ID    the directories that broker ID had when it last started, as absolute paths

| log.dirs now                                          | then                                                     |
|-------------------------------------------------------|----------------------------------------------------------|
| names all former directories, perhaps more            | start; one of them may be empty, as after a lost disk    |
| names none of them, and only new ones                 | refuse, if partitions are assigned to this broker        |
| leaves one out that is there and has logs which no    | refuse                                                   |
| directory of log.dirs has                             |                                                          |
| leaves one out, all the same                          | start: its logs were moved, or its disk is lost          |
| kavka.abandoned.log.dirs names what is left out       | start                                                    |

A new directory is one without meta.properties: a copy or a moved directory has it, and its logs with it.

I1  Nothing in a directory is changed here, and none is made.
I2  Only a registered broker saves its directories: no other one has its id.

Apache Kafka starts in all of these cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kavka.broker.membership.adoption import Claims
from kavka.config.broker import BrokerConfig
from kavka.errors import LogsElsewhere, StorageError
from kavka.filesystem import FileSystem
from kavka.log.decide.checkpoint import META_PROPERTIES, MalformedCheckpoint, parse_meta_properties
from kavka.log.decide.directory_names import parse_directory_name
from kavka.model import TopicPartition
from kavka.zookeeper.port import NodeExists, NoNode, OutcomeUnknown, ZooKeeper
from kavka.zookeeper.znode_paths import LOG_DIRECTORIES_PATH, broker_path
from kavka.zookeeper.znodes import LogDirectories, MalformedZNode

MAX_ATTEMPTS: Final = 10
"""Tries of a write whose outcome stays unknown."""


async def require_logs_here(
    zookeeper: ZooKeeper, filesystem: FileSystem, config: BrokerConfig, *, broker_id: int, claims: Claims
) -> tuple[str, ...]:
    """The directories that are written down. Raises LogsElsewhere if the broker must not begin on those that it has
    now, and ZooKeeperError."""
    former = await former_directories(zookeeper, broker_id)
    try:
        require_logs(
            filesystem,
            broker_id=broker_id,
            former=former,
            present=config.log_directories,
            abandoned=config.abandoned_log_directories,
            claims=claims,
        )
    except LogsElsewhere as refused:
        if await zookeeper.exists(broker_path(broker_id)) is None:
            raise
        raise LogsElsewhere(
            refused.path,
            f"{refused.message}. A broker with id {broker_id} is registered: if another one is alive, give this one a "
            "broker.id of its own",
        ) from refused
    return former


async def former_directories(zookeeper: ZooKeeper, broker_id: int) -> tuple[str, ...]:
    """Where the broker had its logs; empty if nothing is saved, or nothing that can be read.

    Raises ZooKeeperError.
    """
    try:
        data, _stat = await zookeeper.get(LogDirectories.path(broker_id))
        return LogDirectories.decode(broker_id, data).directories
    except (NoNode, MalformedZNode):
        return ()


async def remember_directories(zookeeper: ZooKeeper, broker_id: int, directories: Sequence[str]) -> None:
    """Writes down where the broker has its logs. Raises ZooKeeperError."""
    path, data = LogDirectories.path(broker_id), LogDirectories(tuple(directories)).encode()
    for attempt in range(MAX_ATTEMPTS):
        try:
            await zookeeper.set(path, data)
            return
        except NoNode:
            pass
        except OutcomeUnknown:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
        for missing, content in ((LOG_DIRECTORIES_PATH, b""), (path, data)):
            try:
                await zookeeper.create(missing, content)
            except (NodeExists, OutcomeUnknown):
                continue  # The next attempt sees what became of it.


def require_logs(
    filesystem: FileSystem,
    *,
    broker_id: int,
    former: Sequence[str],
    present: Sequence[str],
    abandoned: Collection[str],
    claims: Claims,
) -> None:
    """Raises LogsElsewhere if this broker would begin without logs that it has (see the module's table)."""
    left_out = [directory for directory in former if directory not in present and directory not in abandoned]
    if not left_out or not claims.any_here():
        return
    log_dirs = ",".join(present)
    if all(_owner(filesystem, directory) is None for directory in present):
        raise LogsElsewhere(
            ",".join(left_out),
            f"broker {broker_id} has its logs in {', '.join(left_out)}, and log.dirs={log_dirs} is new: "
            "the broker would start without its records",
        )
    here = set(_logs(filesystem, present, claims))
    for directory in left_out:
        if _owner(filesystem, directory) != broker_id:
            continue
        missing = [log for log in _logs(filesystem, [directory], claims) if log not in here]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise LogsElsewhere(
                directory,
                f"broker {broker_id} has its log of {missing[0]}{more} in {directory}, which log.dirs={log_dirs} "
                "leaves out: the broker would start without these records",
            )


def _owner(filesystem: FileSystem, directory: str) -> int | None:
    """The broker that meta.properties names; -1 where it names none that can be read, None if there is no file."""
    try:
        found = parse_meta_properties(filesystem.read(f"{directory}/{META_PROPERTIES}"))
    except FileNotFoundError:
        return None
    except (StorageError, MalformedCheckpoint):
        return -1  # The start reports it.
    return -1 if found.broker_id is None else found.broker_id


def _logs(filesystem: FileSystem, directories: Iterable[str], claims: Claims) -> Iterable[TopicPartition]:
    """Partitions of this broker that have a log in one of the directories."""
    for directory in directories:
        try:
            names = filesystem.list_directories(directory)
        except (FileNotFoundError, StorageError):
            continue
        for name in names:
            partition = parse_directory_name(name)
            if partition is not None and claims.include(partition):
                yield partition
