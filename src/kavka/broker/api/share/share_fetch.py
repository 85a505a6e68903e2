"""ShareFetch (key 78): a member of a share group acquires records, and says what became of those it had.

Behaviour   A share session (KIP-932): epoch 0 opens it, n+1 goes on with it, -1 closes it and frees its locks. It also
            ends with its connection. Acknowledgements are decided before anything is read; the answer has the outcome
            of their writes. Records go out as whole batches; which of them are the member's, the acquired ranges say.
            The request waits up to max_wait_ms for min_bytes, at every partition of the session that this broker leads.
            A partition that is refused is told of at once the first time, and after that wait from then on; that there
            are too many sessions, always after it. An answer names what it gives records of or refuses, and once what
            the session has fetched for the first time, or again after a refusal.
            Whose right to read ends meanwhile gets none of what comes then, as with Fetch. (Apache Kafka gives it.)
            A request with renewals reads nothing (KIP-1222), nor does one for no bytes or no records. The client's
            fetch quota counts the answer. Who is over it acquires nothing, and waits; what was acquired leaves, and the
            wait comes after it. (Apache Kafka acquires, then answers without records: these are locked until the time
            is over, and are delivered once more.)
Versions    1; 2 acquire mode (KIP-1206), renewals (KIP-1222).
Not supported  Version 0, of 4.0's early access.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.api.acknowledgements import (
    MOVED,
    Kind,
    Outcome,
    acknowledge,
    check_member,
    leader_of,
    readable,
    settled,
)
from kavka.broker.api.endpoints import addresses_of
from kavka.broker.share.fetches import FetchWish, Given, Partitions, Withheld, everything_may_be_read
from kavka.broker.share.sessions import FINAL_EPOCH, FIRST_EPOCH, PartitionId, ShareSession
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.share_fetch_request import ShareFetchRequest
from kavka.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType
from kavka.share.decide.acquired_records import Wish
from kavka.share.decide.share_partition import Acknowledgement

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request

_ACQUIRE_MODES = _WHOLE_BATCHES, _RECORD_LIMIT = 0, 1
_HEAD_BYTES, _PARTITION_BYTES, _ACQUIRED_BYTES = 20, 44, 19
"""Of an answer, of a partition with its topic, of a range of records that were acquired."""


def handle(broker: ShareBroker, request: Request, message: ShareFetchRequest) -> Awaitable[ShareFetchResponse]:
    return _fetch(broker, request, message)


async def _fetch(broker: ShareBroker, request: Request, message: ShareFetchRequest) -> ShareFetchResponse:
    try:
        withheld = _withheld(broker, request, message.group_id or "")
        who = check_member(broker, request, message.group_id, message.member_id)
        _check_renewal(message)
        if message.share_acquire_mode not in _ACQUIRE_MODES:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"There is no acquire mode {message.share_acquire_mode}.")
        named = [
            PartitionId(topic.topic_id, partition.partition_index)
            for topic in message.topics
            for partition in topic.partitions
        ]
        batches = _acknowledgements(message)
        session = _session(broker, request, message, named, has_acknowledgements=bool(batches))
        broker.connected_clients.shared(request, session)
    except RequestError as refused:
        if refused.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # Clients ask again at once.
            await broker.share.fetches.pause(message.max_wait_ms, request.context)
        return ShareFetchResponse(
            error_code=refused.code, error_message=refused.message or ErrorCode(refused.code).name
        )
    is_final, is_first = message.share_session_epoch == FINAL_EPOCH, message.share_session_epoch == FIRST_EPOCH
    # Taken before anything waits: the session is this request's until its answer.
    fetched = [] if is_final or message.is_renew_ack else session.turned()
    asks_for_none = message.max_bytes <= 0 or message.max_records == 0
    pending = acknowledge(broker, request, who, batches, Kind(request.header.api_version >= 2, message.is_renew_ack))
    given: list[Given] = []
    shown: Sequence[PartitionId] = fetched if is_first and not asks_for_none else ()
    owed_ms = request.meter.owed_ms() if request.meter is not None and fetched and not asks_for_none else 0
    if fetched and asks_for_none:
        given = _refused(broker, request, session, fetched)
    elif fetched and not owed_ms:
        partitions, refusals = readable(broker, request, fetched)
        wish = Wish(message.max_records, message.batch_size, is_exact=message.share_acquire_mode == _RECORD_LIMIT)
        max_bytes = min(message.max_bytes, broker.config.fetch_max_bytes)
        if request.meter is not None:
            max_bytes = min(max_bytes, request.meter.most_bytes())
        asked = FetchWish(*who, wish, message.max_wait_ms, min(message.min_bytes, max_bytes), max_bytes)
        given = await broker.share.fetches.fetch(asked, partitions, refusals, session, request.context, withheld)
        if not is_first and not session.is_over:
            shown = session.take_unsaid(fetched, (one.partition for one in given if one.error is not ErrorCode.NONE))
    outcomes = await settled(pending)
    if is_final:
        broker.share.sessions.end(session)
    if request.meter is not None:
        request.meter.gave(_size_of(given), owed_ms)
    lock_ms = broker.share.leaders.settings(who[0]).limits.lock_ms
    return _response(broker, request, given, outcomes, shown, lock_ms)


def _refused(
    broker: ShareBroker, request: Request, session: ShareSession, fetched: Sequence[PartitionId]
) -> list[Given]:
    """What is refused of a fetch that asks for no records."""
    _, refusals = readable(broker, request, fetched)
    session.told = refusals
    session.take_unsaid(refusals, refusals)
    return [Given(partition, error) for partition, error in refusals.items()]


def _withheld(broker: ShareBroker, request: Request, group_id: str) -> Withheld:
    """What the client may no longer read, where lists have changed since it asked. Where that is the group, nothing is
    said: the next request is refused."""
    authorization = broker.authorization
    if authorization is None:
        return everything_may_be_read
    generation = authorization.authorizer.generation

    def withheld(partitions: Partitions) -> dict[PartitionId, ErrorCode]:
        if generation == authorization.authorizer.generation:
            return {}
        caller = authorization.caller(request)
        if not caller.may(Operation.READ, ResourceType.GROUP, group_id):
            return {partition: ErrorCode.NONE for partition, _topic in partitions}
        allowed = caller.allowed(Operation.READ, ResourceType.TOPIC, {topic for _partition, topic in partitions})
        return {
            partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED for partition, topic in partitions if topic not in allowed
        }

    return withheld


def _check_renewal(message: ShareFetchRequest) -> None:
    """Raises `RequestError`: who renews asks for no records."""
    if not message.is_renew_ack:
        return
    wrong = [
        f"{name} must be set to 0, "
        for name, value in (
            ("maxBytes", message.max_bytes),
            ("minBytes", message.min_bytes),
            ("maxRecords", message.max_records),
            ("maxWaitMs", message.max_wait_ms),
        )
        if value
    ]
    if wrong:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{''.join(wrong)}if isRenewAck is true.")


def _acknowledgements(message: ShareFetchRequest) -> dict[PartitionId, list[Acknowledgement]]:
    return {
        PartitionId(topic.topic_id, partition.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in message.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def _session(
    broker: ShareBroker,
    request: Request,
    message: ShareFetchRequest,
    named: Iterable[PartitionId],
    *,
    has_acknowledgements: bool,
) -> ShareSession:
    """The session of the request, brought up to it. Raises `RequestError`."""
    sessions, group_id, member_id = broker.share.sessions, message.group_id or "", message.member_id or ""
    epoch = message.share_session_epoch
    if epoch == FIRST_EPOCH:
        if has_acknowledgements:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        session = sessions.begin(group_id, member_id, named)
        request.context.hold(session)
        session.detach = partial(request.context.release, session)
        return session
    session = sessions.known(group_id, member_id, epoch)
    if epoch != FINAL_EPOCH:
        forgotten = (
            PartitionId(topic.topic_id, index) for topic in message.forgotten_topics_data for index in topic.partitions
        )
        session.change(named, forgotten)
        session.advance()
    return session


def _size_of(given: Iterable[Given]) -> int:
    """The bytes of the answer, to within a few of each partition; for a client's quota."""
    return _HEAD_BYTES + sum(one.size_bytes + _PARTITION_BYTES + _ACQUIRED_BYTES * len(one.acquired) for one in given)


