"""What a test asks of the groups of its cluster, and does to them: by kavka's own client, or of the leading broker.

Decides when a group is where a test wants it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kavka.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ResourceType
from kavka.client.cluster import Cluster
from kavka.client.group_admin import GroupAdmin, ShownGroup
from kavka.client.login import ClientLogin
from kavka.share.decide.in_flight import InFlight, look
from kavka.testing.topics import as_client

if TYPE_CHECKING:
    from kavka.runtime.server import Server

MOST_RUNS = 100_000
"""Of one partition: more than it can have."""
_T = TypeVar("_T")


def configure(login: ClientLogin, group_id: str, settings: Mapping[str, str]) -> None:
    """Changes settings of a group. Raises KavkaError."""
    resource = ConfigResource(ResourceType.GROUP, group_id)
    changes = [ConfigChange(name, value, ConfigOperation.SET) for name, value in settings.items()]

    async def change(client: Cluster) -> None:
        for failure in (await Admin(client).alter_configs({resource: changes})).values():
            raise failure

    as_client(login, change)


def describe(login: ClientLogin, group_id: str) -> ShownGroup:
    """A group of any kind. Raises KavkaError."""
    return _asked(login, lambda client: GroupAdmin(client).describe(group_id))


def _asked(login: ClientLogin, question: Callable[[Cluster], Awaitable[_T]]) -> _T:
    answers: list[_T] = []

    async def ask(client: Cluster) -> None:
        answers.append(await question(client))

    as_client(login, ask)
    return answers[0]


def missing(group: ShownGroup, members: int | None, state: str) -> str:
    """What a group lacks that a test waits for; "" where it lacks nothing."""
    if group.state != state:
        return f"group {group.group_id} is {group.state}"
    if members is not None and len(group.members) != members:
        found = "1 member" if len(group.members) == 1 else f"{len(group.members)} members"
        return f"group {group.group_id} has {found}"
    return ""


def share_records(server: Server, group_id: str, topic: str, partition: int) -> InFlight | None:
    """Asked on the loop of the partition's leader: the records of a share group; None where no member has fetched."""
    leaders = server.broker.share.leaders
    for led in leaders.led_for(group_id):
        if led.hosted.topic_partition == (topic, partition):
            return look(led.records, leaders.now_ms(), MOST_RUNS)
    return None


def expire_locks(server: Server, group_id: str) -> int:
    """On a broker's loop: ends all locks of a share group's members there. Returns of how many records."""
    return server.broker.share.leaders.expire_locks(group_id)
