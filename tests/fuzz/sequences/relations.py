"""Requests whose answers must agree, amid those of all others: a wrong answer breaks no rule that a broker could know.

The sequences of clients.py see a halt, a closed connection, an answer that cannot be read. They do not see an answer
that is well formed and wrong. Here the same is asked in two ways, and both answers must say the same:

    V1  wherever a topic has an id, the id counts: what stands beside it does not, and by its name it is the same topic
    V2  a member is the same one by its id, by its instance id, and by both, in groups of either protocol
    V3  a refusal of records names each that is to blame and no other: the rest is accepted, and each of them is not
    V4  a static member that comes back for the same topics leaves its group's generation alone, whatever else it says
    V5  records that nobody can read harm who reads them: the same request is answered alike for another partition
    V6  what any broker may be asked for, each of them answers alike; what a replica may be asked for, each replica
    V7  who names a generation, an epoch of a member, of a producer or of a session, after an answer said that there is
        a later one, is refused, and nothing comes of it; what a session has forgotten is not in its answers
    V8  who reads what transactions committed finds the same from each offset on, wherever the reading begins
    V9  a batch of an idempotent producer that comes again, as one of its last five, has the offset that it had; one
        with a gap before it is refused

Topics, groups and members are of the relation's own, with names that no other request has, so that no other client can
be the reason. Nothing is compared where what comes before did not succeed: features are switched off and on meanwhile.

Source: metamorphic testing (Chen et al., 1998; Segura et al., TSE 2016): relations between answers where no answer is
known beforehand.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.codec import encode
from kavka.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kavka.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kavka.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedPartitions,
)
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from kavka.protocol.messages.describe_producers_request import TopicRequest as ProducersOf
from kavka.protocol.messages.describe_topic_partitions_request import TopicRequest as PartitionsOf
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic, ForgottenTopic
from kavka.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kavka.protocol.messages.leave_group_request import MemberIdentity
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.protocol.messages.sync_group_request import SyncGroupRequestAssignment
from kavka.protocol.schema import Message, Struct
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from tests.fuzz.sequences.asker import Asker
from tests.kit.believed_batches import KINDS, LATEST_MS, believed, over_the_end

PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)  # fmt: skip
TRIES: Final = 50
PAUSE_S: Final = 0.1
FOREVER: Final = str(LATEST_MS)
LARGEST: Final = -3
NEVER_DELETED: Final = (("retention.ms", "-1"), ("retention.bytes", "-1"))
"""Records here are of 1970, or of no time at all."""
TOO_LATE_MS: Final = 2**62
SESSION_MS: Final = 60_000
PARTITIONS: Final = 2
LAST_BATCHES: Final = 5
KNOWN_S: Final = 2.0
"""So long a producer is known at least, by the settings of a run (producer.id.expiration.ms)."""
ASSIGNORS: Final = ("cooperative-sticky", "range")


class Disagree(AssertionError):
    """Two answers that must say the same do not."""


@dataclass(slots=True)
class _Writer:
    """A producer with transactions, and its next sequence in the one partition that it writes to."""

    name: str
    producer_id: int
    epoch: int
    sequence: int = 0


class Relations:
    """Asks one broker; `count` tells what was compared."""

    def __init__(self, asker: Asker, rng: random.Random) -> None:
        self._asker, self._rng = asker, rng
        self._made = 0
        self.count: Counter[str] = Counter()

    async def round(self) -> None:
        """Each relation once, in any order. Raises Disagree and ConnectionFailed."""
        relations = [
            self.ids_count,
            self.members_are_the_same,
            self.refusals_name_the_bad,
            self.returns_are_quiet,
            self.records_harm_their_readers_only,
            self.the_past_is_refused,
            self.committed_is_the_same_from_anywhere,
            self.batches_are_stored_once,
        ]
        self._rng.shuffle(relations)
        for relation in relations:
            await relation()

    def close(self) -> None:
        self._asker.close()

    # -- V1

    async def ids_count(self) -> None:
        """V1, of Metadata, Produce, Fetch, OffsetCommit, OffsetFetch and DeleteTopics."""
        topic, other = await self._topic(*NEVER_DELETED), await self._topic()
        if topic is None or other is None:
            return
        name, topic_id = topic
        by_name = await self._described([MetadataRequestTopic(name=name)])
        by_id = [MetadataRequestTopic(name=beside, topic_id=topic_id) for beside in (None, "", name, other[0])]
        for wanted in by_id:
            for more in ([], [MetadataRequestTopic(name=other[0])]):
                found = await self._described(self._shuffled([wanted, *more]))
                self._agree("V1: Metadata by name", by_name, f"by id, asked {[wanted, *more]}", found)
        await self._same_records(name, topic_id)
        await self._same_offsets(name, topic_id)
        await self._deleted_by_id(name, topic_id)
        await self._delete(other[1])

    async def _described(self, wanted: Sequence[MetadataRequestTopic]) -> list[object]:
        request = m.MetadataRequest(topics=list(wanted), allow_auto_topic_creation=False)
        return [_plain(each) for each in (await self._ask(request, 12)).topics]

    async def _same_records(self, name: str, topic_id: UUID) -> None:
        sent = await self._produce(topic_id, _batch([b"key"] * self._rng.randint(1, 4)))
        if sent.error_code:
            return
        at = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = m.FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[at])])
        answers = [await self._ask(fetch, version) for version in (12, 13, 17)]
        seen = [
            (answer.error_code, [(one.error_code, one.high_watermark, bytes(one.records or b"")) for one in rows])
            for answer in answers
            for rows in [answer.responses[0].partitions if answer.responses else []]
        ]
        self._agree("V1: Fetch 12 by name", seen[0], "13 by id", seen[1])
        self._agree("V1: Fetch 12 by name", seen[0], "17 by id", seen[2])

    async def _same_offsets(self, name: str, topic_id: UUID) -> None:
        group = self._name("group")
        where = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._rng.randint(0, 9))
        commit = m.OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[where])]
        )
        version = self._rng.choice((9, 10))
        committed = await self._until(lambda: self._ask(commit, version), lambda a: a.topics[0].partitions[0])
        if committed is None:
            return
        asked = OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0, 1])
        fetch = m.OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
        by_name, by_id = [
            [_plain(each) for each in (await self._ask(fetch, version)).groups[0].topics[0].partitions]
            for version in (9, 10)
        ]
        self._agree(f"V1: after OffsetCommit {version}, OffsetFetch by name", by_name, "by id", by_id)

    async def _deleted_by_id(self, name: str, topic_id: UUID) -> None:
        await self._delete(topic_id)
        answers = [
            (await self._described([wanted]))[0]
            for wanted in (MetadataRequestTopic(name=name), MetadataRequestTopic(name=None, topic_id=topic_id))
        ]
        codes = [answer["error_code"] for answer in answers if isinstance(answer, dict)]
        is_gone = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
        if any(code in (0, ErrorCode.LEADER_NOT_AVAILABLE) for code in codes) and any(map(bool, codes)):
            raise Disagree(f"V1: Metadata of a deleted topic by name and by id: {codes}, not {is_gone}")

    # -- V2

    async def members_are_the_same(self) -> None:
        """V2, of LeaveGroup."""
        topic = await self._topic()
        if topic is None:
            return
        for is_classic in (False, True):
            for names in ("instance", "id", "both"):
                await self._leave(topic[0], names, is_classic=is_classic)
        await self._delete(topic[1])

    async def _leave(self, topic: str, names: str, *, is_classic: bool) -> None:
        group, instance = self._name("group"), self._name("instance")
        joined = await (self._join if is_classic else self._beat)(group, instance, topic)
        if joined is None:
            return
        leaver = MemberIdentity(
            member_id="" if names == "instance" else joined, group_instance_id=None if names == "id" else instance
        )
        before = await self._members(group, is_classic=is_classic)
        left = await self._ask(m.LeaveGroupRequest(group_id=group, members=[leaver]), self._rng.choice((3, 4, 5)))
        after = await self._members(group, is_classic=is_classic)
        code = left.error_code or left.members[0].error_code
        if joined in before and joined in after:
            raise Disagree(f"V2: LeaveGroup by {names} is answered {_name_of(code)}, and {joined} is there as before")
        self.count["V2"] += joined in before

    async def _beat(self, group: str, instance: str, topic: str) -> str | None:
        """A member of the newer protocol."""
        member_id = str(UUID(int=self._rng.getrandbits(128)))
        beat = m.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            instance_id=instance,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        answer = await self._until(lambda: self._ask(beat, 1), lambda answer: answer)
        if answer is None:
            return None
        self._generation = answer.member_epoch
        member_id_given: str = answer.member_id
        return member_id_given

    async def _members(self, group: str, *, is_classic: bool) -> list[str]:
        if is_classic:
            described = await self._ask(m.DescribeGroupsRequest(groups=[group]), 5)
        else:
            described = await self._ask(m.ConsumerGroupDescribeRequest(group_ids=[group]), 1)
        return [member.member_id for member in described.groups[0].members]

    # -- V3

    async def refusals_name_the_bad(self) -> None:
        """V3, of Produce."""
        topic = await self._topic(("cleanup.policy", "compact"))
        if topic is None:
            return
        rng = self._rng
        count = rng.randint(2, 30)
        keys = [b"key" if rng.random() < 0.6 else None for _ in range(count)]
        times = [-1 if rng.random() < 0.8 else TOO_LATE_MS for _ in range(count)]
        codec = rng.choice((Compression.NONE, Compression.GZIP, Compression.LZ4))
        refused = await self._produce(topic[1], _batch(keys, times, codec))
        named = {each.batch_index for each in refused.record_errors}
        if refused.error_code and named:
            rest = [index for index in range(count) if index not in named]
            await self._is_taken(topic[1], keys, times, rest, named)
            for index in rng.sample(sorted(named), min(3, len(named))):
                alone = await self._produce(topic[1], _batch([keys[index]], [times[index]]))
                if not alone.error_code:
                    raise Disagree(f"V3: a refusal names record {index} of {count}, which alone is accepted")
            self.count["V3"] += 1
        await self._delete(topic[1])

    async def _is_taken(
        self, topic_id: UUID, keys: Sequence[bytes | None], times: Sequence[int], rest: Sequence[int], named: set[int]
    ) -> None:
        if not rest:
            return
        again = await self._produce(topic_id, _batch([keys[one] for one in rest], [times[one] for one in rest]))
        if again.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP):
            raise Disagree(
                f"V3: a refusal names the records {sorted(named)} of {len(keys)}, and without them it is "
                f"{_name_of(again.error_code)} again: {again.error_message}"
            )

    # -- V4

    async def returns_are_quiet(self) -> None:
        """V4, of JoinGroup."""
        topic = await self._topic()
        if topic is None:
            return
        group, instance = self._name("group"), self._name("instance")
        if await self._join(group, instance, topic[0]) is not None:
            request = self._joining(group, instance, topic[0])
            before = await self._stable(group)
            again = await self._ask(request, 9)
            if before and not again.error_code:
                self.count["V4"] += 1
                if again.generation_id != self._generation:
                    raise Disagree(
                        f"V4: a static member that comes back for the same topics begins generation "
                        f"{again.generation_id}, after {self._generation}"
                    )
            leaver = MemberIdentity(group_instance_id=instance)
            await self._ask(m.LeaveGroupRequest(group_id=group, members=[leaver]), 5)
        await self._delete(topic[1])

    async def _join(self, group: str, instance: str, topic: str, member_id: str = "") -> str | None:
        """A static member of the classic protocol, alone in its group and at rest. With `member_id` it leads the group
        already, and begins the next generation."""
        request = self._joining(group, instance, topic)
        request.member_id = member_id
        joined = await self._until(lambda: self._ask(request, 9), lambda answer: answer)
        if joined is None:
            return None
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=encode_assignment({topic: [0]}, 1))
        sync = m.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=[mine],
        )
        self._generation = joined.generation_id
        member_id: str = joined.member_id
        return None if (await self._ask(sync, 5)).error_code else member_id

    def _joining(self, group: str, instance: str, topic: str) -> m.JoinGroupRequest:
        """Each time with something else that is not the topics."""
        rng = self._rng
        owned = [OwnedPartitions(topic=topic, partitions=rng.sample(range(PARTITIONS), rng.randint(0, PARTITIONS)))]
        said = ConsumerProtocolSubscription(
            topics=[topic], user_data=rng.randbytes(4), owned_partitions=owned, generation_id=rng.randint(-1, 9)
        )
        metadata = (2).to_bytes(2, "big") + encode(said, 2)
        return m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in ASSIGNORS],
        )

    async def _stable(self, group: str) -> bool:
        described = await self._ask(m.DescribeGroupsRequest(groups=[group]), 5)
        return bool(described.groups[0].group_state == "Stable")

    # -- V5

    async def records_harm_their_readers_only(self) -> None:
        """V5, of ListOffsets. Where the whole connection is closed, ConnectionFailed tells it."""
        topic = await self._topic(("message.timestamp.after.max.ms", FOREVER), *NEVER_DELETED)
        if topic is None:
            return
        name, topic_id = topic
        bad = over_the_end() if self._rng.random() < 0.2 else self._believed()
        taken = await self._produce(topic_id, bad)
        good = await self._produce(topic_id, _batch([b"key"] * 2, [1, 2]), partition=1)
        if not taken.error_code and not good.error_code:
            for time in (0, 1, 2, LATEST_MS, LARGEST):
                alone, beside = await self._searched(name, time, 1), await self._searched(name, time, 0, 1)
                self._agree(
                    f"V5: ListOffsets for {time} in partition 1 alone", alone, "beside partition 0", beside[-1:]
                )
        await self._delete(topic_id)

    def _believed(self) -> bytes:
        """Of most kinds a search reads the first record only, which is good; of noise none is."""
        return believed("noise" if self._rng.random() < 0.5 else self._rng.choice(tuple(KINDS)))

    async def _searched(self, topic: str, time: int, *partitions: int) -> list[object]:
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=time) for index in partitions]
        request = m.ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
        return [_plain(each) for each in (await self._ask(request, 7)).topics[0].partitions]

    # -- V7

    async def the_past_is_refused(self) -> None:
        """V7, of OffsetCommit, Heartbeat and SyncGroup, of AddPartitionsToTxn and EndTxn, and of Fetch."""
        topic, other = await self._topic(*NEVER_DELETED), await self._topic()
        if topic is None or other is None:
            return
        await self._former_generation(topic[0])
        await self._former_epoch_of_a_member(topic[0], other[0])
        await self._former_epoch_of_a_producer(topic[0])
        await self._former_epoch_of_a_session(topic[1])
        for each in (topic, other):
            await self._delete(each[1])

    async def _former_generation(self, topic: str) -> None:
        group, instance = self._name("group"), self._name("instance")
        member_id = await self._join(group, instance, topic)
        if member_id is None:
            return
        former = self._generation
        member_id = await self._join(group, instance, topic, member_id)
        if member_id is None or self._generation <= former:
            return
        beat = m.HeartbeatRequest(group_id=group, generation_id=former, member_id=member_id, group_instance_id=instance)
        sync = m.SyncGroupRequest(group_id=group, generation_id=former, member_id=member_id, group_instance_id=instance)
        said = f"of generation {former}, after an answer with {self._generation}"
        await self._commit_is_refused(said, group, former, member_id, instance, topic)
        self._refused(f"Heartbeat {said}", (await self._ask(beat, 4)).error_code)
        self._refused(f"SyncGroup {said}", (await self._ask(sync, self._rng.choice((3, 4)))).error_code)
        leaver = MemberIdentity(group_instance_id=instance)
        await self._ask(m.LeaveGroupRequest(group_id=group, members=[leaver]), 5)

    async def _former_epoch_of_a_member(self, topic: str, other: str) -> None:
        """What it is given in the later epoch it may not commit in the former one (KIP-1251)."""
        group = self._name("group")
        member_id = await self._beat(group, self._name("instance"), topic)
        if member_id is None:
            return
        former = self._generation
        beat = m.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=former, subscribed_topic_names=[topic, other]
        )
        latter = await self._ask(beat, 1)
        if latter.error_code or latter.member_epoch <= former:
            return
        said = f"of member epoch {former}, after an answer with {latter.member_epoch}"
        await self._commit_is_refused(said, group, former, member_id, None, other)

    async def _commit_is_refused(
        self, said: str, group: str, former: int, member_id: str, instance: str | None, topic: str
    ) -> None:
        where = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        commit = m.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=former,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[where])],
        )
        self._refused(f"OffsetCommit {said}", (await self._ask(commit, 9)).topics[0].partitions[0].error_code)
        asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        fetch = m.OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
        found = (await self._ask(fetch, 8)).groups[0]
        committed = [one.committed_offset for each in found.topics for one in each.partitions]
        if 7 in committed:
            raise Disagree(f"V7: OffsetCommit {said} is refused, and its offset is committed")

    async def _former_epoch_of_a_producer(self, topic: str) -> None:
        name = self._name("producer")
        init = m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=SESSION_MS)
        former = await self._until(lambda: self._ask(init, 4), lambda answer: answer)
        latter = await self._until(lambda: self._ask(init, 4), lambda answer: answer)
        if former is None or latter is None or former.producer_id != latter.producer_id:
            return
        said = f"of producer epoch {former.producer_epoch}, after an answer with {latter.producer_epoch}"
        for is_first, producer in ((True, former), (False, latter), (False, former)):
            add = m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
            )
            added = (await self._ask(add, 3)).results_by_topic_v3_and_below[0].results_by_partition[0]
            if producer is former:
                self._refused(
                    f"AddPartitionsToTxn {said}{'' if is_first else ', in a transaction'}", added.partition_error_code
                )
            elif added.partition_error_code:
                return
        for producer in (former, latter):
            end = m.EndTxnRequest(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=self._rng.random() < 0.5,
            )
            ended = await self._ask(end, self._rng.choice((3, 4)))
            if producer is former:
                self._refused(f"EndTxn {said}", ended.error_code)

    async def _former_epoch_of_a_session(self, topic_id: UUID) -> None:
        def fetch(
            session_id: int, epoch: int, partitions: Sequence[int] = (), forgotten: Sequence[int] = ()
        ) -> Message:
            wanted = [FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in partitions]
            return m.FetchRequest(
                session_id=session_id,
                session_epoch=epoch,
                topics=[FetchTopic(topic_id=topic_id, partitions=wanted)] if wanted else [],
                forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=list(forgotten))]
                if forgotten
                else [],
            )

        version = self._rng.choice((13, 15, 17))
        begun = await self._ask(fetch(0, 0, range(PARTITIONS)), version)
        if begun.error_code or not begun.session_id:
            return
        second = await self._ask(fetch(begun.session_id, 1, forgotten=[0]), version)
        if second.error_code:
            return
        again = await self._ask(fetch(begun.session_id, 1), version)
        self._refused("Fetch of session epoch 1, after an answer to it", again.error_code)
        for partition in range(PARTITIONS):
            await self._produce(topic_id, _batch([b"key"]), partition=partition)
        third = await self._ask(fetch(begun.session_id, 2), version)
        told = [one.partition_index for each in third.responses for one in each.partitions]
        if 0 in told:
            raise Disagree(f"V7: a session has forgotten partition 0, and is told of the partitions {told}")
        await self._ask(fetch(begun.session_id, -1), version)

    def _refused(self, what: str, code: int) -> None:
        self.count["V7"] += 1
        if not code:
            raise Disagree(f"V7: {what} is accepted")

    # -- V8

    async def committed_is_the_same_from_anywhere(self) -> None:
        """V8, of Fetch: producers take turns, so that one's aborted records lie between another's committed ones."""
        topic = await self._topic(*NEVER_DELETED)
        if topic is None:
            return
        rng, names = self._rng, [self._name("producer"), self._name("producer")]
        writers = [await self._writer(name) for name in names]
        turns = [rng.randrange(len(writers)) for _ in range(rng.randint(4, 10))]
        is_written = all(writers)
        for writer in (writers[turn] for turn in turns):
            is_written = is_written and writer is not None and await self._in_a_transaction(writer, topic)
        for writer in writers:
            is_written = is_written and writer is not None and await self._end(writer)
        if is_written:
            await self._read_from_anywhere(topic[1])
        await self._delete(topic[1])

    async def _writer(self, name: str) -> _Writer | None:
        init = m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=SESSION_MS)
        made = await self._until(lambda: self._ask(init, 4), lambda answer: answer)
        return None if made is None else _Writer(name, made.producer_id, made.producer_epoch)

    async def _in_a_transaction(self, writer: _Writer, topic: tuple[str, UUID]) -> bool:
        """Writes some records, and ends the transaction now and then."""
        add = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=writer.name,
            v3_and_below_producer_id=writer.producer_id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic[0], partitions=[0])],
        )
        for _ in range(TRIES):
            added = (await self._ask(add, 3)).results_by_topic_v3_and_below[0].results_by_partition[0]
            if added.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(PAUSE_S)
        count = self._rng.randint(1, 3)
        stamp = ProducerStamp(writer.producer_id, writer.epoch, writer.sequence, is_transactional=True)
        sent = await self._produce(topic[1], _batch([b"key"] * count, stamp=stamp), transactional_id=writer.name)
        writer.sequence += count
        is_written = not added.partition_error_code and not sent.error_code
        return is_written and (self._rng.random() < 0.5 or await self._end(writer))

    async def _end(self, writer: _Writer) -> bool:
        """Commits or aborts; nothing is open behind it."""
        end = m.EndTxnRequest(
            transactional_id=writer.name,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            committed=self._rng.random() < 0.5,
        )
        return (await self._ask(end, self._rng.choice((3, 4)))).error_code in (0, ErrorCode.INVALID_TXN_STATE)

    async def _read_from_anywhere(self, topic_id: UUID) -> None:
        for _ in range(TRIES):
            whole = await self._committed(topic_id, 0)
            if whole.error_code or whole.last_stable_offset == whole.high_watermark:
                break
            await asyncio.sleep(PAUSE_S)
        if whole.error_code or whole.last_stable_offset != whole.high_watermark:
            return
        seen = _seen(whole, 0)
        for offset in range(1, whole.high_watermark):
            found = await self._committed(topic_id, offset)
            rest = [one for one in seen if one >= offset]
            self._agree(f"V8: committed from 0 on, behind {offset}", rest, "read from there", _seen(found, offset))

    async def _committed(self, topic_id: UUID, offset: int) -> Any:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = m.FetchRequest(isolation_level=1, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])])
        return (await self._ask(request, self._rng.choice((13, 17)))).responses[0].partitions[0]

    # -- V9

    async def batches_are_stored_once(self) -> None:
        """V9, of Produce."""
        topic = await self._topic(("message.timestamp.type", "LogAppendTime"), *NEVER_DELETED)
        if topic is None:
            return
        init = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=SESSION_MS)
        made = await self._until(lambda: self._ask(init, 4), lambda answer: answer)
        if made is not None:
            await self._again_and_with_a_gap(topic[1], _Writer("", made.producer_id, made.producer_epoch))
        await self._delete(topic[1])

    async def _again_and_with_a_gap(self, topic_id: UUID, writer: _Writer) -> None:
        async def send(sequence: int, count: int) -> Any:
            stamp = ProducerStamp(writer.producer_id, writer.epoch, sequence)
            return await self._produce(topic_id, _batch([b"key"] * count, stamp=stamp))

        began_s = asyncio.get_running_loop().time()
        sent = []
        for _ in range(self._rng.randint(1, 8)):
            count = self._rng.randint(1, 3)
            stored = await send(writer.sequence, count)
            if stored.error_code:
                return
            sent.append((writer.sequence, count, stored.base_offset))
            writer.sequence += count
        for sequence, count, offset in self._rng.sample(sent[-LAST_BATCHES:], min(len(sent), LAST_BATCHES)):
            again = await send(sequence, count)
            gap = await send(writer.sequence + 1, 1)
            if asyncio.get_running_loop().time() - began_s > KNOWN_S:
                return  # The broker may have forgotten the producer.
            self._agree(f"V9: sequence {sequence}", (0, offset), "again", (again.error_code, again.base_offset))
            if not gap.error_code:
                raise Disagree(f"V9: sequence {writer.sequence + 1} is stored, and {writer.sequence} is missing")

    # -- what all need

    async def _ask(self, request: Message, version: int) -> Any:
        return await self._asker.ask(request, version)

    async def _until(self, asking: Callable[[], Awaitable[Any]], of: Callable[[Any], Any]) -> Any:
        """The answer, once it is no passing error any more; None if it is an error still."""
        for _ in range(TRIES):
            answer = await asking()
            if of(answer).error_code not in PASSING:
                break
            await asyncio.sleep(PAUSE_S)
        return None if of(answer).error_code else answer

    def _name(self, of: str) -> str:
        self._made += 1
        return f"related-{of}-{self._made}-{self._rng.getrandbits(32):08x}"

    def _shuffled(self, rows: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
        self._rng.shuffle(rows)
        return rows

    def _agree(self, one: str, first: object, other: str, second: object) -> None:
        self.count[one[:2]] += 1
        if first != second:
            raise Disagree(f"{one}: {first!r}; {other}: {second!r}"[:2000])

    async def _topic(self, *configs: tuple[str, str]) -> tuple[str, UUID] | None:
        """A new one of PARTITIONS partitions that lead, with its id."""
        name = self._name("topic")
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs]
        new = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=-1, configs=settings)
        made = (await self._ask(m.CreateTopicsRequest(topics=[new], timeout_ms=30_000), 7)).topics[0]
        if made.error_code:
            return None
        wanted = m.MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        for _ in range(TRIES):
            found = (await self._ask(wanted, 12)).topics[0]
            if not found.error_code and all(one.leader_id >= 0 for one in found.partitions):
                return name, found.topic_id
            await asyncio.sleep(PAUSE_S)
        return None

    async def _delete(self, topic_id: UUID) -> None:
        state = DeleteTopicState(name=None, topic_id=topic_id)
        await self._ask(m.DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)

    async def _produce(
        self, topic_id: UUID, batch: bytes, *, partition: int = 0, transactional_id: str | None = None
    ) -> Any:
        one = PartitionProduceData(index=partition, records=batch)
        data = TopicProduceData(topic_id=topic_id, partition_data=[one])
        request = m.ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=[data])
        for _ in range(TRIES):
            answer = (await self._ask(request, 13)).responses[0].partition_responses[0]
            if answer.error_code not in PASSING:
                break
            await asyncio.sleep(PAUSE_S)
        return answer


# -- V6


async def brokers_agree(askers: Sequence[Asker], rng: random.Random) -> Counter[str]:
    """V6, of a cluster in which nothing else happens. Returns what was compared, by API. Raises Disagree."""
    count: Counter[str] = Counter()
    name = f"related-{rng.getrandbits(32):08x}"
    new = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=len(askers))
    await askers[0].ask(m.CreateTopicsRequest(topics=[new], timeout_ms=30_000), 7)
    for _ in range(rng.randint(1, 4)):
        await _write_somewhere(askers, name, rng)
    group = f"group-{rng.getrandbits(16)}"
    alike: list[tuple[Message, int]] = [
        (m.MetadataRequest(topics=[MetadataRequestTopic(name=name)]), rng.choice((9, 10, 11, 12, 13))),
        (m.DescribeTopicPartitionsRequest(topics=[PartitionsOf(name=name)]), 0),
        (m.DescribeClusterRequest(), rng.choice((0, 1))),
        (m.FindCoordinatorRequest(coordinator_keys=[group]), 4),
        (m.DescribeProducersRequest(topics=[ProducersOf(name=name, partition_indexes=list(range(PARTITIONS)))]), 0),
    ]
    for request, version in alike:
        await _settled(askers, request, version)
        count[type(request).__name__] += 1
    return count


async def _write_somewhere(askers: Sequence[Asker], topic: str, rng: random.Random) -> None:
    """As an idempotent producer, to one partition: whoever leads it takes the batch."""
    made = await askers[0].ask(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    batch = _batch([b"key"] * rng.randint(1, 4), stamp=ProducerStamp(made.producer_id, made.producer_epoch, 0))
    partition = PartitionProduceData(index=rng.randrange(PARTITIONS), records=batch)
    request = m.ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    for turn in range(TRIES * len(askers)):
        answer = await askers[turn % len(askers)].ask(request, 9)
        if not answer.responses[0].partition_responses[0].error_code:
            return
        await asyncio.sleep(PAUSE_S)


async def _settled(askers: Sequence[Asker], request: Message, version: int) -> None:
    """What one broker knows the others learn in a moment; after TRIES moments they disagree."""
    for _ in range(TRIES):
        answers = [_plain(await asker.ask(request, version)) for asker in askers]
        if all(answer == answers[0] for answer in answers):
            return
        await asyncio.sleep(PAUSE_S)
    raise Disagree(f"V6: {request!r}: {'; '.join(map(repr, answers))}"[:3000])


# -- values


def _batch(
    keys: Sequence[bytes | None],
    times: Sequence[int] = (),
    codec: Compression = Compression.NONE,
    stamp: ProducerStamp | None = None,
) -> bytes:
    builder = BatchBuilder(codec)
    for index, key in enumerate(keys):
        builder.append(times[index] if times else -1, key, b"value")
    return bytes(builder.build(stamp=stamp) if stamp is not None else builder.build())


def _seen(answer: Any, offset: int) -> list[int]:
    """The offsets that a reader of committed records sees of an answer, by Kafka's rule: records are passed over from
    where a transaction that was aborted begins to its marker."""
    begun = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    aborting: set[int] = set()
    seen: list[int] = []
    for batch in iterate_batches(memoryview(bytes(answer.records or b""))):
        header = batch.header
        while begun and begun[0][0] <= header.last_offset:
            aborting.add(begun.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            seen += [at for at in range(header.base_offset, header.last_offset + 1) if at >= offset]
    return seen


def _plain(value: Any) -> Any:
    """An answer as values that can be compared."""
    if isinstance(value, Struct):
        return {one.name: _plain(getattr(value, one.name)) for one in type(value)._fields}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _name_of(code: int) -> str:
    return ErrorCode(code).name
