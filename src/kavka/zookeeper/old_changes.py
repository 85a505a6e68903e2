"""OldChanges: deletes change nodes that are old, beside what else a broker does.

Decides which change nodes are old. It must not know what they are about. Whoever changed something begins this and is
answered without it: what is written is written, and there may be thousands of change nodes to delete, on a ZooKeeper
that is slow.

    I1  the oldest go first, and nothing is looked at beyond the first that stays
    I2  a failure of ZooKeeper is no failure of the change: the next one tidies

Source: Kafka's ZkNodeChangeNotificationListener.purgeObsoleteNotifications.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from kavka.errors import ZooKeeperError
from kavka.logger import Logger
from kavka.zookeeper.port import ANY_VERSION, NoNode, ZooKeeper
from kavka.zookeeper.znodes import MalformedZNode, sequence_number

logger = Logger(__name__)

CHANGE_RETENTION_MS: Final = 15 * 60 * 1000
"""How long change nodes stay, as in Kafka: a broker that was away for longer reads everything anew."""
PURGE_INTERVAL_MS: Final = 60_000
"""How often a broker looks for change nodes that are old, when it changes something."""


class OldChanges:
    """Those under `parents`. `spawn` runs a task that ends with the broker."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        parents: Sequence[str],
        *,
        wall_ms: Callable[[], int],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._parents = parents
        self._wall_ms = wall_ms
        self._spawn = spawn
        self._begun_at_ms = -PURGE_INTERVAL_MS

    def begin(self) -> None:
        """Begins to delete those that are old, if that was not begun within the last minute."""
        now_ms = self._wall_ms()
        if 0 <= now_ms - self._begun_at_ms < PURGE_INTERVAL_MS:
            return
        self._begun_at_ms = now_ms
        self._spawn(self._delete(now_ms))

    async def _delete(self, now_ms: int) -> None:
        try:
            for parent in self._parents:
                await delete_old(self._zookeeper, parent, now_ms)
        except ZooKeeperError as failure:
            logger.warning("old change nodes stay", under=", ".join(self._parents), why=str(failure))


async def delete_old(zookeeper: ZooKeeper, parent: str, now_ms: int) -> int:
    """Deletes the change nodes under a parent that are older than CHANGE_RETENTION_MS (I1); returns how many. Raises
    ZooKeeperError."""
    deleted = 0
    for name in sorted(await zookeeper.children(parent), key=_age_order):
        path = f"{parent}/{name}"
        stat = await zookeeper.exists(path)
        if stat is None:
            continue  # Another broker was faster.
        if stat.ctime + CHANGE_RETENTION_MS < now_ms:
            try:
                await zookeeper.delete(path, version=ANY_VERSION)
            except NoNode:
                continue
            deleted += 1
        elif _age_order(name) >= 0:
            break
    return deleted


def _age_order(name: str) -> int:
    """Its number, which is higher for younger ones; -1 without one: somebody else made it, who knows when."""
    try:
        return sequence_number(name)
    except MalformedZNode:
        return -1