def _response(
    broker: ShareBroker,
    request: Request,
    given: Iterable[Given],
    outcomes: Mapping[PartitionId, Outcome],
    shown: Iterable[PartitionId],
    lock_ms: int,
) -> ShareFetchResponse:
    """`shown` are partitions that are in the answer even if nothing about them is new."""
    found: dict[PartitionId, PartitionData] = {
        partition: PartitionData(partition_index=partition.partition, records=b"") for partition in shown
    }
    leaders = set()
    for one in given:
        data = found[one.partition] = PartitionData(
            partition_index=one.partition.partition,
            error_code=one.error,
            error_message=one.message,
            records=list(one.records),
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in one.acquired
            ],
        )
        if one.error in MOVED:
            leader = leader_of(broker, one.partition)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
            leaders.add(leader.leader)
    for partition, outcome in outcomes.items():
        told = found.setdefault(partition, PartitionData(partition_index=partition.partition, records=b""))
        told.acknowledge_error_code = outcome.error
        told.acknowledge_error_message = outcome.message
        if outcome.error in MOVED:
            leader = leader_of(broker, partition)
            told.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
            leaders.add(leader.leader)
    topics: dict[object, ShareFetchableTopicResponse] = {}
    for partition, data in found.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = ShareFetchableTopicResponse(topic_id=partition.topic_id, partitions=[])
        topic.partitions.append(data)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in addresses_of(broker.metadata, request, leaders)
        ],
    )
