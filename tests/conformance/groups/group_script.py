"""GroupScript: what members of groups of both protocols ask, right and wrong, and what a broker answers, as notes.

A script plays on Apache Kafka and on kavka, and the notes are compared. It decides what of an answer may differ between
two brokers that behave alike: the ids of members (here they are the names that the script gives them) and of topics.

Every member has a connection of its own, since joins and syncs wait for other members. What is not answered in time is
noted as such: Apache Kafka never answers a join whose decision failed after it was taken in.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kavka.coordinator.groups.classic.decide.consumer_protocol import decode_assignment
from kavka.errors import ErrorCode, ProtocolViolation
from kavka.protocol import messages as m
from kavka.protocol.codec import encode
from kavka.protocol.messages import (
    consumer_protocol_assignment,
    consumer_protocol_subscription,
    create_topics_request,
    join_group_request,
    leave_group_request,
    sync_group_request,
)
from kavka.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from tests.kit.broker_client import BrokerClient, Closed

TOPIC, OTHER = "shared", "other"
PARTITIONS = 12
"""As many for each of 1, 2, 3, 4 or 6 members: which of several has one more depends on their ids."""
JOIN, SYNC, BEAT, LEAVE, CONSUMER_BEAT = 9, 5, 4, 5, 1
"""Versions that both brokers serve."""
ANSWER_TIMEOUT_S = 12.0
SETTLE_S = 60.0
_WITH_MEMBER_ID = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)


def subscription(
    *topics: str,
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = -1,
    version: int = 3,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """A consumer's subscription, as Java's clients write it."""
    of = consumer_protocol_subscription
    parts = [of.TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in (owned or {}).items()]
    fields: dict[str, Any] = {"topics": list(topics or (TOPIC,)), "user_data": user_data}
    if version >= 1:
        fields["owned_partitions"] = parts
    if version >= 2:
        fields["generation_id"] = generation
    if version >= 3:
        fields["rack_id"] = rack
    return version.to_bytes(2, "big") + encode(of.ConsumerProtocolSubscription(**fields), version)


def assignment(parts: Mapping[str, Sequence[int]], *, version: int = 3, user_data: bytes | None = None) -> bytes:
    """What a leader gives a member, as Java's clients write it."""
    of = consumer_protocol_assignment
    assigned = [of.TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in parts.items()]
    message = of.ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=user_data)
    return version.to_bytes(2, "big") + encode(message, version)


