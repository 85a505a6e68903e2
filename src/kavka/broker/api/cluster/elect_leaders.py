"""ElectLeaders (key 43): preferred and unclean elections that an operator asks for.

Behaviour   Each partition for itself, by the rules of `controller.decide.requested_election`. The answer comes when the
            brokers know the new leaders, or after AWAIT_BROKERS_MS: then the leaders are elected, and a broker that
            hangs learns of them later. (Kafka waits for the controller's own metadata only, up to the request's
            time-out.) No partitions named means all; the answer then leaves out those that needed no election. Only the
            controller answers; others say NOT_CONTROLLER, for each partition and, from version 1 on, above all.
Versions    0 preferred elections; 1 election_type and an error for all (KIP-460); 2 flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Final

from kavka.broker.api.by_topic import by_topic
from kavka.controller.decide.requested_election import ElectionType
from kavka.controller.term.controller_term import NotController
from kavka.controller.work.elections import ElectionOutcome
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kavka.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request

AWAIT_BROKERS_MS: Final = 1_000
"""How long an answer waits for brokers that do not answer their controller."""

_WISHES: Final = {0: ElectionType.PREFERRED, 1: ElectionType.UNCLEAN}


def handle(broker: ClusterBroker, request: Request, message: ElectLeadersRequest) -> Awaitable[ElectLeadersResponse]:
    return _elect(broker, message)


async def _elect(broker: ClusterBroker, message: ElectLeadersRequest) -> ElectLeadersResponse:
    partitions: list[TopicPartition] | None = None
    if message.topic_partitions is not None:
        partitions = [
            TopicPartition(topic.topic, number) for topic in message.topic_partitions for number in topic.partitions
        ]
    wish = _WISHES.get(message.election_type)
    if wish is None:
        return _refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {message.election_type}.", partitions or ())
    try:
        done = await broker.controller.elections.elect(wish, partitions)
    except NotController as not_controller:
        return _refused(ErrorCode.NOT_CONTROLLER, str(not_controller), partitions or ())
    await done.delivery.wait(min(max(message.timeout_ms, 0), AWAIT_BROKERS_MS))
    outcomes = done.outcomes
    if partitions is None:
        outcomes = {
            partition: outcome
            for partition, outcome in outcomes.items()
            if outcome.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
    return ElectLeadersResponse(replica_election_results=_results(outcomes.items()))


def _refused(code: ErrorCode, message: str, partitions: Iterable[TopicPartition]) -> ElectLeadersResponse:
    outcome = ElectionOutcome(code, message)
    return ElectLeadersResponse(
        error_code=code, replica_election_results=_results((partition, outcome) for partition in partitions)
    )


def _results(outcomes: Iterable[tuple[TopicPartition, ElectionOutcome]]) -> list[ReplicaElectionResult]:
    return [
        ReplicaElectionResult(
            topic=topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=outcome.code, error_message=outcome.message)
                for index, outcome in partitions
            ],
        )
        for topic, partitions in by_topic(outcomes).items()
    ]
