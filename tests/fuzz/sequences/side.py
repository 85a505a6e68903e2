"""Side: one of two brokers that are sent the same sequence, and what its own answers have told."""

from __future__ import annotations

import random
import re
import select
import time
from math import isnan
from typing import Any, Final, NamedTuple

from kavka.coordinator.groups.classic.decide.consumer_protocol import decode_assignment
from kavka.coordinator.groups.streams.decide.topology import StatusCode
from kavka.errors import KavkaError
from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from tests.conformance.wire.wire_connection import Closed, WireConnection
from tests.conformance.wire.wire_session import WireSession
from tests.fuzz.sequences.clients import nobody
from tests.fuzz.sequences.knowledge import GROUPS, Knowledge
from tests.fuzz.sequences.known_differences import HELD, is_left_out, pruned
from tests.fuzz.sequences.requests import Asked
from tests.fuzz.sequences.themes import Theme

NAMES: Final = ("resource_type", "resource_name", "user", "member_id")
"""Of rows that are in the order of Kafka's hash maps, beside those that wire_session.py sorts."""
PATIENCE: Final = 100
"""Times as long as in a run of clients.py may members be silent."""
SETTLE_S: Final = 0.3
"""After requests that others wait for, or that a broker goes on with after its answer."""
SETTLING: Final = HELD | {
    ApiKey.LEAVE_GROUP, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.DELETE_GROUPS, ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
}  # fmt: skip
ANSWER_S: Final = 10.0
LATE_S: Final = 2.0
SHORT_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
NAMED_ID: Final = re.compile(r"^(?:wire|instance-\d+)-(<id \d+>)$")
LISTED: Final = frozenset(
    {
        "ListedGroup", "TransactionState", "MetadataResponseTopic", "DescribeLogDirsTopic", "ConfigResource",
        "ReplicaElectionResult", "EntryData", "DescribeUserScramCredentialsResult", "DescribeAclsResource",
        "DeleteAclsMatchingAcl","DescribeTopicPartitionsResponseTopic",
    }
)  # fmt: skip
"""Rows of lists that hold what other sequences left behind, too."""
SETTINGS_NOT_COMPARED: Final = (
    "errors.deadletterqueue.", "message.downconversion.enable", "message.format.version",
    "message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms",
    "log.message.timestamp.after.max.ms", "min.insync.replicas",
)  # fmt: skip
"""What Apache Kafka has since 4.4; what it had in 3.9, or with another default; what KRaft sets by itself (KIP-966)."""
TOPICS_S: Final = 1.5
"""After which a coordinator knows the internal topics that were missing."""


class Event(NamedTuple):
    """An answer, and which step asked for it."""

    step: int
    key: ApiKey
    answer: Any


def _makes_topics(event: Event) -> bool:
    statuses = event.answer.get("status") if isinstance(event.answer, dict) else None
    return any(each["status_code"] == StatusCode.MISSING_INTERNAL_TOPICS for each in statuses or ())


def sorted_assignment(data: str) -> Any:
    """What a classic member is given, its topics in order: those of Kafka are in the order of a hash map."""
    try:
        found = decode_assignment(bytes.fromhex(data))
    except (KavkaError, ValueError):
        return data
    return sorted((topic, sorted(indexes)) for topic, indexes in found.partitions.items())


