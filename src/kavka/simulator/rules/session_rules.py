"""Rules about sessions: who has logged in is served for as long as that login is good, and nobody else is.

Decides from the messages of logins, from ZooKeeper and from the clocks of brokers, and does not look into a gate.

    R27  on a listener with SASL a request is served only in a session: after a login, for connections.max.reauth.ms at
         most, and for no longer than the client's token was good when it logged in, by its broker's clock then. Clocks
         that are set later end no session, and prolong none
    R28  who logs in by SCRAM has a credential or a token in ZooKeeper, or had it a second ago, where the broker must
         know (`stored_access`)
    R33  who shows a token that is good, as ZooKeeper has it and by the broker's clock, is let in, where the broker must
         know: a client whose token is renewed in time is never locked out
    R29  a client that was told to wait for so many milliseconds (throttle_time_ms) is not heard before

Source: docs/design/rules.md; KIP-368, KIP-48, KIP-219.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.simulator.rules.stored_access import CHANGE_S
from kavka.zookeeper.znode_paths import USERS_ENTITY, entity_config_path, sanitize, token_path

if TYPE_CHECKING:
    from kavka.protocol.connection import ConnectionContext
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.wire import Exchange, SaslMessage
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper
    from kavka.simulator.rules.replica_view import View
    from kavka.simulator.rules.stored_access import StoredAccess

SLACK_S: Final = 0.002
"""Brokers count whole milliseconds."""
_NAME: Final = re.compile(rb"n,,n=([^,]*),")
"""How the first message of a SCRAM exchange begins."""
_OF_TOKEN: Final = b",tokenauth=true"
_PROOF: Final = b",p="
GOOD_MS: Final = 1_000
"""For so long a token must still be good to be called good: a login takes a while."""
_Place = tuple[str, str]
"""A broker's node, and the id of a connection to it."""


class _Session(NamedTuple):
    """`ends_s`: by the clock of the broker that cannot be set; None: never."""

    ends_s: float | None


class _End(NamedTuple):
    """Until when a token is good, and since when that is so, or was seen."""

    ends_ms: int
    since_s: float


