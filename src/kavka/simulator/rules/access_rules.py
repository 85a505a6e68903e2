"""Rules about access: nothing is written, and no record returned, without a right that is in force.

Decides by looking at each entry of a broker's lists, without their index and without what sessions remember.

    R23  what a broker acknowledges as written was allowed by its lists when the request came; records that it returns
         are allowed by its lists when the answer goes. What it refuses for want of a right was not allowed
    R24  a broker that takes its lists for those of ZooKeeper has those of ZooKeeper, a second after the last change;
         and so with users' credentials, their quotas and delegation tokens (`stored_access`)
    R25  a request is handled as the user who logged in on its connection, from its first request to its last
    R26  a fetch as a replica of who may not fetch as one tells its leader nothing: not where that replica is, nor that
         more is committed

Of brokers without an authorizer only R25 is looked at. Hosts are names of nodes; who logs in from where, the world
knows (`principal_of`): where it is not secured, everybody is User:ANONYMOUS.

Source: docs/design/rules.md; kafka.security.authorizer.AclAuthorizer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from kavka.errors import ErrorCode
from kavka.protocol.api_keys import ApiKey
from kavka.records.batch import iterate_batches
from kavka.security.acls import Operation, Permission
from kavka.security.principals import ANONYMOUS, ANY_HOST, EVERYBODY
from kavka.security.resource_patterns import CLUSTER_NAME, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kavka.model import Offset, TopicPartition
    from kavka.security.authorizer import AclIndex, Rules
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper
    from kavka.simulator.rules.replica_view import View

_PREFIXED_ROOT = "/kafka-acl-extended/prefixed/"
_LITERAL_ROOT = "/kafka-acl/"
_Lists = dict[str, frozenset[tuple[str, str, str, str]]]
"""By path, what is said to whom from where."""


class KeptLists(Protocol):
    """The lists that a broker goes by."""

    index: AclIndex
    rules: Rules

    def stale_ms(self) -> int:
        """For how long they may have been others in ZooKeeper."""


class AccessRules:
    """Watches the wire."""

    def __init__(self, view: View, zookeeper: SimulatedZooKeeper) -> None:
        self._view = view
        self._zookeeper = zookeeper
        self.principal_of: Callable[[str, str], str] = lambda host, listener: str(ANONYMOUS)
        """Who logs in from a node, on a listener."""

    def on_request(self, exchange: Exchange) -> None:
        """Notes which topics may not be written, and where replicas are whose fetches are to be refused."""
        context = exchange.context
        who, logged_in = context.principal, self.principal_of(exchange.host, context.listener_name)
        self._view.require("R25", who == logged_in, f"{exchange.broker.node} takes {exchange.host} for {who}")
        acls = _acls(exchange.broker)
        if acls is None:
            return
        if exchange.key is ApiKey.PRODUCE:
            names = {topic.name for topic in exchange.request.topic_data}
            exchange.denied = frozenset(name for name in names if not _may(acls, exchange, Operation.WRITE, name))
            if _is_transactional(exchange.request) and not _may_be_transactional(acls, exchange):
                exchange.denied = frozenset(names)
        elif exchange.key is ApiKey.FETCH and _is_of_replica(exchange.request) and not _may_replicate(acls, exchange):
            exchange.follower = _positions(exchange)

    def on_answer(self, exchange: Exchange) -> None:
        """Compares what is answered with what may be."""
        acls = _acls(exchange.broker)
        if acls is None:
            return
        if exchange.key is ApiKey.PRODUCE:
            for topic in exchange.answer.responses:
                for part in topic.partition_responses:
                    self._compare(exchange, topic.name, part.error_code, may=topic.name not in exchange.denied)
        elif exchange.key is ApiKey.FETCH:
            for name, part in _fetched(exchange):
                if _is_of_replica(exchange.request):
                    may = _may_replicate(acls, exchange)
                else:
                    may = _may(acls, exchange, Operation.READ, name)
                error = part.error_code if part.error_code or part.records else ErrorCode.UNKNOWN_SERVER_ERROR
                self._compare(exchange, name, error, may=may)
            if exchange.follower:
                what = f"{exchange.broker.node}: a fetch of {exchange.host} that was refused moved a replica"
                self._view.require("R26", _positions(exchange) == exchange.follower, what)

    def _compare(self, exchange: Exchange, topic: str, error: int, *, may: bool) -> None:
        what = f"{exchange.broker.node}, {exchange.key.name} of {topic} from {exchange.host}"
        self._view.require("R23", may or error != ErrorCode.NONE, f"{what}: done without a right")
        refused = error in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
        self._view.require("R23", not may or not refused, f"{what}: refused, and it was allowed")

    def require_same_lists(self, broker: SimulatedBroker) -> None:
        """Of a broker that takes its lists for those of ZooKeeper (R24)."""
        acls = _acls(broker)
        if acls is None or acls.stale_ms() or not self._zookeeper.is_serving:
            return
        kept, stored = _kept(acls), self._stored()
        self._view.require("R24", kept == stored, f"{broker.node} has {kept}, ZooKeeper {stored}")

    def _stored(self) -> _Lists:
        found: _Lists = {}
        for path, node in self._zookeeper.embedded.database.tree.by_path.items():
            if path.startswith((_PREFIXED_ROOT, _LITERAL_ROOT)) and node.data:
                entries = json.loads(node.data)["acls"]
                found[path] = frozenset(
                    (each["permissionType"], each["operation"], each["principal"], each["host"]) for each in entries
                )
        return found


def _kept(acls: KeptLists) -> _Lists:
    found: _Lists = {}
    for (resource_type, name, pattern_type), entries in acls.index.lists.items():
        root = _PREFIXED_ROOT if pattern_type is PatternType.PREFIXED else _LITERAL_ROOT
        found[f"{root}{resource_type.word}/{name}"] = frozenset(
            (entry.permission.word, entry.operation.word, entry.principal, entry.host) for entry in entries
        )
    return found


def _acls(broker: SimulatedBroker) -> KeptLists | None:
    authorization = None if broker.broker is None else broker.broker.authorization
    return None if authorization is None else authorization.acls


def _may_replicate(acls: KeptLists, exchange: Exchange) -> bool:
    return _may(acls, exchange, Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER)


def _may_be_transactional(acls: KeptLists, exchange: Exchange) -> bool:
    transactional_id = exchange.request.transactional_id
    return transactional_id is not None and _may(
        acls, exchange, Operation.WRITE, transactional_id, ResourceType.TRANSACTIONAL_ID
    )


def _is_transactional(request: Any) -> bool:
    """By what the batches say of themselves."""
    return any(
        batch.header.is_transactional
        for topic in request.topic_data
        for part in topic.partition_data
        if part.records
        for batch in iterate_batches(part.records)
    )


def _positions(exchange: Exchange) -> dict[TopicPartition, tuple[Offset, Offset]]:
    """Of each partition that is asked for: where its leader takes the replica to be, and the high watermark."""
    running, request = exchange.broker.broker, exchange.request
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    found: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for partition in () if running is None else running.replicas.partitions():
        remote = partition.remote_replica(replica_id)
        if remote is not None:
            found[partition.topic_partition] = (remote.log_end_offset, partition.log.high_watermark)
    return found


def _is_of_replica(request: Any) -> bool:
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    return bool(replica_id >= 0)


def _fetched(exchange: Exchange) -> Iterator[tuple[str, Any]]:
    """By the topics' names, where the version has names."""
    broker = exchange.broker.broker
    for topic in exchange.answer.responses:
        name = topic.topic
        if not name and broker is not None:
            name = broker.metadata.topic_name(topic.topic_id) or broker.replicas.topic_name(topic.topic_id) or ""
        if name:
            for part in topic.partitions:
                yield name, part


def _may(
    acls: KeptLists,
    exchange: Exchange,
    operation: Operation,
    name: str,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> bool:
    """What is asked here is implied by nothing but All."""
    principal, host = exchange.context.principal, exchange.host
    if principal in map(str, acls.rules.super_users):
        return True
    about = []
    for pattern, entries in acls.index.lists.items():
        if pattern.resource_type is not resource_type:
            continue
        is_prefix = pattern.pattern_type is PatternType.PREFIXED
        if name[: len(pattern.name)] == pattern.name if is_prefix else pattern.name in ("*", name):
            about += [(pattern, entry) for entry in entries]
    if not about:
        return acls.rules.allow_everyone
    said = {
        entry.permission
        for _, entry in about
        if entry.principal in (principal, str(EVERYBODY))
        and entry.host in (ANY_HOST, host)
        and entry.operation in (Operation.ALL, operation)
    }
    return said == {Permission.ALLOW}