class Side:
    """One broker, and what its answers have told."""

    def __init__(self, address: tuple[str, int], seed: int, theme: Theme, salt: str = "") -> None:
        """`salt`: of the names, where the same sequence is played again."""
        self.session = WireSession(*address)
        self.rng = random.Random(seed)
        self.theme, self._mark = theme, f"{seed}{salt}"
        self.knowledge = Knowledge(self.rng, f"-s{self._mark}")
        self.knowledge.groups = self.knowledge.groups[: theme.groups]
        if theme.groups < len(GROUPS):
            self.knowledge.of_their_own = 0
        self._waiting: dict[int, tuple[WireConnection, Asked]] = {}
        self._answered: list[tuple[int, Asked, Any]] = []

    def prepare(self) -> dict[int, tuple[int, int]]:
        """Topics, and a coordinator that serves; returns what the broker serves."""
        ask = self.session.connection.ask
        topics = [
            CreatableTopic(name=name, num_partitions=self.theme.partitions, replication_factor=1)
            for name in self.knowledge.topic_names[: self.theme.topics]
        ]
        self.knowledge.learn(ApiKey.CREATE_TOPICS, None, ask(m.CreateTopicsRequest(topics=topics), 7), nobody())
        for name in self.knowledge.topic_names[: self.theme.topics]:
            self.session.until_it_serves(name, self.theme.partitions)
        wanted = [MetadataRequestTopic(name=topic.name) for topic in topics]
        self.knowledge.learn(ApiKey.METADATA, None, ask(m.MetadataRequest(topics=wanted), 12), nobody())
        for group in self.knowledge.groups:
            self.session.coordinator_serves(group)
        for name in self.knowledge.transactional_ids:
            self._warm_up(name)
        self.theme.warm_up(ask, self.knowledge)
        answer = ask(m.ApiVersionsRequest(), 0)
        lowest = {int(ApiKey.PRODUCE): 3}
        return {
            each.api_key: (max(lowest.get(each.api_key, 0), each.min_version), each.max_version)
            for each in answer.api_keys
        }

    def _warm_up(self, transactional_id: str) -> None:
        """Waits for its coordinator."""
        ask = self.session.connection.ask
        find = m.FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        begin = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        self.session.until(lambda: bool(ask(find, 4).coordinators[0].error_code == 0))
        self.session.until(lambda: bool(ask(begin, 4).error_code == 0))

    def begin(self, served: dict[int, tuple[int, int]]) -> None:
        self.requests = self.theme.requests(self.rng, self.knowledge, served, patience=PATIENCE)

    def draw(self) -> Asked:
        while is_left_out(asked := self.requests.draw()):
            pass
        return asked

    def step(self, number: int, asked: Asked) -> list[Event]:
        """Asks, and gives what was answered before all is quiet."""
        is_held = asked.key in HELD
        connection = self.session.connect() if is_held else self.session.connection
        connection.send(asked.message, asked.version)
        self._waiting[number] = (connection, asked)
        if asked.key is ApiKey.PRODUCE and asked.message.acks == 0:
            del self._waiting[number]
            self.session.connection = self.session.connect()
            time.sleep(SETTLE_S)
            return []
        deadline = time.monotonic() + (SETTLE_S if is_held else ANSWER_S)
        events: list[Event] = []
        while self._waiting and (left := deadline - time.monotonic()) > 0:
            events += self._receive(left)
            if number not in self._waiting:
                deadline = min(deadline, time.monotonic() + (SETTLE_S if asked.key in SETTLING else 0))
                if asked.key not in SETTLING:
                    break
        if not is_held and self._waiting.pop(number, None) is not None:
            self.session.connection = self.session.connect()
            events.append(Event(number, asked.key, "no answer"))
        if asked.key in SETTLING and not self._waiting:
            time.sleep(TOPICS_S if any(map(_makes_topics, events)) else SETTLE_S / 3)
        return sorted(events, key=lambda event: event.step)

    def late(self) -> list[Event]:
        """What comes after all, where the other side had more to say."""
        return self._receive(LATE_S) if self._waiting else []

    def learn(self) -> None:
        """Both sides learn of a step's answers in the same order."""
        for _, asked, answer in sorted(self._answered, key=lambda row: row[0]):
            self.knowledge.learn(asked.key, asked.message, answer, asked.subject)
        self._answered.clear()

    def _receive(self, timeout_s: float) -> list[Event]:
        by_socket = {connection._socket: number for number, (connection, _) in self._waiting.items()}
        ready, _, _ = select.select(list(by_socket), [], [], timeout_s)
        events = []
        for each in ready:
            number = by_socket[each]
            connection, asked = self._waiting.pop(number)
            try:
                answer = connection.receive(asked.message, asked.version)
            except Closed:
                if connection is self.session.connection:
                    self.session.connection = self.session.connect()
                events.append(Event(number, asked.key, "closed"))
                continue
            self._answered.append((number, asked, answer))
            events.append(Event(number, asked.key, pruned(self.normalised(answer, asked.version))))
        return events

    def normalised(self, message: Any, version: int) -> Any:
        """As tests/conformance/wire has it, without what other sequences left behind."""
        return self._unnamed(self.session.normalised(message, version, keep=self._is_own))

    def _unnamed(self, value: Any) -> Any:
        """Ids of members, whatever they are made of: a client's id and a random part, or the random part alone."""
        if isinstance(value, dict):
            return {
                name: sorted_assignment(each)
                if name == "assignment" and isinstance(each, str)
                else sorted(re.split(r"[ ,]+", each))  # Topics in the order of a hash map.
                if name == "status_detail"
                else "<producer>"
                if name.endswith("producer_id") and isinstance(each, int) and each >= 0
                else self._unnamed(each)
                for name, each in value.items()
                if not (name in self.theme.not_compared and (name == "assignment" or each not in (0, -1, -2, None)))
            }
        if isinstance(value, list):
            rows = [self._unnamed(each) for each in value]
            is_named = bool(rows) and isinstance(rows[0], dict) and any(name in rows[0] for name in NAMES)
            return sorted(rows, key=lambda row: [str(row.get(name)) for name in NAMES]) if is_named else rows
        if isinstance(value, float) and isnan(value):
            return "<no number>"  # which is not equal to itself
        if not isinstance(value, str):
            return value
        if SHORT_ID.fullmatch(value) and self.knowledge.suffix not in value:
            return self.session._id(value)
        return NAMED_ID.sub(r"\1", value)

    def _is_own(self, row: Any) -> bool:
        name = getattr(row, "name", None)
        if isinstance(name, str) and name.startswith(SETTINGS_NOT_COMPARED):
            return False
        if type(row).__name__ == "DescribeLogDirsTopic" and row.name.startswith("__"):
            return False  # What coordinators write is not compared byte by byte.
        marks = re.findall(r"-s(\w+)", repr(row)) if type(row).__name__ in LISTED else ()
        return self._mark in marks or (not marks and type(row).__name__ != "ListedGroup")

    def close(self) -> None:
        """Takes back what is everybody's, and the topics: pages of topics are those of all."""
        ask = self.session.connect().ask
        for request, version in self.theme.undo(self.knowledge.suffix):
            ask(request, version)
        made = ask(m.MetadataRequest(topics=None), 12).topics
        ours = [topic.name for topic in made if topic.name and topic.name.endswith(self.knowledge.suffix)]
        ask(m.DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ours], timeout_ms=10_000), 6)
        self.session.close()
