"""ShareMember: a member of a share group that sends what the test says, over a connection of its own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kavka.protocol.messages import share_acknowledge_request as acknowledging
from kavka.protocol.messages import share_fetch_request as fetching
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.kit.broker_client import BrokerClient, read_records
from tests.kit.process_cluster import eventually

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class ShareMember(BrokerClient):
    """`epoch` is that of its share session, which its fetches and acknowledgements carry on; `member_epoch` is what the
    group's coordinator gave it last, `topic` what it reads."""

    def __init__(self, port: int, group: str, name: str = "", *, host: str = "127.0.0.1", source: str = "") -> None:
        super().__init__(port, host=host, source=source)
        self.group = group
        self.name = name or uuid.uuid4().hex
        self.epoch = 0
        self.member_epoch = 0
        self.topic = ""

    def join(self, *topics: str) -> Any:
        """The answer to a first heartbeat, once the group's coordinator is there."""
        request = self.joining(*topics)

        def joined() -> Any:
            self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 6)
            answer = self.ask(request, 1)
            if answer.error_code:
                return None
            self.member_epoch = answer.member_epoch
            return answer

        return eventually("a member joins", joined)

    def joining(self, *topics: str) -> ShareGroupHeartbeatRequest:
        """A first heartbeat."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.name, member_epoch=0, subscribed_topic_names=list(topics)
        )

    def join_assigned(self, *topics: str) -> None:
        """Joins, and goes on with heartbeats until it has a partition: where states are made, that takes a while."""
        answer = self.join(*topics)
        if answer.assignment and answer.assignment.topic_partitions:
            return

        def has_partitions() -> bool:
            answer = self.beat()
            return bool(answer.assignment and answer.assignment.topic_partitions)

        eventually("the member has a partition", has_partitions)

    def beat(self) -> Any:
        """The answer to a heartbeat that says nothing new."""
        answer = self.ask(
            ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=self.member_epoch), 1
        )
        if answer.error_code == 0:
            self.member_epoch = answer.member_epoch
        return answer

    def leave(self) -> None:
        """Is no longer a member; its share session goes on."""
        answer = self.ask(ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=-1), 1)
        assert answer.error_code == 0, answer

    def fetch_answer(self, topic_id: uuid.UUID, partition: int = 0, *, wait_ms: int = 30_000, **fields: Any) -> Any:
        """The whole answer."""
        answer = self.ask(self.fetch_request(topic_id, partition, wait_ms=wait_ms, **fields), 2)
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def fetch_request(
        self, topic_id: uuid.UUID, partition: int = 0, *, wait_ms: int = 30_000, **fields: Any
    ) -> fetching.ShareFetchRequest:
        """The next fetch of its session."""
        topic = fetching.FetchTopic(topic_id=topic_id, partitions=[fetching.FetchPartition(partition_index=partition)])
        return fetching.ShareFetchRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "max_wait_ms": wait_ms,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [topic],
                **fields,
            }
        )

    def fetch(self, topic_id: uuid.UUID, partition: int = 0, **fields: Any) -> list[tuple[int, int, int]]:
        """(first, last, delivery count) of what was acquired; the records are there."""
        answer = self.fetch_answer(topic_id, partition, **fields)
        assert answer.error_code == 0, answer.error_message
        found: list[tuple[int, int, int]] = []
        for topic in answer.responses:
            for data in topic.partitions:
                assert data.error_code == 0, data
                offsets = {offset for offset, _value in read_records(data.records, 0)}
                for acquired in data.acquired_records:
                    assert set(range(acquired.first_offset, acquired.last_offset + 1)) <= offsets
                    found.append((acquired.first_offset, acquired.last_offset, acquired.delivery_count))
        return found

    def acknowledge(
        self, topic_id: uuid.UUID, *batches: tuple[int, int, Sequence[int]], partition: int = 0, **fields: Any
    ) -> int:
        """The error of the partition, or of the request."""
        data = acknowledging.AcknowledgePartition(
            partition_index=partition,
            acknowledgement_batches=[
                acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
                for first, last, kinds in batches
            ],
        )
        request = acknowledging.ShareAcknowledgeRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "topics": [acknowledging.AcknowledgeTopic(topic_id=topic_id, partitions=[data])],
                **fields,
            }
        )
        answer = self.ask(request, 2)
        if answer.error_code:
            return int(answer.error_code)
        self.epoch += 1
        return int(answer.responses[0].partitions[0].error_code)
