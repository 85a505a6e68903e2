"""Topics and groups that are not there: said before anybody is asked to confirm, with the name that was probably meant.

Decides what is said of a name that the cluster does not know. Must not know what a command does with those it knows.

    I1  where the cluster does not say what there is, nothing is said here: the command goes on, and fails by itself
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kavka.cli.output import INTERRUPTED, Failure
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.errors import RequestError

LISTED_TOPICS: Final = "`kavka topics list`"
LISTED_GROUPS: Final = "`kavka groups list`"
LOOK_S: Final = 2.0
"""How long a command that has failed looks for the name that was meant."""


def require_topics(bootstrap: str | None, names: Sequence[str]) -> None:
    """Raises Failure for topics that are not there."""

    async def look(cluster: Cluster) -> tuple[list[str], list[str]]:
        missing = [name for name in names if not await _is_topic(cluster, name)]
        return missing, await _topics(cluster) if missing else []

    if names:
        _require(bootstrap, look, "topic", LISTED_TOPICS)


def require_groups(bootstrap: str | None, names: Sequence[str]) -> None:
    """Raises Failure for groups that are not there."""

    async def look(cluster: Cluster) -> tuple[list[str], list[str]]:
        from kavka.client.group_admin import GroupAdmin

        known = [group.group_id for group in await GroupAdmin(cluster).list_groups()]
        return [name for name in names if name not in known], known

    if names:
        _require(bootstrap, look, "group", LISTED_GROUPS)


def _require(
    bootstrap: str | None, look: Callable[[Cluster], Awaitable[tuple[list[str], list[str]]]], what: str, listed: str
) -> None:
    try:
        missing, known = with_cluster(bootstrap, look)
    except Failure as unknown:
        if unknown.status == INTERRUPTED:
            raise
        return
    if missing:
        raise Failure(f"there is no {what} {', '.join(missing)}", next_step(missing[0], known, listed))


def next_step(name: str, known: Iterable[str], listed: str) -> str:
    """For a name that is not there; `listed` is the command that shows all."""
    from kavka.config.similar import similar_name

    close = similar_name(name, known)
    return f"did you mean {close}? {listed} shows all" if close else f"{listed} shows all"


async def topic_meant(cluster: Cluster, refused: RequestError) -> str | None:
    """The topic that was probably meant, where the refusal is that a topic is not there; None where none is like it."""
    import asyncio

    from kavka.config.similar import similar_name
    from kavka.errors import ErrorCode, KavkaError

    name = missing_topic(str(refused)) if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
    if name is None:
        return None
    try:
        async with asyncio.timeout(LOOK_S):
            return similar_name(name, await _topics(cluster))
    except (KavkaError, TimeoutError):
        return None


def missing_topic(problem: str) -> str | None:
    """The topic that the problem says is not there."""
    found = re.search(r"(?:topic|configuration of) '([^']+)'(?! has partitions)", problem)
    return None if found is None else found[1]


async def _is_topic(cluster: Cluster, name: str) -> bool:
    """Asks again for a moment: brokers learn of a topic that was just made one after another."""
    from kavka.client.admin import Admin
    from kavka.errors import ErrorCode, RequestError

    try:
        await Admin(cluster).describe_topics([name])
    except RequestError as refused:
        if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise
    return True


async def _topics(cluster: Cluster) -> list[str]:
    from kavka.client.admin import Admin

    return [topic.name for topic in await Admin(cluster).list_topics(include_internal=True)]
