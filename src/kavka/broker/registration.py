"""Registration: the cluster's id, and this broker's ephemeral znode, by which the others know that it lives.

Flows on the ZooKeeper port only. A write whose outcome is unknown is read back before anything else is done.

    I1  a cluster has one id, whoever writes it first
    I2  two live brokers never have one id: the znode of another session is waited for (its session may be about to
        end), and then refused

Source: Kafka's KafkaZkClient.registerBroker and createOrGetClusterId.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from kavka.errors import ConfigError
from kavka.zookeeper.port import Create, CreateMode, NodeExists, OutcomeUnknown, ZooKeeper
from kavka.zookeeper.znodes import (
    CLUSTER_ID_PATH,
    PERSISTENT_PATHS,
    BrokerRegistration,
    ClusterId,
    broker_path,
    encode_uuid,
    random_uuid,
)

MAX_ATTEMPTS = 10
"""Tries of a write whose outcome stays unknown, and looks at another's znode."""
RETRY_S = 0.5


async def make_persistent_paths(zookeeper: ZooKeeper, paths: Sequence[str] = PERSISTENT_PATHS) -> None:
    """Makes the nodes that every cluster has, where they are missing."""
    for _attempt in range(MAX_ATTEMPTS):
        found = await zookeeper.get_many(paths)
        missing = [path for path, node in zip(paths, found, strict=True) if node is None]
        if not missing:
            return
        try:
            # One write for all of them: each would be synced to the disk for itself.
            await zookeeper.multi([Create(path) for path in missing])
        except (NodeExists, OutcomeUnknown):
            continue  # another broker made some of them meanwhile, or it is not known: look again


async def cluster_id(zookeeper: ZooKeeper, rng: random.Random) -> str:
    """The cluster's id; made by the first broker that asks."""
    made = ClusterId(encode_uuid(random_uuid(rng.randbytes(16))))
    await _create_if_missing(zookeeper, CLUSTER_ID_PATH, made.encode())
    data, _stat = await zookeeper.get(CLUSTER_ID_PATH)
    return ClusterId.decode(data).id


async def register(zookeeper: ZooKeeper, registration: BrokerRegistration) -> int:
    """Makes the broker's ephemeral node; returns its czxid, the broker epoch.

    Raises ConfigError where a live broker has the same id.
    """
    path = broker_path(registration.broker_id)
    for _attempt in range(MAX_ATTEMPTS):
        try:
            created = await zookeeper.create(path, registration.encode(), mode=CreateMode.EPHEMERAL)
        except (NodeExists, OutcomeUnknown):
            stat = await zookeeper.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner == zookeeper.session_id:
                return stat.czxid
            await asyncio.sleep(RETRY_S)
        else:
            return created.stat.czxid
    raise ConfigError(
        f"broker.id {registration.broker_id} is taken: another live broker is registered as {path}; "
        "give this one an id of its own"
    )


async def _create_if_missing(zookeeper: ZooKeeper, path: str, data: bytes | None) -> None:
    for _attempt in range(MAX_ATTEMPTS):
        if await zookeeper.exists(path) is not None:
            return
        try:
            await zookeeper.create(path, data)
        except (NodeExists, OutcomeUnknown):
            continue
        return
