"""What ShareFetch and ShareAcknowledge share: acknowledgements, and who leads elsewhere. Not an API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.share.sessions import PartitionId
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, RequestError
from kavka.model import NO_EPOCH, NO_LEADER, LeaderAndIsr
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, check_acknowledgements

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors after which a client is told who leads."""
_MAX_MEMBER_ID = 36


class Outcome(NamedTuple):
    """What became of one partition's acknowledgements."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class Kind(NamedTuple):
    """`may_renew`: the request's version knows renewals. `is_renewal`: it says that it has some."""

    may_renew: bool
    is_renewal: bool


def check_member(broker: ShareBroker, request: Request, group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """The group and the member of a request. Raises `RequestError`."""
    if not broker.serves_share_groups():
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if broker.authorization is not None:
        caller = broker.authorization.caller(request)
        if not caller.may(Operation.READ, ResourceType.GROUP, group_id):
            raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member_id or len(member_id) > _MAX_MEMBER_ID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return group_id, member_id


def readable(
    broker: ShareBroker, request: Request, partitions: Sequence[PartitionId]
) -> tuple[list[tuple[PartitionId, str]], dict[PartitionId, ErrorCode]]:
    """The partitions that the client may read, with their topics' names, and why not the others."""
    found: list[tuple[PartitionId, str]] = []
    refused: dict[PartitionId, ErrorCode] = {}
    for partition in partitions:
        name = broker.metadata.topic_name(partition.topic_id) or broker.replicas.topic_name(partition.topic_id)
        if name is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found.append((partition, name))
    if broker.authorization is not None:
        caller = broker.authorization.caller(request)
        allowed = caller.allowed(Operation.READ, ResourceType.TOPIC, {name for _partition, name in found})
        for partition, name in found:
            if name not in allowed:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    left = [(partition, name) for partition, name in found if partition not in refused]
    for partition, name in left:
        if broker.metadata.partition(name, partition.partition) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [(partition, name) for partition, name in left if partition not in refused], refused


def acknowledge(
    broker: ShareBroker,
    request: Request,
    who: tuple[str, str],
    batches: Mapping[PartitionId, Sequence[Acknowledgement]],
    kind: Kind,
) -> dict[PartitionId, Outcome | asyncio.Future[ErrorCode]]:
    """Decides on acknowledgements of a group's member; a future is done when they are stored."""
    group_id, member_id = who
    partitions, refused = readable(broker, request, list(batches))
    outcomes: dict[PartitionId, Outcome | asyncio.Future[ErrorCode]] = {
        partition: Outcome(error) for partition, error in refused.items()
    }
    leaders = broker.share.leaders
    for partition, name in partitions:
        try:
            check_acknowledgements(batches[partition], may_renew=kind.may_renew, is_renewal=kind.is_renewal)
            if kind.is_renewal and not leaders.settings(group_id).may_renew and _renews(batches[partition]):
                raise RequestError(
                    ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
                )
            led = leaders.loaded(ShareKey(group_id, partition.topic_id, partition.partition), name)
            written = leaders.acknowledge(led, member_id, batches[partition])
        except RequestError as refusal:
            error = ErrorCode(refusal.code)
            outcomes[partition] = Outcome(error, refusal.message or error.name)
        else:
            outcomes[partition] = Outcome() if written is None else written
    return outcomes


def _renews(acknowledgements: Sequence[Acknowledgement]) -> bool:
    return any(AcknowledgeType.RENEW in each.kinds for each in acknowledgements)


async def settled(pending: Mapping[PartitionId, Outcome | asyncio.Future[ErrorCode]]) -> dict[PartitionId, Outcome]:
    """What became of them, once all is known."""
    return {partition: one if isinstance(one, Outcome) else Outcome(await one) for partition, one in pending.items()}


def leader_of(broker: ShareBroker, partition: PartitionId) -> LeaderAndIsr:
    """The leader that this broker knows of; -1 and epoch -1 where it knows none."""
    name = broker.metadata.topic_name(partition.topic_id)
    hosted = None if name is None else broker.replicas.partition(name, partition.partition)
    if hosted is not None and hosted.leader_epoch >= 0:
        return hosted.state
    published = None if name is None else broker.metadata.partition(name, partition.partition)
    return LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1) if published is None else published.state
