"""Registration: the cluster's id, and this broker's ephemeral znode, by which the others know that it lives.

Flows on the ZooKeeper port only. A write whose outcome is unknown is read back before anything else is done.

    I1  a cluster has one id, whoever writes it first
    I2  two live brokers never have the same id. If another session holds the znode, this broker waits as long as an
        abandoned session can last (it may be its own, of a process that was killed), and then refuses to start
    I3  no other broker has a generated id
    I4  the znode of an earlier session of this process is removed at once (KAFKA-7165). So is the znode of an earlier
        process with the same log directories and the same addresses: a broker that holds the lock of the directories
        and listens on the ports knows that the other process is dead. If that one was the controller, its controller
        znode is removed too

Source: Kafka's KafkaZkClient.registerBroker, createOrGetClusterId and generateBrokerSequenceId. Where I2 waits, Kafka
refuses at once: a killed broker must be restarted until its session has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection

from kavka.errors import ConfigError, ZooKeeperError
from kavka.logger import Logger
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.port import BadVersion, CreateMode, NodeExists, NoNode, OutcomeUnknown, ZooKeeper
from kavka.zookeeper.znode_paths import (
    BROKER_SEQUENCE_PATH,
    CLUSTER_ID_PATH,
    CONTROLLER_PATH,
    broker_path,
)
from kavka.zookeeper.znodes import BrokerRegistration, ClusterId, MalformedZNode, encode_uuid, random_uuid

logger = Logger(__name__)

MAX_ATTEMPTS = 10
"""Tries of a write whose outcome stays unknown."""
RETRY_S = 0.25
EXPIRY_SLACK_MS = 4_000
"""How much later than its time-out a session may expire: ZooKeeper looks at sessions every tickTime (2 s)."""


async def cluster_id(zookeeper: ZooKeeper, rng: random.Random) -> str:
    """The cluster's id; made by the first broker that asks."""
    made = ClusterId(encode_uuid(random_uuid(rng.randbytes(16))))
    await _create_if_missing(zookeeper, CLUSTER_ID_PATH, made.encode())
    data, _stat = await zookeeper.get(CLUSTER_ID_PATH)
    return ClusterId.decode(data).id


async def generate_broker_id(zookeeper: ZooKeeper, reserved_max_id: int) -> int:
    """An id that no other broker of the cluster gets: above those that may be asked for, by the version of a znode.

    An attempt whose outcome is unknown may leave a gap; that harms nobody.
    """
    await make_persistent_paths(zookeeper)
    for _attempt in range(MAX_ATTEMPTS):
        try:
            stat = await zookeeper.set(BROKER_SEQUENCE_PATH, b"")
        except OutcomeUnknown:
            continue
        return reserved_max_id + stat.version
    raise ZooKeeperError(f"no broker id in {MAX_ATTEMPTS} attempts: ZooKeeper does not answer")


async def register(
    zookeeper: ZooKeeper,
    registration: BrokerRegistration,
    *,
    session_timeout_ms: int,
    former_sessions: Collection[int] = (),
    killed_sessions: Collection[int] = (),
) -> int:
    """Makes the broker's ephemeral node; returns its czxid, the broker epoch.

    `former_sessions` are ids of sessions that this process had, `killed_sessions` those of the processes that had its
    log directories before. Raises ConfigError if a live broker has the same id, and ZooKeeperError.
    """
    path = broker_path(registration.broker_id)
    patience_s = (session_timeout_ms + EXPIRY_SLACK_MS) / 1000
    refused_at = asyncio.get_running_loop().time() + patience_s
    unknown = 0
    told = False
    while True:
        try:
            return (await zookeeper.create(path, registration.encode(), mode=CreateMode.EPHEMERAL)).stat.czxid
        except OutcomeUnknown:
            unknown += 1
            if unknown == MAX_ATTEMPTS:
                raise
        except NodeExists:
            pass
        try:
            data, stat = await zookeeper.get(path)
        except NoNode:
            continue
        if stat.ephemeral_owner == zookeeper.session_id:
            return stat.czxid
        if stat.ephemeral_owner in former_sessions:
            await _delete(zookeeper, path, stat.version)
            continue
        if stat.ephemeral_owner in killed_sessions and _is_reached_as(registration, data):
            logger.info("former registration removed", path=path, why="the process that made it is dead")
            await _vacate(zookeeper, stat.ephemeral_owner)
            await _delete(zookeeper, path, stat.version)
            continue
        if asyncio.get_running_loop().time() >= refused_at:
            break
        if not told:
            told = True
            logger.warning(
                "waiting for a former registration",
                path=path,
                why="another session holds this broker's znode",
                next_step=f"wait: it ends within {patience_s:.0f} s, unless a second broker with this id is running",
            )
        await asyncio.sleep(RETRY_S)
    raise ConfigError(
        f"broker.id {registration.broker_id} is taken: another live broker is registered as {path}; "
        "give this one an id of its own"
    )


def _is_reached_as(registration: BrokerRegistration, data: bytes | None) -> bool:
    """Whether a registration tells clients the same addresses."""
    try:
        return BrokerRegistration.decode(registration.broker_id, data).endpoints == registration.endpoints
    except MalformedZNode:
        return False


async def _vacate(zookeeper: ZooKeeper, session_id: int) -> None:
    """Removes the controller's znode if a dead session holds it."""
    stat = await zookeeper.exists(CONTROLLER_PATH)
    if stat is not None and stat.ephemeral_owner == session_id:
        await _delete(zookeeper, CONTROLLER_PATH, stat.version)


async def _delete(zookeeper: ZooKeeper, path: str, version: int) -> None:
    try:
        await zookeeper.delete(path, version=version)
    except (NoNode, BadVersion, OutcomeUnknown):
        pass  # Whoever looks next sees what became of it.


async def _create_if_missing(zookeeper: ZooKeeper, path: str, data: bytes | None) -> None:
    for _attempt in range(MAX_ATTEMPTS):
        if await zookeeper.exists(path) is not None:
            return
        try:
            await zookeeper.create(path, data)
        except (NodeExists, OutcomeUnknown):
            continue
        return
