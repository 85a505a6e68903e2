"""Rules about connections: a flood of them keeps within its bounds, and keeps nobody out who belongs in.

Decides from who is connected and who waits, and does not ask the quota that brokers go by.

    R30  a broker has no more connections than max.connections, a listener and an address no more than theirs. Where
         brokers have a listener for themselves, its connections may be more: then no other listener has any
    R31  on such a listener nobody waits to be accepted, unless it has as many connections as it may have. Elsewhere who
         waits for a place gets that of a client that must log in, and has not, within PATIENCE_S. Where connections
         have a rate, too, this is not looked at: who waits may wait for that

Source: docs/design/rules.md; Kafka's ConnectionQuotas, KIP-402.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kavka.broker.acceptor import LOOK_S, STALLED_S
from kavka.security.connection_quota import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kavka.simulator.host.accepting import Place
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.rules.replica_view import View

PATIENCE_S: Final = STALLED_S + 3 * LOOK_S
"""Each look for who has not logged in may come just before it had its time, and the next listener's look before it."""


class ConnectionRules:
    """Of one world."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.looks = 0
        """How often somebody was seen to wait."""

    def on_accepted(self, broker: SimulatedBroker) -> None:
        """Connections were accepted, and who had to give way for them is gone."""
        if broker.places is None:
            return
        places, bounds = broker.places.all(), broker.bounds
        of_listeners = Counter(each.listener for each in places)
        for listener, count in of_listeners.items():
            most = bounds.max_connections_of_listeners.get(listener, bounds.max_connections)
            self._require(count <= most, broker, f"{count} connections on {listener}, and {most} may be")
        others = sum(count for listener, count in of_listeners.items() if not self._is_way_in(broker, listener))
        most = bounds.max_connections
        self._require(len(places) <= most or not others, broker, f"{len(places)} connections, and {most} may be")
        if bounds.max_connections_per_ip != UNLIMITED:
            for host, count in Counter(each.host for each in places).items():
                most = bounds.max_connections_per_ip_overrides.get(host, bounds.max_connections_per_ip)
                self._require(count <= most, broker, f"{count} connections from {host}, and {most} may be")

    def look(self, brokers: Iterable[SimulatedBroker]) -> None:
        """Whether somebody waits who should not."""
        for broker in brokers:
            if broker.is_serving and broker.is_alive and not broker.is_paused and broker.places is not None:
                self._look(broker, broker.places.all())

    def _look(self, broker: SimulatedBroker, places: list[Place]) -> None:
        assert broker.loop is not None
        now, bounds = broker.loop.time(), broker.bounds
        of_listeners = Counter(each.listener for each in places)
        if bounds.max_connection_creation_rate != UNLIMITED or bounds.max_connection_creation_rate_of_listeners:
            return  # Who waits may wait for its rate.
        for listener, backlog in broker.backlogs.items():
            waiting = backlog.oldest
            if waiting is None or now - waiting.since_s < LOOK_S:
                continue
            self.looks += 1
            most = bounds.max_connections_of_listeners.get(listener, bounds.max_connections)
            is_full = of_listeners[listener] >= most
            what = f"{waiting.address[0]} has waited for {now - waiting.since_s:.1f} s on {listener}"
            if self._is_way_in(broker, listener):
                self._require(is_full, broker, f"{what}, which brokers have for themselves")
                continue
            stalled = [
                each
                for each in places
                if each.is_unknown
                and now - each.accepted_at > PATIENCE_S
                and (each.listener == listener if is_full else not self._is_way_in(broker, each.listener))
            ]
            is_patient = now - waiting.since_s <= PATIENCE_S
            self._require(is_patient or not stalled, broker, f"{what} for places of {len(stalled)} who do not log in")

    def _is_way_in(self, broker: SimulatedBroker, listener: str) -> bool:
        """Whether brokers have the listener for themselves."""
        return listener == broker.settings.get("inter.broker.listener.name") and len(broker.backlogs) > 1

    def _require(self, condition: bool, broker: SimulatedBroker, what: str) -> None:
        number = "R31" if "waited" in what else "R30"
        self._view.require(number, condition, f"{broker.node}: {what}")
