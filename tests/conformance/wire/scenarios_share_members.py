"""Scenarios of members of share groups (KIP-932): what their heartbeats say, and in which epoch.

Epochs are recorded by how far they lie above the one in which the scenario begins. A change is recorded twice: in the
first answer, and as it is once heartbeats bring nothing new. Apache Kafka 3.9 has none of this.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import delete_topics_request
from kavka.protocol.messages import share_fetch_request as fetching
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_share import Queue, acknowledge, fetch
from tests.conformance.wire.wire_session import WireSession, canonical

REST_S = 1.2
"""Longer than group.share.assignment.interval.ms: nothing is put off any more."""


class Member:
    """One member of a share group, and what it was told."""

    def __init__(self, session: WireSession, group: str, epoch: int, member_id: str = "") -> None:
        self.session, self.group, self.epoch = session, group, epoch
        self.member_id = member_id or str(uuid.uuid4())
        self.first_epoch = epoch
        self.topics: Any = None
        """Its assignment, as it was told last."""

    def ask(self, topics: Sequence[str] | None = None, epoch: int | None = None) -> Any:
        """One heartbeat, in its own epoch, if no other is given."""
        request = m.ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        answer = self.session.connection.ask(request, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            self.topics = self.topics if answer.assignment is None else answer.assignment.topic_partitions
        return answer

    def record(self, step: str, topics: Sequence[str] | None = None, epoch: int | None = None) -> None:
        """One heartbeat whose answer is kept."""
        answer = self.ask(topics, epoch)
        self.session.keep_answer(step, answer, 1)
        if not answer.error_code and answer.member_epoch >= 0:
            self.session.recorded[step]["member_epoch"] -= self.first_epoch

    def settle(self, step: str, wanted: Sequence[str]) -> None:
        """Heartbeats until it has all partitions of these topics and no others; what is known then is kept."""
        ids = {self.session.topic_id(name) for name in wanted}

        def has_them() -> bool:
            self.ask()
            return {part.topic_id for part in self.topics or ()} == ids

        self.session.until(has_them)
        time.sleep(REST_S)
        self.ask()
        self.session.recorded[step] = {
            "epoch": self.epoch - self.first_epoch,
            "assignment": sorted(self.session.normalised(self.topics, 1), key=canonical),
        }


def joined(session: WireSession) -> tuple[Queue, Member]:
    """A group of one member, which has its partition."""
    queue = Queue(session)
    time.sleep(REST_S)
    member = Member(session, queue.group, queue.epoch, queue.member)
    member.ask()
    return queue, member


@scenario(ApiKey.SHARE_GROUP_HEARTBEAT, min_version=1)
def share_group_subscriptions(session: WireSession, version: int) -> None:
    """A member names other topics: some that are there, some that come later, some that go, none."""
    queue, member = joined(session)
    first, second, later = queue.topic, session.topic("second", partitions=2), session.name("later")
    session.topic_id(second)
    member.record("the same", [first])
    member.record("the same twice", [first, first])
    member.record("nothing new", None)
    member.record("another", [second])
    member.settle("another, settled", [second])
    member.record("both", [second, first])
    member.settle("both, settled", [first, second])
    member.record("both in another order", [first, second])
    member.record("none", [])
    member.settle("none, settled", [])
    member.record("none again", [])
    member.record("one that is not there", [later])
    member.settle("one that is not there, settled", [])
    session.topic("later")
    member.settle("it is made", [later])
    member.record("and one beside it", [first, later])
    member.settle("and one beside it, settled", [first, later])
    request = delete_topics_request.DeleteTopicsRequest(topic_names=[later], timeout_ms=15_000)
    assert not session.connection.ask(request, 5).responses[0].error_code
    member.settle("it is deleted", [first])
    member.record("names that no topic can have", ["", "a b", first])
    member.settle("names that no topic can have, settled", [first])


@scenario(ApiKey.SHARE_GROUP_HEARTBEAT, min_version=1)
def share_group_epochs(session: WireSession, version: int) -> None:
    """A member comes with an epoch that is not its own."""
    queue, member = joined(session)
    second = session.topic("second")
    session.topic_id(second)
    first_epoch = member.epoch
    member.record("its own")
    member.ask([queue.topic, second])
    member.settle("the epoch has risen", [queue.topic, second])
    epoch = member.epoch
    member.record("the former", epoch=epoch - 1)
    member.record("the former again", epoch=epoch - 1)
    member.record("the former, with its topics", [queue.topic, second], epoch=epoch - 1)
    member.record("the former, with other topics", [second], epoch=epoch - 1)
    member.settle("the former, with other topics, settled", [second])
    member.record("a much older one", epoch=first_epoch - 1)
    member.record("a much older one, with its topics", [second], epoch=first_epoch - 1)
    member.record("one to come", epoch=member.epoch + 1)
    member.record("the last that there can be", epoch=2**31 - 1)
    member.record("0 without topics", epoch=0)
    member.record("0 with its topics", [second], epoch=0)
    member.record("0 with others", [queue.topic], epoch=0)
    member.record("after that, its own")
    epoch = member.epoch
    member.record("it leaves", epoch=-1)
    member.record("it leaves again", epoch=-1)
    member.record("it comes with its epoch", epoch=epoch)
    member.record("it comes with its epoch and topics", [second], epoch=epoch)


@scenario(ApiKey.SHARE_FETCH, min_version=2)
def share_fetch_of_a_deleted_topic(session: WireSession, version: int) -> None:
    """A member goes on with a topic that is deleted, beside one that is there, and alone."""
    queue, member = joined(session)
    second = session.topic("second")
    second_id = session.topic_id(second)
    member.ask([queue.topic, second])
    member.settle("it has both", [queue.topic, second])
    queue.took()
    wait = {"max_wait_ms": 100}
    added = fetch(queue.group, queue.member, 1, second_id, **wait)
    assert session.connection.ask(added, version).error_code == 0
    request = delete_topics_request.DeleteTopicsRequest(topic_names=[second], timeout_ms=15_000)
    assert not session.connection.ask(request, 5).responses[0].error_code
    session.until(lambda: session.end_offset(second) is None)
    session.record("deleted", fetch(queue.group, queue.member, 2, second_id, **wait, topics=[]), version)
    session.record("deleted, again", fetch(queue.group, queue.member, 3, second_id, **wait, topics=[]), version)
    done = (0, 9, [1])
    accepted = acknowledge(queue.group, queue.member, 4, queue.topic_id, done)
    session.record("of the other one", accepted, version)


@scenario(ApiKey.SHARE_FETCH, min_version=2)
def share_fetch_of_new_partitions(session: WireSession, version: int) -> None:
    """What an answer says of partitions that a request is the first to name, and that have nothing to give."""
    queue, member = joined(session)
    second = session.topic("second", partitions=2)
    ids = {name: session.topic_id(name) for name in (queue.topic, second)}
    member.ask([queue.topic, second])
    member.settle("assigned", [queue.topic, second])
    epochs = iter(range(100))

    def ask(step: str, *named: tuple[str, int], **fields: Any) -> None:
        topics = [
            fetching.FetchTopic(topic_id=ids[name], partitions=[fetching.FetchPartition(partition_index=index)])
            for name, index in named
        ]
        fields = {"max_wait_ms": 500, "topics": topics} | fields
        request = fetch(queue.group, queue.member, next(epochs), ids[queue.topic], **fields)
        session.record(step, request, version)

    ask("opened with an empty one", (second, 0))
    ask("nothing new", max_wait_ms=100)
    ask("another that is empty", (second, 1))
    ask("nothing new again", max_wait_ms=100)
    ask("named again", (second, 1), max_wait_ms=100)
    gone = [fetching.ForgottenTopic(topic_id=ids[second], partitions=[1])]
    ask("forgotten", forgotten_topics_data=gone, max_wait_ms=100)
    ask("named as if it were new", (second, 1), max_wait_ms=0)
    ask("nothing new of it", max_wait_ms=100)
    ask("one with records", (queue.topic, 0), max_records=4, share_acquire_mode=1)
    ask("no such partition", (second, 7), max_wait_ms=100)
    ask("no such partition still", max_wait_ms=100)