class SessionRules:
    """Watches the wire, and logins on it."""

    def __init__(self, view: View, zookeeper: SimulatedZooKeeper, stored: StoredAccess) -> None:
        self._view = view
        self._zookeeper = zookeeper
        self._stored = stored
        self._names: dict[_Place, bytes] = {}
        """Who an exchange that is under way is for."""
        self._sessions: dict[_Place, _Session] = {}
        self._mutes: dict[_Place, float] = {}
        """Until when a client is not heard."""
        self._ends_ms: dict[str, int] = {}
        """By token, its last moment: what a broker knows may be a moment old, and any end that it had."""
        self._ends: dict[str, _End] = {}
        """By token, the end that ZooKeeper has now."""
        self._good: dict[_Place, str] = {}
        """Tokens that were good when an exchange with them began, at a broker that had to know."""
        self.renewals = 0
        """How many tokens' ends were seen to move away."""
        self.shortened = 0
        """How many were seen to come nearer."""

    def on_sasl(self, broker: SimulatedBroker, context: ConnectionContext, message: SaslMessage) -> None:
        """A message of a login was accepted."""
        place = (broker.node, context.connection_id)
        begins = _NAME.match(message.token)
        if begins is not None:
            self._names[place] = begins[1]
            self._good.pop(place, None)
            if _OF_TOKEN in message.token and self._is_good(broker, begins[1].decode()):
                self._good[place] = begins[1].decode()
            return
        assert broker.loop is not None
        ends = []
        longest_ms = int(broker.settings.get("connections.max.reauth.ms", "0"))
        if longest_ms:
            ends.append(longest_ms)
        if _PROOF in message.token:
            name = self._names.pop(place).replace(b"=2C", b",").replace(b"=3D", b"=").decode()
            if context.is_by_token:
                ends.append(self._rest_ms(broker, name))
            self._require_known(broker, name, is_token=context.is_by_token)
        now_s = broker.loop.time()
        self._sessions[place] = _Session(now_s + min(ends) / 1000 if ends else None)

    def on_refused(self, broker: SimulatedBroker, context: ConnectionContext, message: SaslMessage) -> None:
        """A message of a login was answered with an error. Whoever shows a token here has its password."""
        token_id = self._good.pop((broker.node, context.connection_id), None)
        if token_id is not None and _PROOF in message.token and self._is_good(broker, token_id):
            rest_ms = self._ends[token_id].ends_ms - broker.wall_ms()
            what = f"{broker.node} refuses the token {token_id}, which is good for {rest_ms} ms"
            self._view.require("R33", False, what)

    def _is_good(self, broker: SimulatedBroker, token_id: str) -> bool:
        ends_ms = self._known_end(broker, token_id)
        return ends_ms is not None and ends_ms - broker.wall_ms() > GOOD_MS

    def _known_end(self, broker: SimulatedBroker, token_id: str) -> int | None:
        """By which end the broker must go; None: it may know another one."""
        self.look_at_tokens()
        end = self._ends.get(token_id)
        is_settled = end is not None and self._stored.now_s - end.since_s >= CHANGE_S
        return end.ends_ms if end is not None and is_settled and self._stored.must_know(broker) else None

    def _rest_ms(self, broker: SimulatedBroker, token_id: str) -> int:
        ends_ms = self._known_end(broker, token_id)
        if ends_ms is None:
            ends_ms = self._ends_ms.get(token_id, 0)
        return max(ends_ms - broker.wall_ms(), 0)

    def look_at_tokens(self) -> None:
        """Notes until when tokens are good."""
        before, self._ends = self._ends, {}
        tree = self._zookeeper.embedded.database.tree.by_path
        prefix = token_path("")
        for path, node in tree.items():
            if path.startswith(prefix) and node.data:
                token = json.loads(node.data)
                ends_ms = min(int(token["expiryTimestamp"]), int(token["maxTimestamp"]))
                name = path.removeprefix(prefix)
                self._ends_ms[name] = int(token["maxTimestamp"])
                known = before.get(name)
                is_same = known is not None and known.ends_ms == ends_ms
                self._ends[name] = known if known and is_same else _End(ends_ms, self._stored.now_s)
                self.renewals += known is not None and known.ends_ms < ends_ms
                self.shortened += known is not None and known.ends_ms > ends_ms

    def _require_known(self, broker: SimulatedBroker, name: str, *, is_token: bool) -> None:
        if not self._stored.must_know(broker):
            return
        tree = self._zookeeper.embedded.database.tree.by_path
        of_user = entity_config_path(f"{USERS_ENTITY}/{sanitize(name)}")
        node = tree.get(token_path(name) if is_token else of_user)
        is_known = node is not None and (is_token or b"SCRAM-" in (node.data or b""))
        self._view.require("R28", is_known, f"{broker.node} let in {name}, which ZooKeeper does not have")

    def on_request(self, exchange: Exchange) -> None:
        """Whether it may be served now."""
        broker, context = exchange.broker, exchange.context
        assert broker.loop is not None
        place, now_s = (broker.node, context.connection_id), broker.loop.time()
        if context.gate is not None:
            session = self._sessions.get(place)
            what = f"{broker.node} serves {exchange.key.name} of {exchange.host}"
            self._view.require("R27", session is not None, f"{what}, which has not logged in")
            ends_s = None if session is None else session.ends_s
            late_s = 0.0 if ends_s is None else now_s - ends_s
            self._view.require("R27", late_s <= SLACK_S, f"{what}, {late_s:.3f} s after the end of its session")
        until_s = self._mutes.pop(place, 0.0)
        what = f"{broker.node} hears {exchange.host} {until_s - now_s:.3f} s too early"
        self._view.require("R29", now_s >= until_s - SLACK_S, what)

    def on_answer(self, exchange: Exchange) -> None:
        """Notes how long the client is to wait."""
        throttle_ms: int = getattr(exchange.answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            assert exchange.broker.loop is not None
            place = (exchange.broker.node, exchange.context.connection_id)
            until_s = exchange.broker.loop.time() + throttle_ms / 1000
            self._mutes[place] = max(self._mutes.get(place, 0.0), until_s)
