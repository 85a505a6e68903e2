"""The names of partitions' directories, and what they say.

| TOPIC-PARTITION               | the log of this partition                                               |
| TOPIC-PARTITION.UUID-delete   | a log whose files go when their delay is over                           |
| TOPIC-PARTITION.UUID-future   | a copy of a log that moves to this log directory                        |
| TOPIC-PARTITION.UUID-stray    | a log of no topic, which made way for another one of its name           |

A topic's name may begin with a dot, as a hidden directory's does: `.audit-0` is the log of a partition.

Source: Kafka's UnifiedLog.parseTopicPartitionName, logDeleteDirName, logFutureDirName and logStrayDirName.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kavka.model import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
MOVED_MARK = ".kavka-moved"
"""In a partition's directory: a log of this partition in another log directory is the former one."""
MAX_NAME_LENGTH = 255
_FUTURE = re.compile(r"(.+)-([0-9]+)\.[^.]+-future")
_DELETED = re.compile(r".+-[0-9]+\.[^.]+-delete")


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log is in the directory `name`. None for other kinds of files and directories."""
    topic, _, partition = name.rpartition("-")
    if not topic or not partition.isascii() or not partition.isdigit():
        return None
    return TopicPartition(topic, int(partition))


def parse_future_name(name: str) -> TopicPartition | None:
    """The partition whose moving copy is in the directory `name`. None for any other name."""
    copied = _FUTURE.fullmatch(name)
    return None if copied is None else TopicPartition(copied[1], int(copied[2]))


def is_deleted_name(name: str) -> bool:
    """Whether a directory called `name` is that of a deleted partition: somebody else may have named one so, nearly."""
    return _DELETED.fullmatch(name) is not None


def unique_name(partition: TopicPartition, ending: str, draw: Callable[[int], int]) -> str:
    """A name that no other directory has; `draw(limit)` draws from [0, limit)."""
    unique = f"{draw(1 << 64):016x}{draw(1 << 64):016x}"
    suffix = f"-{partition.partition}.{unique}{ending}"
    return f"{partition.topic[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"


def may_be_moved(partition: TopicPartition) -> bool:
    """Whether the name of its copy in another log directory says all of the partition's name. One that was cut short
    would be a stray after a restart."""
    return len(partition.topic) + len(f"-{partition.partition}.{0:032x}{FUTURE_SUFFIX}") <= MAX_NAME_LENGTH
