"""Features: the feature levels of the cluster, as this broker knows them and shows them to clients (KIP-584).

Reads /feature and every registration, and follows their changes. Which level follows from them is decided by
`controller.decide.feature_levels`; who may change one, by `controller.work.feature_updates`.

    transaction.version  0: clients add partitions to their transactions; 1: the state of transactions is written in
                         flexible records; 2: brokers add partitions, and each transaction has an epoch of its own
                         (KIP-890)
    group.version        0: classic groups only; 1: consumer groups too (KIP-848)
    share.version        0: no share groups; 1: share groups (KIP-932); 2: their dead letters too (KIP-1191)
    streams.version      0: no streams groups; 1: streams groups (KIP-1071)

`metadata.version` and `kraft.version` belong to clusters without ZooKeeper.

    I1  the epoch rises with every change of the answer, and brokers that give the same answer have the same epoch: it
        is the zxid of the last change of /feature or of the set of live brokers
    I2  the levels in an answer were read between two reads of the zxid that saw no change
    I3  nothing is in force before it was read, and nothing of a /feature that cannot be read

Source: Kafka's FinalizedFeatureChangeListener and BrokerFeatures. There the epoch is the version of /feature; clients
take what has a higher epoch than what they know, and defaults change with the brokers here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, NamedTuple

from kavka.config.broker import BrokerConfig
from kavka.controller.decide.feature_levels import SupportedFeatures, levels_in_force
from kavka.errors import ZooKeeperError
from kavka.logger import Logger
from kavka.zookeeper.port import Event, NoNode, SessionEvent, SessionState, WatchEvent, ZooKeeper
from kavka.zookeeper.znode_paths import BROKER_IDS_PATH, FEATURE_PATH
from kavka.zookeeper.znodes import BrokerRegistration, FeatureNode, MalformedZNode

logger = Logger(__name__)

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
CONSUMER_PROTOCOL: Final = "consumer"
"""What group.coordinator.rebalance.protocols calls KIP-848."""
STREAMS_PROTOCOL: Final = "streams"
"""What it calls KIP-1071."""
SUPPORTED: Final[SupportedFeatures] = {
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""What this broker supports, and registers with."""
RETRY_S: Final = 1.0
"""How long after a failure of ZooKeeper the levels are read again."""
MAX_LOOKS: Final = 10
"""How often they are read anew because something changed meanwhile; the watch then has them read later."""


class Finalized(NamedTuple):
    """The levels in force, those at 0 too. `epoch` is -1 while they are not known."""

    epoch: int
    levels: Mapping[str, int]


class Features:
    """`spawn` runs the flow that follows changes."""

    def __init__(self, zookeeper: ZooKeeper, spawn: Callable[[Coroutine[None, None, None]], None]) -> None:
        self._zookeeper = zookeeper
        self._spawn = spawn
        self._wake = asyncio.Event()
        self._read = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self.finalized = Finalized(-1, {})

    def transaction_version(self) -> int:
        """0, 1 or 2."""
        return self.finalized.levels.get(TRANSACTION_VERSION, 0)

    def group_version(self) -> int:
        """0 or 1."""
        return self.finalized.levels.get(GROUP_VERSION, 0)

    def share_version(self) -> int:
        """0, 1 or 2."""
        return self.finalized.levels.get(SHARE_VERSION, 0)

    def streams_version(self) -> int:
        """0 or 1."""
        return self.finalized.levels.get(STREAMS_VERSION, 0)

    async def start(self) -> None:
        """Reads the levels and follows them from then on. While ZooKeeper does not answer there are none."""
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        try:
            await self._take_in()
        except ZooKeeperError as failure:
            logger.warning("feature levels not read yet", why=str(failure))
            self._wake.set()
        self._spawn(self._follow())

    def stop(self) -> None:
        """Follows them no more."""
        self._unsubscribe()

    async def await_epoch(self, epoch: int, timeout_s: float) -> None:
        """Returns when the levels of this epoch, or of a later one, are known here, or when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.finalized.epoch < epoch:
                    self._read.clear()
                    await self._read.wait()
        except TimeoutError:
            return

    def _on_event(self, event: Event) -> None:
        is_change = isinstance(event, WatchEvent) and event.path in (FEATURE_PATH, BROKER_IDS_PATH)
        if is_change or event == SessionEvent(SessionState.CONNECTED):
            self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._take_in()
            except ZooKeeperError as failure:
                logger.warning("feature levels not read", why=str(failure))
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _take_in(self) -> None:
        for _ in range(MAX_LOOKS):
            before = await self._epoch()
            node = await self._feature_node()
            brokers = await self._supported()
            if await self._epoch() != before:
                continue
            known = self.finalized
            self.finalized = Finalized(before, {} if node is None else levels_in_force(node, brokers))
            if known.levels != self.finalized.levels:
                logger.info("feature levels", before=dict(known.levels), now=dict(self.finalized.levels), epoch=before)
            self._read.set()
            return

    async def _epoch(self) -> int:
        """The zxid of the last change of /feature or of the live brokers; watches are left on both."""
        feature = await self._zookeeper.exists(FEATURE_PATH, watch=True)
        try:
            await self._zookeeper.children(BROKER_IDS_PATH, watch=True)
        except NoNode:
            pass
        brokers = await self._zookeeper.exists(BROKER_IDS_PATH)
        return max(0 if feature is None else feature.mzxid, 0 if brokers is None else brokers.pzxid)

    async def _feature_node(self) -> FeatureNode | None:
        """None if it cannot be read."""
        found = (await self._zookeeper.get_many([FEATURE_PATH]))[0]
        if found is None:
            return FeatureNode(enabled=True)
        try:
            return FeatureNode.decode(found[0])
        except MalformedZNode as garbage:
            logger.error("feature levels ignored", why=str(garbage), next_step="delete the znode, and set them again")
            return None

    async def _supported(self) -> list[SupportedFeatures]:
        """Of each live broker. One whose registration cannot be read supports nothing."""
        try:
            names = await self._zookeeper.children(BROKER_IDS_PATH)
        except NoNode:
            return []
        ids = [int(name) for name in names if name.isdecimal()]
        found = await self._zookeeper.get_many([f"{BROKER_IDS_PATH}/{broker_id}" for broker_id in ids])
        supported: list[SupportedFeatures] = []
        for broker_id, node in zip(ids, found, strict=True):
            if node is None:
                continue
            try:
                supported.append(BrokerRegistration.decode(broker_id, node[0]).features)
            except MalformedZNode:
                supported.append({})
        return supported


def serves_consumer_groups(config: BrokerConfig, group_version: int) -> bool:
    """True if the newer protocol is served: the cluster has its feature level, and the broker's settings allow it."""
    protocols = [protocol.lower() for protocol in config.group_coordinator_rebalance_protocols]
    return group_version >= 1 and CONSUMER_PROTOCOL in protocols


def serves_streams_groups(config: BrokerConfig, streams_version: int) -> bool:
    """True if groups of the streams protocol are served: as for consumer groups."""
    protocols = [protocol.lower() for protocol in config.group_coordinator_rebalance_protocols]
    return streams_version >= 1 and STREAMS_PROTOCOL in protocols
