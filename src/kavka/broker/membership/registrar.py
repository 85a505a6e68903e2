"""Registrar: keeps this broker registered, from session to session.

Decides when the broker registers, and what its registration says of its last stop. Must not know how a registration is
written (registration.py), nor who acts on it.

Session When it expires, another one begins and the broker registers anew, with another broker epoch: what was meant
        for its former self is refused. Partitions are served meanwhile as the controller said last.
Unclean With eligible leader replicas, a registration says whether the broker's last stop may have cost records, until a
        controller has acted on that.

Source: Kafka's KafkaZooKeeper session handling in KafkaServer and KafkaController.RegisterBrokerAndReelect; KIP-966.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Final, NamedTuple

from kavka.broker.membership.incarnation import (
    NEVER_ACTED_ON,
    former_incarnations,
    has_unreported_loss,
    lost_nothing,
    present_incarnation,
    remember,
    sessions_from,
)
from kavka.broker.membership.registration import register
from kavka.broker.metadata.features import SUPPORTED
from kavka.broker.metadata.metadata_cache import Endpoint
from kavka.config.broker import BrokerConfig
from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.errors import ConfigError, ZooKeeperError
from kavka.filesystem import FileSystem
from kavka.log.home_loader import LoadReport
from kavka.log.log_manager import LogManager
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.zookeeper.port import Event, SessionEvent, SessionExpired, SessionState, ZooKeeper
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration, MalformedZNode, UncleanShutdowns

logger = Logger(__name__)

REJOIN_RETRY_S: Final = 1.0
"""How long after a failure of ZooKeeper the broker tries to register again."""


class RegistrarPorts(NamedTuple):
    """What the registrar stands on. `place` is where no two processes can listen on one port (incarnation.py). `halt`
    ends the process. `spawn` runs a task that ends with the broker."""

    zookeeper: ZooKeeper
    filesystem: FileSystem
    wall_ms: Callable[[], int]
    place: str
    halt: Callable[[str], None]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision


class Registrar:
    """One broker's. `config` is what it was started with; `advertised` is where clients of each listener reach it."""

    def __init__(
        self, config: BrokerConfig, ports: RegistrarPorts, logs: LogManager, advertised: Mapping[str, Endpoint]
    ) -> None:
        self._config = config
        self._ports = ports
        self._logs = logs
        self._advertised = advertised
        self._broker_id = BrokerId(config.broker_id)
        self._former_sessions: list[int] = []
        self._killed_sessions: list[int] = []
        self._is_unclean = False
        """Whether registrations say that the last stop was not clean; only with eligible leader replicas."""
        self.broker_epoch = -1
        """That of the present registration; -1 before the first."""

    async def look_back(self, report: LoadReport) -> None:
        """Reads what the log directories say of their former processes; `report` says what their logs went through."""
        former = former_incarnations(self._ports.filesystem, self._config.log_directories)
        if self._config.kavka_eligible_leader_replicas_enable:
            kept = report.was_clean or (not report.offline and lost_nothing(former, self._ports.place))
            self._is_unclean = not kept or has_unreported_loss(former, await self._unclean_stop_acted_on())
        self._killed_sessions = sessions_from(former, self._ports.place)

    async def register_first(self) -> None:
        """Registers after the logs were loaded, which may take longer than a session lives that nobody keeps alive."""
        while True:
            try:
                await self._register()
            except SessionExpired:
                await self._ports.zookeeper.renew()
            else:
                return

    async def _register(self) -> None:
        zookeeper = self._ports.zookeeper
        if self._is_unclean and self._former_sessions:
            self._is_unclean = await self._unclean_stop_acted_on() != self.broker_epoch
        self.broker_epoch = await register(
            zookeeper,
            self._registration(),
            session_timeout_ms=self._config.zookeeper_session_timeout_ms,
            former_sessions=self._former_sessions,
            killed_sessions=self._killed_sessions,
        )
        self._former_sessions.append(zookeeper.session_id)
        self._remember(self._logs.live_directories)

    def _registration(self) -> BrokerRegistration:
        protocols = self._config.security_protocols
        return BrokerRegistration(
            self._broker_id,
            tuple(
                BrokerEndpoint(name, protocols[name], endpoint.host, endpoint.port)
                for name, endpoint in self._advertised.items()
            ),
            self._ports.wall_ms(),
            self._config.broker_rack,
            features=SUPPORTED,
            is_unclean=self._is_unclean,
        )

    def on_directory_failed(self) -> None:
        """A log directory failed: the ones that are left say so to the next process."""
        if self._former_sessions:
            self._remember(self._config.log_directories)

    def _remember(self, directories: Iterable[str]) -> None:
        incarnation = present_incarnation(
            self._ports.zookeeper.session_id,
            self._ports.place,
            self.broker_epoch,
            is_unclean=self._is_unclean,
            has_failed_directory=bool(self._logs.offline_directories),
        )
        remember(self._ports.filesystem, directories, incarnation)

    async def _unclean_stop_acted_on(self) -> int:
        """For which of this broker's epochs a controller acted on its unclean stop last; NEVER_ACTED_ON for none."""
        found = (await self._ports.zookeeper.get_many([UncleanShutdowns.PATH]))[0]
        try:
            acted_on = {} if found is None else UncleanShutdowns.decode(found[0]).acted_on
        except MalformedZNode:
            return NEVER_ACTED_ON
        return acted_on.get(self._broker_id, NEVER_ACTED_ON)

    def on_session_event(self, event: Event) -> None:
        if event == SessionEvent(SessionState.EXPIRED):
            timeout_ms = self._config.zookeeper_session_timeout_ms
            self._ports.record(
                Decision(
                    DecisionKind.SESSION_EXPIRED,
                    self._ports.wall_ms(),
                    self._broker_id,
                    "ZooKeeper heard nothing from this broker for zookeeper.session.timeout.ms; the broker registers "
                    "again",
                    about_broker=self._broker_id,
                    before={"broker_epoch": self.broker_epoch},
                    evidence={"zookeeper.session.timeout.ms": timeout_ms},
                )
            )
            self._ports.spawn(self._rejoin())

    async def _rejoin(self) -> None:
        """Begins another session and registers again. What was meant for the former registration is refused then."""
        while True:
            try:
                await self._ports.zookeeper.renew()
                # At once, with no await between: this broker must be registered before it may be elected.
                await self._register()
            except ConfigError as taken:
                self._ports.halt(str(taken))
            except SessionExpired:
                return  # That session is over too, and has its own event.
            except ZooKeeperError as failure:
                logger.warning("not registered yet", why=str(failure))
                await asyncio.sleep(REJOIN_RETRY_S)
                continue
            logger.info("registered again", broker_epoch=self.broker_epoch)
            return
