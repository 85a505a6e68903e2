"""Controllers: who the controller is, and how often another one was elected within the last hour.

Decides what counts as an election. With ZooKeeper, Metadata names the controller, and one that has another id was
elected; kavka's brokers record each election, also one that the same broker won again. In KRaft, Metadata names any
live broker, so the quorum itself is asked: who leads it, and its epoch, which grows with each election.

    I1  An election that was both seen and recorded counts once: of what was seen and what was recorded, the more.
    I2  At most MAX_ELECTIONS are remembered.

Source: KIP-595 (DescribeQuorum); Kafka's KRaftMetadataCache, which gives clients a random live broker as controller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from kavka.client.answers import raise_for
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.observe.snapshot import ControllerView, QuorumView
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kavka.protocol.messages.describe_quorum_response import DescribeQuorumResponse

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.decisions import RecordedDecision
    from kavka.observe.decision_tail import DecisionTail

METADATA_LOG: Final = "__cluster_metadata"
HOUR_MS: Final = 3_600_000
MAX_ELECTIONS: Final = 100
QUORUM_PATIENCE_S: Final = 4.0


async def read_quorum(cluster: Cluster) -> QuorumView | None:
    """The controller quorum; None if the cluster has none. Raises KavkaError, TimeoutError."""
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=METADATA_LOG, partitions=[PartitionData()])])
    try:
        async with asyncio.timeout(QUORUM_PATIENCE_S):
            answer = await cluster.ask(ApiKey.DESCRIBE_QUORUM, request, DescribeQuorumResponse)
    except RequestError as refused:
        if refused.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    raise_for(answer.error_code, "the controller quorum", answer.error_message)
    log = answer.topics[0].partitions[0]
    raise_for(log.error_code, "the controller quorum", log.error_message)
    return QuorumView(log.leader_id, log.leader_epoch, tuple(sorted(voter.replica_id for voter in log.current_voters)))


class Controllers:
    """Of one cluster, for as long as it is watched."""

    def __init__(self) -> None:
        self._controller = -1
        self._epoch: int | None = None
        self._watched_since_ms = 0
        self._seen_ms: deque[int] = deque(maxlen=MAX_ELECTIONS)

    def take(self, controller: int, quorum: QuorumView | None, now_ms: int) -> None:
        """Who it is now. No controller is no election. The next controller is one."""
        if not self._watched_since_ms:
            self._watched_since_ms = now_ms
        elif quorum is not None and self._epoch is not None:
            self._seen_ms.extend([now_ms] * min(max(quorum.epoch - self._epoch, 0), MAX_ELECTIONS))
        elif quorum is None and controller >= 0 and self._controller not in (-1, controller):
            self._seen_ms.append(now_ms)
        if controller >= 0:
            self._controller = controller
        self._epoch = None if quorum is None else quorum.epoch

    def view(self, recorded: DecisionTail, now_ms: int) -> ControllerView:
        """`recorded`: what the brokers wrote down, where they do."""
        since_ms = now_ms - HOUR_MS
        written = recorded.recent(limit=MAX_ELECTIONS, since_ms=since_ms, matches=_is_election)
        seen = sum(at_ms >= since_ms for at_ms in self._seen_ms)
        return ControllerView(max(len(written), seen), self._watched_since_ms, recorded.reading.is_known)


def _is_election(recorded: RecordedDecision) -> bool:
    return recorded.decision.kind is DecisionKind.CONTROLLER_ELECTED
