"""StreamsMember: a member of a Kafka Streams application that sends what a test says, over a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kavka.errors import ErrorCode
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskIds, Topology
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import eventually

NOT_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class StreamsMember(BrokerClient):
    """`epoch` is that of the last answer."""

    def __init__(self, port: int, group: str, name: str, *, host: str = "127.0.0.1") -> None:
        super().__init__(port, host=host)
        self.group = group
        self.name = name
        self.epoch = 0

    def ask_to_join(self, topology: Topology, /, **fields: Any) -> Any:
        """The answer to a first heartbeat, whatever it is, once the group's coordinator is there."""
        self.epoch = 0
        return self._send(
            **{
                "topology": topology,
                "rebalance_timeout_ms": 20_000,
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
                "process_id": f"process-of-{self.name}",
                "client_tags": [],
                **fields,
            }
        )

    def join(self, topology: Topology, **fields: Any) -> Any:
        """The answer to a first heartbeat that was not refused."""
        answer = self.ask_to_join(topology, **fields)
        assert answer.error_code == 0, answer
        return answer

    def beat(self, *, has: Mapping[str, Sequence[int]] | None = None, **fields: Any) -> Any:
        """`has`: the active tasks that the member says it has."""
        owned = {} if has is None else {"active_tasks": task_ids(has), "standby_tasks": [], "warmup_tasks": []}
        return self._send(**{**owned, **fields})

    def leave(self) -> Any:
        self.epoch = -1
        return self._send()

    def _send(self, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            **{"group_id": self.group, "member_id": self.name, "member_epoch": self.epoch, **fields}
        )

        def answered() -> Any:
            answer = self.ask(request, 0)
            if answer.error_code in NOT_YET:
                self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 4)
                return None
            return answer

        answer = eventually("the coordinator answers", answered)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer


def task_ids(tasks: Mapping[str, Sequence[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(numbers)) for name, numbers in tasks.items()]


def codes(answer: Any) -> list[int]:
    """The statuses of an answer."""
    return [status.status_code for status in answer.status or ()]
