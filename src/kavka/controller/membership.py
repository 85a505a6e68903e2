"""Membership: makes a broker known in ZooKeeper.

A flow on the ZooKeeper port, run by every broker at its start and after each new session: the persistent znodes, the
cluster's id, the broker's own ephemeral znode whose czxid is its epoch.

    1. the former process of this broker was killed; its znode lives until its session is over
    2. the new process finds the znode: it waits for it to go, up to a time-out, and then creates its own
    3. if the znode stays, another broker has the same id: DuplicateBroker, and this one must not serve

Source: Kafka's KafkaZkClient.registerBroker, CheckedEphemeral (KAFKA-7165) and getOrCreateClusterId.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from kavka.errors import KavkaError
from kavka.zookeeper.port import Create, Event, NodeExists, NoNode, OutcomeUnknown, WatchEvent, ZooKeeper
from kavka.zookeeper.port import CreateMode as Mode
from kavka.zookeeper.znodes import (
    CLUSTER_ID_PATH,
    PERSISTENT_PATHS,
    BrokerRegistration,
    ClusterId,
    broker_path,
    encode_uuid,
    random_uuid,
)

MAX_ATTEMPTS: Final = 10
"""How often an unanswered or overtaken write is tried again."""


class DuplicateBroker(KavkaError):
    """Another live broker has this broker's id."""


async def ensure_paths(zookeeper: ZooKeeper, paths: Sequence[str] = PERSISTENT_PATHS) -> None:
    """Makes the persistent znodes that are missing, all in one write. Raises ZooKeeperError."""
    for attempt in range(MAX_ATTEMPTS):
        found = await zookeeper.get_many(paths)
        missing = [path for path, node in zip(paths, found, strict=True) if node is None]
        if not missing:
            return
        try:
            await zookeeper.multi([Create(path) for path in missing])
        except (NodeExists, OutcomeUnknown):
            if attempt == MAX_ATTEMPTS - 1:
                raise


async def cluster_id(zookeeper: ZooKeeper, rng: random.Random) -> str:
    """The cluster's id; the first broker ever makes one. Raises ZooKeeperError."""
    for attempt in range(MAX_ATTEMPTS):
        try:
            data, _ = await zookeeper.get(CLUSTER_ID_PATH)
            return ClusterId.decode(data).id
        except NoNode:
            fresh = ClusterId(encode_uuid(random_uuid(rng.randbytes(16))))
        try:
            await zookeeper.create(CLUSTER_ID_PATH, fresh.encode())
            return fresh.id
        except (NodeExists, OutcomeUnknown):
            if attempt == MAX_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


async def register(zookeeper: ZooKeeper, registration: BrokerRegistration, *, wait_ms: int = 0) -> int:
    """Creates the broker's ephemeral znode; returns its epoch.

    `wait_ms`: how long a znode of the same id may take to go, best a little over its session's time-out. Raises
    DuplicateBroker, ZooKeeperError.
    """
    path = broker_path(registration.broker_id)
    deadline = asyncio.get_running_loop().time() + wait_ms / 1000
    gone = asyncio.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, WatchEvent) and event.path == path:
            gone.set()

    unsubscribe = zookeeper.subscribe(on_event)
    try:
        while True:
            gone.clear()
            try:
                return (await zookeeper.create(path, registration.encode(), mode=Mode.EPHEMERAL)).stat.czxid
            except (NodeExists, OutcomeUnknown):
                stat = await zookeeper.exists(path, watch=True)
            if stat is None:
                continue
            if stat.ephemeral_owner == zookeeper.session_id:
                return stat.czxid
            remaining = deadline - asyncio.get_running_loop().time()
            if remaining <= 0:
                raise DuplicateBroker(
                    f"{path} belongs to session {stat.ephemeral_owner:#x}: another broker has id "
                    f"{registration.broker_id}"
                )
            try:
                await asyncio.wait_for(gone.wait(), remaining)
            except TimeoutError:
                continue  # One last look.
    finally:
        unsubscribe()
