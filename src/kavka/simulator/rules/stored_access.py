"""What ZooKeeper has of users, quotas and tokens, and what a broker goes by: R24 beyond access control lists.

Decides when a broker must know: it has served, and its link to ZooKeeper has been whole, for SETTLED_S, and nothing of
this has changed for a second. It asks a broker as logins and quotas do, and does not look into its stores.

Source: docs/design/rules.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kavka.security.quota_limits import QuotaKind, Share
from kavka.security.scram_credentials import ScramCredential, ScramMechanism
from kavka.simulator.host.zookeeper import NODE as ZOOKEEPER
from kavka.zookeeper.znode_paths import DEFAULT_ENTITY, TOKENS_PATH, desanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.network import SimulatedNetwork
    from kavka.simulator.host.scheduler import Scheduler
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper
    from kavka.simulator.rules.invariants import Observer

LOOK_S: Final = 0.5
SETTLED_S: Final = 15.0
"""Longer than any session here, and a new connection after it."""
CHANGE_S: Final = 1.0
ROOTS: Final = ("/config/users/", "/kafka-acl/", "/kafka-acl-extended/", f"{TOKENS_PATH}/")
QUOTAS: Final = {"producer_byte_rate": QuotaKind.PRODUCE, "consumer_byte_rate": QuotaKind.FETCH}


class StoredAccess:
    """Looks every now and then, and remembers since when all is calm."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: SimulatedNetwork,
        zookeeper: SimulatedZooKeeper,
        brokers: Mapping[int, SimulatedBroker],
        observer: Observer,
    ) -> None:
        self._scheduler = scheduler
        self._network = network
        self._zookeeper = zookeeper
        self._brokers = brokers
        self._observer = observer
        self._calm_since_s: dict[int, tuple[int, float]] = {}
        """By broker: its life, and since when nothing keeps it from knowing."""
        self._changed: tuple[tuple[str, int], ...] = ()
        self._changed_s = 0.0
        self._users: dict[str, None] = {}
        """All that there ever were."""
        self.looks = 0
        """How often a broker was compared with ZooKeeper."""

    def look(self) -> None:
        """Raises Violation."""
        now_s = self._scheduler.now_ns / 1e9
        if not self._zookeeper.is_serving:
            self._calm_since_s.clear()
            return
        changed = self._versions()
        if changed != self._changed:
            self._changed, self._changed_s = changed, now_s
        for broker in self._brokers.values():
            if not self._is_calm(broker, now_s):
                self._calm_since_s.pop(broker.broker_id, None)
            elif self._calm_since_s.get(broker.broker_id, (0, 0.0))[0] != broker.life:
                self._calm_since_s[broker.broker_id] = (broker.life, now_s)
            elif self.must_know(broker):
                self.looks += 1
                self.require_same(broker)

    @property
    def now_s(self) -> float:
        """By nobody's clock."""
        return self._scheduler.now_ns / 1e9

    def must_know(self, broker: SimulatedBroker) -> bool:
        """Whether the broker must have what ZooKeeper has, as far as that was looked at."""
        now_s = self._scheduler.now_ns / 1e9
        life, since_s = self._calm_since_s.get(broker.broker_id, (0, 0.0))
        is_settled = life == broker.life and now_s - since_s >= SETTLED_S
        return is_settled and self._is_calm(broker, now_s) and now_s - self._changed_s >= CHANGE_S

    def require_same(self, broker: SimulatedBroker) -> None:
        """All of it, of one broker that must know (R24)."""
        self._observer.access.require_same_lists(broker)
        different = self._different(broker)
        self._observer.require("R24", not different, f"{broker.node}: {'; '.join(different)}")

    def _is_calm(self, broker: SimulatedBroker, now_s: float) -> bool:
        network = self._network
        ways = (network.link(broker.node, ZOOKEEPER), network.link(ZOOKEEPER, broker.node))
        return (
            broker.is_serving
            and not broker.is_paused
            and not any(link.cut or link.clogged_until_s > now_s for link in ways)
        )

    def _versions(self) -> tuple[tuple[str, int], ...]:
        tree = self._zookeeper.embedded.database.tree.by_path
        return tuple((path, node.mzxid) for path, node in tree.items() if path.startswith(ROOTS))

    def _stored_users(self) -> dict[str, dict[str, str]]:
        tree = self._zookeeper.embedded.database.tree.by_path
        found = {}
        for path, node in tree.items():
            if path.startswith("/config/users/") and path.count("/") == 3 and node.data:
                name = path.rpartition("/")[2]
                if name != DEFAULT_ENTITY:
                    found[desanitize(name)] = dict(json.loads(node.data)["config"])
        return found

    def _different(self, broker: SimulatedBroker) -> list[str]:
        running = broker.broker
        if running is None:
            return []
        stored = self._stored_users()
        self._users |= dict.fromkeys(stored)
        found = [what for user in self._users for what in _of_user(running, user, stored.get(user, {}))]
        if running.tokens is not None:
            kept = {token.token_id: token.expires_ms for token, _ in running.tokens.store.all()}
            tokens = self._tokens()
            if kept != tokens:
                found.append(f"tokens {kept}, stored are {tokens}")
        return found

    def _tokens(self) -> dict[str, int]:
        tree = self._zookeeper.embedded.database.tree.by_path
        return {
            path.rpartition("/")[2]: int(json.loads(node.data)["expiryTimestamp"])
            for path, node in tree.items()
            if path.startswith(f"{TOKENS_PATH}/") and node.data
        }


def _of_user(running: Any, user: str, config: dict[str, str]) -> list[str]:
    found = []
    if running.authentication is not None and running.authentication.store is not None:
        for mechanism in ScramMechanism:
            text = config.get(mechanism.value)
            known = running.authentication.store.find(mechanism, user)
            kept = known.credential if known.is_known else None
            if kept != (None if text is None else ScramCredential.decode(text)):
                found.append(f"another credential of {user} than the one that is stored")
    for key, kind in QUOTAS.items():
        wanted = config.get(key)
        quotas = running.quotas.made
        limit = None if quotas is None else quotas.kinds[kind].limits.limit(Share(user, ""))
        if limit != (None if wanted is None else float(wanted)):
            found.append(f"{key} of {user} is {limit}, stored is {wanted}")
    return found
