"""The nodes that every cluster has, made where they are missing.

A flow on the port. Several brokers may make the same nodes at once, and ZooKeeper may be silent meanwhile: what was
written is looked at, and what is missing is made again.

Source: Kafka's KafkaZkClient.makeSurePersistentPathExists and createAclPaths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.errors import ZooKeeperError
from kavka.zookeeper.port import Create, NodeExists, OutcomeUnknown, Stat, ZooKeeper
from kavka.zookeeper.znode_paths import PERSISTENT_PATHS

MAX_ATTEMPTS: Final = 10
"""Tries of a write whose outcome stays unknown. Before each of them ZooKeeper has answered."""


async def make_persistent_paths(zookeeper: ZooKeeper, paths: Sequence[str] = PERSISTENT_PATHS) -> dict[str, Stat]:
    """Makes those of the nodes that are missing, parents first as they are listed. Returns the stat of each, by path.
    Raises ZooKeeperError."""
    for _attempt in range(MAX_ATTEMPTS):
        found = await zookeeper.get_many(paths)
        missing = [path for path, node in zip(paths, found, strict=True) if node is None]
        if not missing:
            return {path: node[1] for path, node in zip(paths, found, strict=True) if node is not None}
        try:
            # One write for all of them: each would be synced to the disk for itself.
            await zookeeper.multi([Create(path) for path in missing])
        except (NodeExists, OutcomeUnknown):
            continue  # another broker made some of them meanwhile, or it is not known: look again
    raise ZooKeeperError(f"{', '.join(missing)}: not made in {MAX_ATTEMPTS} attempts: ZooKeeper does not answer")