class GroupScript:
    """Talks to the broker at `port`. `notes` has what was asked, in short, and what came of it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.notes: list[tuple[object, ...]] = []
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.has: dict[str, list[int]] = {}
        """What each member was given of TOPIC: by a heartbeat or by a sync."""
        self.instances: dict[str, str | None] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self._leaders: dict[str, str] = {}
        self._clients: dict[str, BrokerClient] = {}
        self._held: dict[str, Any] = {}
        self._group = f"g-{uuid.uuid4().hex[:8]}"

    def client(self, who: str) -> BrokerClient:
        if who not in self._clients:
            self._clients[who] = BrokerClient(self.port, timeout_s=ANSWER_TIMEOUT_S)
        return self._clients[who]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def prepare(self) -> None:
        """Topics are there, and groups are served."""
        admin = self.client("")
        topics = [
            create_topics_request.CreatableTopic(
                name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
            )
            for name in (TOPIC, OTHER)
        ]
        admin.ask(m.CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        for name in (TOPIC, OTHER):
            self._until(lambda name=name: bool(self._topic_id(name).int))
        self._until(self._is_served)

    def _topic_id(self, name: str) -> uuid.UUID:
        found = self.client("").ask(m.MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
        self.topic_ids[name] = found.topics[0].topic_id
        return self.topic_ids[name]

    def _is_served(self) -> bool:
        admin = self.client("")
        found = admin.ask(m.FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group]), 4)
        if found.coordinators[0].error_code:
            return False
        answer = admin.ask(m.HeartbeatRequest(group_id=self._group, generation_id=1, member_id="nobody"), BEAT)
        return bool(answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID)

    def taken_in(self, *, members: int, state: str = "PreparingRebalance") -> None:
        """Waits until the broker has taken in what is on its way: so many members, and this state."""

        def found() -> bool:
            group = self.client("").ask(m.DescribeGroupsRequest(groups=[self._group]), 5).groups[0]
            return len(group.members) == members and group.group_state == state

        self._until(found)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def new_group(self) -> None:
        """What follows is of another group, with members that nobody knows."""
        self._group = f"g-{uuid.uuid4().hex[:8]}"
        self.ids.clear()
        self.generations.clear()
        self.epochs.clear()
        self.has.clear()
        self.instances.clear()
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._held.clear()

    # -- asking

    def _ask(self, who: str, request: Any, version: int) -> Any:
        """The answer; "closed" or "no answer" where there is none."""
        client = self.client(who)
        try:
            client.send(request, version)
        except Closed:
            del self._clients[who]
            return "closed"
        return self._receive(who, request, version)

    def _receive(self, who: str, request: Any, version: int) -> Any:
        try:
            return self.client(who).receive(request, version)
        except Closed:
            del self._clients[who]
            return "closed"
        except TimeoutError:
            self._clients.pop(who).close()
            return "no answer"

    def _name(self, member_id: str) -> str:
        return next(
            (name for name, known in self.ids.items() if known == member_id and name), "" if not member_id else "?"
        )

    def _id(self, who: str) -> str:
        return self.ids.get(who, "")

    # -- the classic protocol

    def join(
        self,
        who: str,
        *names: str,
        metadata: bytes | Mapping[str, bytes] | None = None,
        instance: str | None = None,
        member: str | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        version: int = JOIN,
        answered: bool = True,
    ) -> Any:
        """A JoinGroup with the protocols `names`; `member` is the id to send, the one that `who` has where None.

        With `answered` False it stays on its way until `joined`.
        """
        said = subscription() if metadata is None else metadata
        wanted = [
            join_group_request.JoinGroupRequestProtocol(
                name=name, metadata=said if isinstance(said, bytes) else said[name]
            )
            for name in names
        ]
        self.instances[who] = instance
        request = m.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self._id(who) if member is None else member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=wanted,
        )
        if not answered:
            self.client(who).send(request, version)
            self._held[who] = request, version
            return None
        return self._on_join(who, self._ask(who, request, version))

    def joined(self, *who: str) -> None:
        """The answers to what is on its way."""
        for each in who:
            request, version = self._held.pop(each)
            self._on_join(each, self._receive(each, request, version))

    def _on_join(self, who: str, answer: Any) -> Any:
        if isinstance(answer, str):
            self.notes.append(("join", who, answer))
            return answer
        error = ErrorCode(answer.error_code)
        if error in _WITH_MEMBER_ID:
            self.ids[who] = answer.member_id
        if error is ErrorCode.NONE:
            self.generations[who] = answer.generation_id
            self._leaders[who] = answer.leader
        self.notes.append(
            (
                "join",
                who,
                error.name,
                answer.generation_id,
                answer.protocol_type,
                answer.protocol_name,
                self._name(answer.leader),
                answer.skip_assignment,
                # Whose join failed gets its id back from classic groups only, and needs it in neither case.
                self._name(answer.member_id) if error in _WITH_MEMBER_ID else "",
                sorted((self._name(member.member_id), member.metadata.hex()) for member in answer.members),
            )
        )
        return answer

    def leads(self, who: str) -> bool:
        """Whether `who` leads the generation that it is in."""
        return self._leaders.get(who) == self._id(who)

    def known(self, *who: str) -> None:
        """Gives new dynamic members their ids, without a note."""
        for each in who:
            before = len(self.notes)
            self.join(each, "range")
            del self.notes[before:]

    def sync(
        self,
        who: str,
        parts: Mapping[str, bytes] | None = None,
        *,
        name: str | None = "range",
        generation: int | None = None,
        version: int = SYNC,
        protocol_type: str | None = "consumer",
        answered: bool = True,
    ) -> Any:
        """A SyncGroup; of a leader with `parts`, by members' names."""
        request = m.SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generations.get(who, -1) if generation is None else generation,
            member_id=self._id(who),
            group_instance_id=self.instances.get(who) if version >= 3 else None,
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=name if version >= 5 else None,
            assignments=[
                sync_group_request.SyncGroupRequestAssignment(member_id=self._id(each), assignment=part)
                for each, part in (parts or {}).items()
            ],
        )
        if not answered:
            self.client(who).send(request, version)
            self._held[who] = request, version
            return None
        return self._on_sync(who, self._ask(who, request, version))

    def synced(self, *who: str) -> None:
        for each in who:
            request, version = self._held.pop(each)
            self._on_sync(each, self._receive(each, request, version))

    def _on_sync(self, who: str, answer: Any) -> Any:
        if isinstance(answer, str):
            self.notes.append(("sync", who, answer))
            return answer
        found: object = answer.assignment.hex()
        try:
            self.has[who] = list(decode_assignment(answer.assignment).partitions.get(TOPIC, []))
            # Which partitions the broker's own assignor gives to whom may differ; how many not.
            version = answer.assignment[:2].hex()
            found = (
                version,
                {name: len(parts) for name, parts in decode_assignment(answer.assignment).partitions.items()},
            )
        except ProtocolViolation:
            pass
        self.notes.append(("sync", who, ErrorCode(answer.error_code).name, answer.protocol_name, found))
        return answer

    def heartbeat(self, who: str, *, generation: int | None = None) -> None:
        request = m.HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generations.get(who, -1) if generation is None else generation,
            member_id=self._id(who),
            group_instance_id=self.instances.get(who),
        )
        answer = self._ask(who, request, BEAT)
        self.notes.append(("heartbeat", who, answer if isinstance(answer, str) else ErrorCode(answer.error_code).name))

    def leave(self, *identities: tuple[str, str | None], version: int = LEAVE, by: str = "") -> None:
        """A LeaveGroup of members by (name of the member or an id that nobody has, instance id)."""
        request = m.LeaveGroupRequest(
            group_id=self._group,
            member_id=self.ids.get(identities[0][0], identities[0][0]) if version < 3 and identities else "",
            members=[
                leave_group_request.MemberIdentity(member_id=self.ids.get(who, who), group_instance_id=instance)
                for who, instance in identities
            ]
            if version >= 3
            else [],
        )
        answer = self._ask(by, request, version)
        if isinstance(answer, str):
            self.notes.append(("leave", identities, answer))
            return
        each = [
            (self._name(one.member_id), one.group_instance_id, ErrorCode(one.error_code).name)
            for one in (answer.members or [])
        ]
        self.notes.append(("leave", identities, ErrorCode(answer.error_code).name, each))

    def classic(self, who: str, *names: str, parts: Mapping[str, Sequence[int]] | None = None, **more: Any) -> None:
        """A classic group of one, with its assignment."""
        instance = more.get("instance")
        if instance is None:
            self.known(who)
        self.join(who, *(names or ("range",)), **more)
        self.sync(who, {who: assignment(parts or {TOPIC: range(PARTITIONS)})}, name=(names or ("range",))[0])

    # -- the newer protocol

    def beat(
        self,
        who: str,
        epoch: int | None = None,
        *,
        owned: Sequence[int] | None = None,
        instance: str | None = None,
        version: int = CONSUMER_BEAT,
        **fields: Any,
    ) -> Any:
        """A ConsumerGroupHeartbeat in the epoch that `who` knows; at 0 a whole one, unless `fields` say otherwise."""
        epoch = self.epochs.get(who, 0) if epoch is None else epoch
        values: dict[str, Any] = {}
        if epoch == 0:
            values = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [TOPIC]}
            owned = [] if owned is None else owned
        values.update(fields)
        if owned is not None:
            part = TopicPartitions(topic_id=self.topic_ids[TOPIC], partitions=list(owned))
            values["topic_partitions"] = [part] if owned else []
        self.instances[who] = instance
        self.ids.setdefault(who, f"member-{who}-of-this-script")
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._id(who), member_epoch=epoch, instance_id=instance, **values
        )
        answer = self._ask(who, request, version)
        if isinstance(answer, str):
            self.notes.append(("beat", who, epoch, answer))
            return answer
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self.epochs[who] = answer.member_epoch
            self.ids[who] = answer.member_id or self.ids[who]
        told = answer.assignment
        if told is not None:
            wanted = self.topic_ids[TOPIC]
            self.has[who] = [
                number for part in told.topic_partitions if part.topic_id == wanted for number in part.partitions
            ]
        counts = None if told is None else sorted(len(part.partitions) for part in told.topic_partitions)
        message = (answer.error_message or "").replace(self._group, "<group>")
        for name, member_id in self.ids.items():
            message = message.replace(member_id, f"<{name}>") if member_id else message
        self.notes.append(("beat", who, epoch, error.name, message, answer.member_epoch, counts))
        return answer

    # -- looking

    def describe(self) -> None:
        """The group under both protocols."""
        found = self._ask("", m.ConsumerGroupDescribeRequest(group_ids=[self._group]), 1)
        if isinstance(found, str):
            self.notes.append(("describe", found))
        else:
            one = found.groups[0]
            self.notes.append(
                (
                    "describe",
                    ErrorCode(one.error_code).name,
                    one.group_state,
                    one.group_epoch,
                    one.assignment_epoch,
                    sorted(
                        (
                            self._name(member.member_id),
                            member.instance_id,
                            member.member_epoch,
                            member.member_type,
                            sum(len(part.partitions) for part in member.assignment.topic_partitions),
                            sum(len(part.partitions) for part in member.target_assignment.topic_partitions),
                        )
                        for member in one.members
                    ),
                )
            )
        found = self._ask("", m.DescribeGroupsRequest(groups=[self._group]), 5)
        if isinstance(found, str):
            self.notes.append(("describe classic", found))
            return
        old = found.groups[0]
        # Of a group that is rebalancing 4.3 shows the former assignment; 3.9 and kavka do not.
        is_stable = old.group_state == "Stable"
        self.notes.append(
            (
                "describe classic",
                old.group_state,
                old.protocol_type,
                old.protocol_data,
                sorted(
                    (
                        self._name(member.member_id),
                        member.group_instance_id,
                        len(member.member_assignment) if is_stable else 0,
                    )
                    for member in old.members
                ),
            )
        )
