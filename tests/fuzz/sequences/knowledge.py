"""What the answers so far have told: members and their epochs, producers, topics and their ids, fetch sessions.

It keeps what is over, too (a topic that was deleted, a member that left): requests that come late name it.

I1  Nothing here grows without bound: of each kind the latest KEPT are known.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from kavka.protocol.api import ApiKey
from kavka.protocol.schema import ZERO_UUID

T = TypeVar("T")
KEPT: Final = 40
"""Members, sessions and acquired records that are known at a time."""
NONE, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 0, 79, 27
OVER_FOR_MEMBERS: Final = frozenset({22, 25, 82, 110})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH"""
OVER_FOR_PRODUCERS: Final = frozenset({47, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED"""
OF_THEIR_OWN: Final = 0.7
"""How often a member joins a group that is mostly of its protocol."""
KINDS: Final = (
    ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,
)  # fmt: skip
GROUPS: Final = tuple(f"group-{number}" for number in range(8))
TRANSACTIONAL_IDS: Final = tuple(f"txn-{number}" for number in range(5))
TOPICS: Final = tuple(f"topic-{number}" for number in range(6))
STREAMS_MEMBERS: Final = "@ABCDEFGH"
"""Names that a hash map has in their order: so Kafka goes over members, and kavka in that of names always."""
INSTANCES: Final = ("instance-0", "instance-1", "instance-2")


@dataclass(slots=True)
class Member:
    """A member of a group of any protocol, as its last answer had it."""

    group: str
    kind: ApiKey
    """JOIN_GROUP, or which heartbeats are its."""
    member_id: str = ""
    epoch: int = 0
    """A generation, or a member's epoch."""
    former_epoch: int = 0
    """That of the answer before the member had another one."""
    has_new_epoch: bool = False
    """Whether the last answer had another one than that before."""
    instance: str | None = None
    protocol: str | None = None
    members: list[str] = field(default_factory=list)
    """A leader's: whom it gives partitions."""
    owned: list[tuple[UUID, list[int]]] = field(default_factory=list)
    tasks: dict[str, list[tuple[str, list[int]]]] = field(default_factory=dict)
    """Of a streams member: partitions by subtopology, of the active tasks, the standbys and those that warm up."""
    says_nothing: bool = False
    """Whether its next heartbeat says nothing of the tasks that it has."""
    share_epoch: int = 0
    acquired: list[tuple[UUID, int, int, int]] = field(default_factory=list)
    """Topic, partition, first and last offset."""

    def take(self, member_id: str, epoch: int) -> None:
        """What the answer to a heartbeat says."""
        self.has_new_epoch = epoch != self.epoch
        if self.has_new_epoch:
            self.former_epoch = self.epoch
        self.member_id, self.epoch = member_id, epoch


@dataclass(slots=True)
class Transaction:
    """A transactional producer, or one without an id."""

    transactional_id: str | None
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class Topic:
    """A topic of one id."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: int = 2
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """A fetch session."""

    session_id: int = 0
    epoch: int = 0


@dataclass(slots=True)
class Subject:
    """Whom a request is about."""

    member: Member
    transaction: Transaction
    topic: Topic
    session: Session


class Knowledge:
    """`learn` takes answers, `subject` says about whom the next request may be."""

    def __init__(self, rng: random.Random, suffix: str = "") -> None:
        """`suffix`: of all names, where several runs share a broker."""
        self._rng, self.suffix = rng, suffix
        self.of_their_own = OF_THEIR_OWN
        self.groups = tuple(name + suffix for name in GROUPS)
        self.transactional_ids = tuple(name + suffix for name in TRANSACTIONAL_IDS)
        self.topic_names = tuple(name + suffix for name in TOPICS)
        self.members: deque[Member] = deque(maxlen=KEPT)
        self.transactions: deque[Transaction] = deque(maxlen=KEPT)
        self.topics: deque[Topic] = deque((Topic(name) for name in self.topic_names), maxlen=KEPT)
        self.sessions: deque[Session] = deque(maxlen=KEPT)
        self.next: deque[tuple[ApiKey, Subject]] = deque(maxlen=KEPT)
        """What a client by the book would ask now."""

    def subject(self, kind: ApiKey | None) -> Subject:
        """`kind`: of the members that requests of this API are about, for the most part."""
        return Subject(self._member(kind), self._transaction(), self._topic(), self._session())

    def _member(self, kind: ApiKey | None) -> Member:
        rng = self._rng
        fitting = [each for each in self.members if each.kind is kind] if rng.random() < 0.85 else self.members
        if fitting and rng.random() < 0.75:
            return self._recent(list(fitting))
        kind = kind or rng.choice(KINDS)
        turn = KINDS.index(kind) * 2
        group = rng.choice(self.groups[turn : turn + 2] if rng.random() < self.of_their_own else self.groups)
        member = Member(group, kind)
        if rng.random() < 0.3:
            member.instance = rng.choice(INSTANCES)
        if member.kind is ApiKey.STREAMS_GROUP_HEARTBEAT:
            member.member_id = rng.choice(STREAMS_MEMBERS)
        elif member.kind is not ApiKey.JOIN_GROUP or rng.random() < 0.1:
            member.member_id = str(UUID(int=rng.getrandbits(128)))
        return member

    def _transaction(self) -> Transaction:
        with_id = [each for each in self.transactions if each.transactional_id is not None]
        known = with_id if with_id and self._rng.random() < 0.8 else list(self.transactions)
        if known and self._rng.random() < 0.85:
            return self._recent(known)
        return Transaction(self._rng.choice(self.transactional_ids) if self._rng.random() < 0.85 else None)

    def _topic(self) -> Topic:
        return self._recent(list(self.topics)) if self._rng.random() < 0.5 else self._rng.choice(self.topics)

    def _session(self) -> Session:
        if self.sessions and self._rng.random() < 0.7:
            return self._recent(list(self.sessions))
        return Session()

    def _recent(self, known: list[T]) -> T:
        """The latest is likeliest."""
        back = min(int(self._rng.expovariate(0.3)), len(known) - 1)
        return known[-1 - back]

    def learn(self, key: ApiKey, request: Any, answer: Any, subject: Subject) -> None:
        """Takes what an answer tells about its subject."""
        learn = _LEARN.get(key)
        if learn is not None:
            learn(self, request, answer, subject)
        code = getattr(answer, "error_code", NONE)
        if code in OVER_FOR_MEMBERS and self._rng.random() < 0.7:
            self.members = deque((each for each in self.members if each is not subject.member), maxlen=KEPT)
        if code in OVER_FOR_PRODUCERS and self._rng.random() < 0.7:
            left = (each for each in self.transactions if each is not subject.transaction)
            self.transactions = deque(left, maxlen=KEPT)

    def _keep_member(self, member: Member) -> None:
        if not any(each is member for each in self.members):
            self.members.append(member)

    def _joined(self, request: Any, answer: Any, subject: Subject) -> None:
        member = subject.member
        if request.group_id != member.group or answer.error_code not in (NONE, MEMBER_ID_REQUIRED):
            return
        member.kind, member.member_id = ApiKey.JOIN_GROUP, answer.member_id
        member.instance = request.group_instance_id
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.next.append((ApiKey.JOIN_GROUP, subject))
        if answer.error_code == NONE:
            member.epoch, member.protocol = answer.generation_id, answer.protocol_name
            member.members = [each.member_id for each in answer.members]
            self.next.append((ApiKey.SYNC_GROUP, subject))
        self._keep_member(member)

    def _synced(self, request: Any, answer: Any, subject: Subject) -> None:
        if answer.error_code == REBALANCE_IN_PROGRESS:
            self.next.append((ApiKey.JOIN_GROUP, subject))

    def _beat(self, request: Any, answer: Any, subject: Subject) -> None:
        member = subject.member
        if answer.error_code != NONE or request.group_id != member.group:
            return
        is_share = not hasattr(request, "instance_id")
        member.kind = ApiKey.SHARE_GROUP_HEARTBEAT if is_share else ApiKey.CONSUMER_GROUP_HEARTBEAT
        member.take(answer.member_id or request.member_id, answer.member_epoch)
        if not is_share:
            member.instance = request.instance_id
        if answer.assignment is not None and not is_share:
            member.owned = [(each.topic_id, list(each.partitions)) for each in answer.assignment.topic_partitions]
        self._keep_member(member)
        self.next.append((ApiKey.SHARE_FETCH if is_share else member.kind, subject))

    def _beat_streams(self, request: Any, answer: Any, subject: Subject) -> None:
        member = subject.member
        if answer.error_code != NONE or request.group_id != member.group:
            return
        member.kind = ApiKey.STREAMS_GROUP_HEARTBEAT
        member.take(answer.member_id or request.member_id, answer.member_epoch)
        told = {"active": answer.active_tasks, "standby": answer.standby_tasks, "warmup": answer.warmup_tasks}
        for kind, rows in told.items():
            if rows is not None:
                member.tasks[kind] = [(each.subtopology_id, sorted(each.partitions)) for each in rows]
        member.says_nothing = self._rng.random() < 0.4
        self._keep_member(member)
        self.next.append((member.kind, subject))

    def _shared(self, request: Any, answer: Any, subject: Subject) -> None:
        member = subject.member
        if answer.error_code != NONE or request.member_id != member.member_id:
            return
        member.share_epoch = 0 if request.share_session_epoch < 0 else request.share_session_epoch + 1
        for topic in answer.responses:
            for one in topic.partitions:
                for each in getattr(one, "acquired_records", ()):
                    row = (topic.topic_id, one.partition_index, each.first_offset, each.last_offset)
                    member.acquired = [*member.acquired[-KEPT:], row]
        if member.acquired:
            self.next.append((ApiKey.SHARE_ACKNOWLEDGE, subject))

    def _fetched(self, request: Any, answer: Any, subject: Subject) -> None:
        if answer.error_code == NONE and answer.session_id:
            subject.session.session_id, subject.session.epoch = answer.session_id, max(request.session_epoch, 0) + 1
            if not any(each is subject.session for each in self.sessions):
                self.sessions.append(subject.session)

    def _initialised(self, request: Any, answer: Any, subject: Subject) -> None:
        if answer.error_code == NONE:
            made = Transaction(request.transactional_id, answer.producer_id, answer.producer_epoch)
            self.transactions.append(made)
            subject.transaction = made
            if made.transactional_id is not None:
                self.next.append((ApiKey.ADD_PARTITIONS_TO_TXN, subject))

    def _added(self, request: Any, answer: Any, subject: Subject) -> None:
        self.next.append((self._rng.choice((ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)), subject))

    def _ended(self, request: Any, answer: Any, subject: Subject) -> None:
        if answer.error_code == NONE and answer.producer_id >= 0:
            subject.transaction.producer_id = answer.producer_id
            subject.transaction.producer_epoch = answer.producer_epoch

    def _produced(self, request: Any, answer: Any, subject: Subject) -> None:
        for topic in answer.responses:
            for one in topic.partition_responses:
                if one.error_code == NONE:
                    subject.topic.ends[one.index % 8] = one.base_offset + 1
        if request.transactional_id is not None:
            self.next.append((ApiKey.END_TXN, subject))

    def _created(self, request: Any, answer: Any, subject: Subject) -> None:
        if request is not None and request.validate_only:
            return
        for topic in answer.topics:
            if topic.error_code == NONE:
                self.topics.append(Topic(topic.name, topic.topic_id, max(topic.num_partitions, 1)))

    def _described(self, request: Any, answer: Any, subject: Subject) -> None:
        for topic in answer.topics:
            if topic.error_code == NONE and topic.topic_id != ZERO_UUID and topic.name in self.topic_names:
                known = [each for each in self.topics if each.topic_id == topic.topic_id]
                if known:
                    known[0].partitions = len(topic.partitions)
                else:
                    self.topics.append(Topic(topic.name, topic.topic_id, len(topic.partitions)))


_LEARN: Final[dict[ApiKey, Callable[[Knowledge, Any, Any, Subject], None]]] = {
    ApiKey.JOIN_GROUP: Knowledge._joined,
    ApiKey.SYNC_GROUP: Knowledge._synced,
    ApiKey.HEARTBEAT: Knowledge._synced,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Knowledge._beat,
    ApiKey.SHARE_GROUP_HEARTBEAT: Knowledge._beat,
    ApiKey.STREAMS_GROUP_HEARTBEAT: Knowledge._beat_streams,
    ApiKey.SHARE_FETCH: Knowledge._shared,
    ApiKey.SHARE_ACKNOWLEDGE: Knowledge._shared,
    ApiKey.FETCH: Knowledge._fetched,
    ApiKey.INIT_PRODUCER_ID: Knowledge._initialised,
    ApiKey.ADD_PARTITIONS_TO_TXN: Knowledge._added,
    ApiKey.ADD_OFFSETS_TO_TXN: Knowledge._added,
    ApiKey.TXN_OFFSET_COMMIT: Knowledge._added,
    ApiKey.END_TXN: Knowledge._ended,
    ApiKey.PRODUCE: Knowledge._produced,
    ApiKey.CREATE_TOPICS: Knowledge._created,
    ApiKey.METADATA: Knowledge._described,
}
