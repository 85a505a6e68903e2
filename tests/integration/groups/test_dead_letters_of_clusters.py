"""Dead letters over three brokers: the dead-letter topic is led by another broker than the records, which is killed
while they are written; and what rights and quotas the broker that writes them has.

    D1  of each record there is a dead letter: members reject them all
    D2  the group goes on: its start is the end of the topic
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kavka.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kavka.records.batch import iterate_batches
from tests.kit.broker_client import BrokerClient, batch
from tests.kit.process_cluster import eventually
from tests.kit.secured_brokers import BROKER, CLIENT, SecuredBrokers
from tests.kit.share_cluster import FAILURES, Queue, ShareCluster
from tests.kit.share_member import REJECT

TOPIC, LITERAL, WRITE, READ, ALLOW = 2, 3, 4, 3, 3
RIGHTS = {
    # The brokers' user is no super user: it has what its requests to brokers need, and what anybody has.
    "super.users": f"User:{CLIENT}",
    "allow.everyone.if.no.acl.found": "true",
}
IN_ALL, AT_ONCE = 400, 20
LEADER, LETTERS_LEADER = 0, 1


class Graves:
    """A queue on LEADER, and a dead-letter topic on LETTERS_LEADER."""

    def __init__(self, on: ShareCluster, records: int) -> None:
        self.on = on
        self.letters = f"dlq.{uuid.uuid4().hex}"
        on.create_topic(self.letters, LETTERS_LEADER, **{"errors.deadletterqueue.group.enable": "true"})
        self.queue = Queue(on, LEADER, **{"errors.deadletterqueue.topic.name": self.letters})
        self.queue.produce(records)
        self.queue.joined()
        self.count = records
        self._is_over = threading.Event()

    def reject(self, count: int) -> None:
        """Rejects so many records, and is told that they are."""
        with self.queue.member() as member:
            while count > 0 and not self._is_over.is_set():
                for first, last, _deliveries in member.fetch(
                    self.queue.topic_id, wait_ms=500, max_records=min(AT_ONCE, count), share_acquire_mode=1
                ):
                    assert member.acknowledge(self.queue.topic_id, (first, last, [REJECT])) == 0
                    count -= last - first + 1

    @contextmanager
    def being_rejected(self) -> Iterator[None]:
        """Rejects the rest meanwhile. What came of a request without an answer is open; what it held comes back."""

        def reject() -> None:
            while not self._is_over.is_set():
                with suppress(*FAILURES, AssertionError):
                    self.reject(self.count)

        rest = threading.Thread(target=reject)
        rest.start()
        try:
            yield
        finally:
            self._is_over.set()
            rest.join(60)

    def letters_of(self) -> Counter[int]:
        """How many dead letters there are of each record; what `_refuses` could still write is none."""
        with BrokerClient(self.on.port(self.on.leader(self.letters))) as client:
            offset, found = 0, Counter[int]()
            while data := client.fetch(self.letters, offset).records:
                for each in iterate_batches(memoryview(data)):
                    told = (dict(record.headers) for record in each.records())
                    found.update(int(one["__dlq.errors.offset"] or b"") for one in told if one)
                    offset = each.header.last_offset + 1
            return found

    def are_all_written(self) -> bool:
        """D1 and D2."""
        return self.queue.is_done() and set(self.letters_of()) == set(range(self.count))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    directory = tmp_path_factory.mktemp("graves")
    made = ShareCluster(directory / "cluster", RIGHTS, SecuredBrokers(directory / "secrets"))
    with made.cluster:
        yield made


def grant(on: ShareCluster, topic: str, user: str, *operations: int) -> None:
    wanted = [AclCreation(TOPIC, topic, LITERAL, f"User:{user}", "*", operation, ALLOW) for operation in operations]
    with BrokerClient(on.port(on.cluster.controller())) as client:
        assert client.ask(CreateAclsRequest(creations=wanted), 2).results[0].error_code == 0


def kill_while_dead_letters_are_written(on: ShareCluster, victim: int) -> None:
    graves = Graves(on, IN_ALL)
    graves.reject(IN_ALL // 4)
    eventually("some are written", lambda: graves.letters_of(), every_s=0.1)
    with graves.being_rejected():
        on.cluster.kill(victim)
        eventually("all dead letters are there", graves.are_all_written, every_s=0.3, timeout_s=90)
    on.come_back(victim)


def test_the_leader_of_the_dead_letters_is_killed_while_they_are_written(brokers: ShareCluster) -> None:
    kill_while_dead_letters_are_written(brokers, LETTERS_LEADER)


@pytest.mark.thorough
@pytest.mark.parametrize("victim", [LEADER, 2], ids=["the records' leader", "the third"])
def test_another_broker_is_killed_while_dead_letters_are_written(brokers: ShareCluster, victim: int) -> None:
    """The third broker may keep the states; else the leader of the dead letters does."""
    kill_while_dead_letters_are_written(brokers, victim)


def test_the_dead_letters_are_the_brokers_own_user_s_who_needs_the_right_to_write(brokers: ShareCluster) -> None:
    """The member has no right in the dead-letter topic at any time. Without the right nothing is lost meanwhile."""
    graves = Graves(brokers, 3)
    grant(brokers, graves.letters, "somebody", WRITE)
    eventually("everybody else is shut out", lambda: _refuses(brokers, graves.letters), every_s=0.1)
    graves.reject(3)
    assert not graves.queue.is_done()
    grant(brokers, graves.letters, BROKER, WRITE)
    grant(brokers, graves.letters, "ANONYMOUS", READ)  # This test looks at them.
    eventually("all dead letters are there", graves.are_all_written, every_s=0.2)
    assert _refuses(brokers, graves.letters)


def _refuses(on: ShareCluster, topic: str) -> bool:
    """Whether members, who are nobody, may not write there."""
    with BrokerClient(on.port(on.leader(topic))) as client:
        return bool(client.produce(topic, batch(b"x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.thorough
def test_a_quota_of_the_brokers_user_delays_dead_letters_and_loses_none(brokers: ShareCluster) -> None:
    def limit(user: str, bytes_per_s: float, *, remove: bool = False) -> None:
        entry = EntryData([EntityData("user", user)], [OpData("producer_byte_rate", bytes_per_s, remove)])
        with BrokerClient(brokers.port(brokers.cluster.controller())) as client:
            assert client.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0

    limit(BROKER, 2_000)
    try:
        graves = Graves(brokers, 200)
        graves.reject(200)
        eventually("all dead letters are there", graves.are_all_written, every_s=0.2, timeout_s=60)
        assert set(graves.letters_of().values()) == {1}
    finally:
        limit(BROKER, 0, remove=True)
