"""What a fetcher asks for, and what each part of an answer does to the logs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages.fetch_request import FetchRequest
from kavka.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.replication.decide.fetch_state import Stage
from kavka.replication.decide.followed_partitions import FetcherCounts, FetcherSettings, FollowedPartitions, LocalPorts
from kavka.replication.decide.throttle import Throttle
from tests.unit.replication.fetching_support import NOW_MS, ORDERS, TOPIC_ID, Node, World, batch

EPOCH = 3
BACKOFF_MS = 1_000
SESSION = 55
LEADER = BrokerId(1)


class Following:
    """Some partitions of one topic, on a real broker's logs, and a leader that the test speaks for."""

    def __init__(self, count: int = 1, *, release: str = "3.9-IV0") -> None:
        self.node: Node = World().node(2)
        self.now_ms = 0
        self.throttle = Throttle(BrokerId(2))
        self.counts = FetcherCounts()
        ports = LocalPorts(
            self.node.logs,
            BrokerId(2),
            lambda: 42,
            lambda: NOW_MS,
            self.throttle,
            on_high_watermark_advanced=lambda partition: self.node.advanced.append(partition.topic_partition),
            on_storage_error=self.node.storage_errors.append,
            record=self.node.decisions.append,
        )
        settings = FetcherSettings(inter_broker_protocol_version=release, backoff_ms=BACKOFF_MS)
        self.partitions = FollowedPartitions(LEADER, ports, settings, self.counts)
        for index in range(count):
            self.follow(index, EPOCH)

    def follow(self, index: int, leader_epoch: int) -> None:
        topic_partition = TopicPartition("orders", index)
        state = LeaderAndIsr(LEADER, leader_epoch, (LEADER, BrokerId(2)), leader_epoch)
        self.node.apply(topic_partition, state, is_fetched=False)
        self.partitions.follow(self.node.partition(topic_partition), leader_epoch, self.now_ms)

    def fill(self, *epochs: int, high_watermark: int = 0) -> None:
        """Records of earlier epochs in partition 0, one each, before it is followed (again)."""
        log = self.node.partition().log
        for epoch in epochs:
            log.append_as_follower(batch(b"v", leader_epoch=epoch, base_offset=log.log_end_offset), NOW_MS)
        log.advance_high_watermark(high_watermark)
        self.partitions.unfollow(ORDERS)
        self.partitions.follow(self.node.partition(), EPOCH, self.now_ms)

    def ask(self) -> FetchRequest | None:
        self.partitions.look(self.now_ms)
        request = self.partitions.next_request(self.now_ms)
        if request is None:
            return None
        version = self.partitions.fetch_version
        return decode(FetchRequest, encode(request, version), version)

    def asked(self) -> dict[int, int]:
        """Partition -> offset, of the next request."""
        request = self.ask()
        assert request is not None
        return {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}

    def answer(self, *data: PartitionData, session_id: int = SESSION, error: ErrorCode = ErrorCode.NONE) -> bool:
        version = self.partitions.fetch_version
        response = FetchResponse(
            session_id=session_id,
            error_code=error,
            responses=[FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=list(data))],
        )
        return self.partitions.take(decode(FetchResponse, encode(response, version), version), self.now_ms)


def data(
    index: int = 0,
    records: bytes | bytearray | None = None,
    *,
    high_watermark: int = 0,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    log_start: int = 0,
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        records=records,
        diverging_epoch=None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
    )


def offsets(*ends: tuple[int, int]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name="orders",
                partitions=[ListOffsetsPartitionResponse(partition_index=index, offset=end) for index, end in ends],
            )
        ]
    )


# -- requests


@pytest.mark.setting(
    "replica.fetch.wait.max.ms",
    "replica.fetch.min.bytes",
    "replica.fetch.max.bytes",
    "replica.fetch.response.max.bytes",
)
def test_a_request_says_who_fetches_by_which_registration_and_how_long_it_may_wait() -> None:
    following = Following()
    request = following.ask()
    assert request is not None
    assert following.partitions.fetch_version == 17
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 42)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 * 1024 * 1024)
    (topic,) = request.topics
    assert topic.topic_id == TOPIC_ID
    (partition,) = topic.partitions
    assert (partition.current_leader_epoch, partition.partition_max_bytes) == (EPOCH, 1024 * 1024)


@pytest.mark.setting("inter.broker.protocol.version")
def test_older_releases_name_the_replica_outside_and_topics_by_name() -> None:
    following = Following(release="2.6")
    request = following.ask()
    assert request is not None
    assert following.partitions.fetch_version == 11
    assert (request.replica_id, request.replica_state) == (2, None)
    assert [topic.topic for topic in request.topics] == ["orders"]


def test_partitions_whose_topic_got_an_id_meanwhile_are_asked_for_by_it() -> None:
    following = Following(0)
    state = LeaderAndIsr(LEADER, EPOCH, (LEADER, BrokerId(2)), EPOCH)
    following.node.apply(ORDERS, state, uuid.UUID(int=0), is_fetched=False)
    partition = following.node.partition()
    following.partitions.follow(partition, EPOCH, 0)
    assert following.asked() == {0: 0}
    assert following.partitions.fetch_version == 12
    following.answer(data(0))
    following.node.replicas.identify(partition, TOPIC_ID)
    following.partitions.follow(partition, EPOCH, 0)
    request = following.ask()
    assert request is not None
    assert (following.partitions.fetch_version, request.topics[0].topic_id) == (17, TOPIC_ID)


def test_ten_thousand_idle_partitions_cost_an_incremental_request_nothing() -> None:
    following = Following(100)
    assert len(following.asked()) == 100
    following.answer()
    assert following.asked() == {}
    following.answer(data(7, batch(b"v", leader_epoch=EPOCH)))
    assert following.asked() == {7: 1}


# -- answers


def test_records_are_appended_and_the_high_watermark_follows_as_far_as_the_log_reaches() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, batch(b"a", b"b", leader_epoch=EPOCH), high_watermark=9))
    log = following.node.partition().log
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (2, 2, EPOCH)
    assert following.node.advanced == [ORDERS]
    state = following.partitions.get(ORDERS)
    assert state is not None
    assert state.lag == 7


def test_an_answer_to_another_leader_epoch_is_ignored_whatever_it_says() -> None:
    # KAFKA-7786: the epoch changed while the request was in flight.
    following = Following()
    following.ask()
    following.follow(0, EPOCH + 1)
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    state = following.partitions.get(ORDERS)
    assert state is not None
    assert (state.stage, state.leader_epoch) == (Stage.FETCHING, EPOCH + 1)
    following.ask()
    following.follow(0, EPOCH + 2)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH)))
    assert following.node.end() == 0
    request = following.ask()
    assert request is not None
    assert request.topics[0].partitions[0].current_leader_epoch == EPOCH + 2


def test_an_answer_that_comes_after_the_partition_was_told_of_another_epoch_is_ignored() -> None:
    # The controller's word has reached the partition, and not yet its fetcher.
    following = Following()
    following.ask()
    state = LeaderAndIsr(LEADER, EPOCH + 1, (LEADER,), EPOCH + 1)
    following.node.apply(ORDERS, state, is_fetched=False)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=1))
    assert (following.node.end(), following.node.high_watermark()) == (0, 0)


def test_a_partition_that_leads_meanwhile_takes_nothing_of_an_answer() -> None:
    following = Following()
    following.ask()
    following.node.apply(ORDERS, LeaderAndIsr(BrokerId(2), EPOCH + 1, (BrokerId(2),), EPOCH + 1))
    following.answer(data(0, diverging=(0, 0)))
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=1))
    assert following.node.end() == 0


def test_an_unfollowed_partition_takes_nothing_of_an_answer_and_is_forgotten_by_the_next_request() -> None:
    following = Following(2)
    following.ask()
    following.partitions.unfollow(ORDERS)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH)))
    assert following.node.end() == 0
    request = following.ask()
    assert request is not None
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]


def test_a_diverging_answer_cuts_first_and_leaves_the_high_watermark_to_the_next_one() -> None:
    # KAFKA-14704: the answer says high watermark 3, of a log that is not this one.
    following = Following()
    following.fill(1, 1, 1, high_watermark=1)
    assert following.asked() == {0: 3}
    following.answer(data(0, diverging=(1, 2), high_watermark=3))
    assert (following.node.end(), following.node.high_watermark()) == (2, 1)
    assert following.asked() == {0: 2}
    following.answer(data(0, batch(b"x", leader_epoch=EPOCH, base_offset=2), high_watermark=3))
    assert (following.node.end(), following.node.high_watermark()) == (3, 3)


def test_after_a_truncation_everything_is_named_again_so_that_the_high_watermark_is_told_again() -> None:
    # The leader's session counts the high watermark as told that came with the truncation.
    following = Following(2)
    following.fill(1, 1, high_watermark=1)
    following.ask()
    following.answer(data(0, diverging=(1, 1), high_watermark=1), data(1))
    assert following.asked() == {0: 1, 1: 0}


def test_after_an_answer_that_came_too_late_for_its_epoch_everything_is_named_again() -> None:
    following = Following(2)
    following.ask()
    following.follow(0, EPOCH + 1)
    following.answer(data(0, high_watermark=7), data(1))
    assert following.asked() == {0: 0, 1: 0}


def test_a_truncation_leaves_its_reason_with_offsets_epochs_and_high_watermark() -> None:
    following = Following()
    following.fill(1, 2, 2, high_watermark=2)
    following.ask()
    following.answer(data(0, diverging=(1, 1)))
    (decision,) = following.node.told(DecisionKind.LOG_TRUNCATED)
    assert decision.partition == ORDERS
    assert decision.leader_epoch == EPOCH
    assert decision.before == {"log_end_offset": 3, "high_watermark": 2}
    assert decision.after == {"log_end_offset": 1, "high_watermark": 1, "latest_epoch": 1}
    assert decision.evidence["asked_epoch"] == 2
    assert (decision.evidence["leader_known_epoch"], decision.evidence["leader_epoch_end"]) == (1, 1)
    assert decision.evidence["below_high_watermark"] is True
    assert (following.counts.truncations, following.counts.truncations_below_high_watermark) == (1, 1)


def test_a_truncation_above_the_high_watermark_is_no_loss() -> None:
    following = Following()
    following.fill(1, 1, high_watermark=1)
    following.ask()
    following.answer(data(0, diverging=(1, 1)))
    assert (following.counts.truncations, following.counts.truncations_below_high_watermark) == (1, 0)


def test_the_log_start_follows_the_leaders() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, batch(b"a", b"b", leader_epoch=EPOCH), high_watermark=2))
    following.ask()
    following.answer(data(0, high_watermark=2, log_start=1))
    assert following.node.partition().log.log_start_offset == 1
    request = following.ask()
    assert request is not None
    assert request.topics[0].partitions[0].log_start_offset == 1, "the leader is told how far it went"


def test_a_log_start_that_the_followers_own_retention_moved_is_told_to_the_leader() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, batch(b"a", b"b", leader_epoch=EPOCH), high_watermark=2))
    following.ask()
    following.answer(data(0, high_watermark=2))
    assert following.asked() == {}
    assert following.node.partition().log.delete_records(1)
    following.partitions.on_log_start_moved(ORDERS)
    request = following.ask()
    assert request is not None
    assert request.topics[0].partitions[0].log_start_offset == 1
    following.partitions.on_log_start_moved(TopicPartition("orders", 7))
    following.answer(data(0, high_watermark=2, log_start=1))
    assert following.asked() == {}, "what is followed by nobody here is not asked for"


def test_what_the_leader_wrote_in_a_later_epoch_over_what_it_was_about_to_send_is_left_out() -> None:
    # KAFKA-18723: answers are read from the file while they are sent, and a former leader truncates and follows
    # meanwhile. Its new records may begin behind records that differ here, which nothing would ever find.
    following = Following()
    following.ask()
    own = batch(b"a", leader_epoch=EPOCH)
    later = batch(b"z", leader_epoch=EPOCH + 1, base_offset=5)
    following.answer(data(0, own + later, high_watermark=1))
    log = following.node.partition().log
    assert (log.log_end_offset, log.latest_epoch) == (1, EPOCH)
    assert following.asked() == {0: 1}
    following.answer(data(0, later, high_watermark=1))
    assert (log.log_end_offset, log.latest_epoch) == (1, EPOCH)
    following.now_ms = BACKOFF_MS
    following.ask()
    following.answer(data(0, batch(b"b", leader_epoch=EPOCH, base_offset=1)))
    assert log.log_end_offset == 2


# -- one partition's errors are its own


@pytest.mark.parametrize("damage", ["flipped bit", "offsets that go back", "half a batch"])
def test_records_that_cannot_be_appended_delay_their_partition_and_no_other(damage: str) -> None:
    # KAFKA-4384, KAFKA-9617
    following = Following(2)
    following.ask()
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH)), data(1))
    following.ask()
    bad = batch(b"b", leader_epoch=EPOCH, base_offset=0 if damage == "offsets that go back" else 1)
    if damage == "flipped bit":
        bad[-1] ^= 1
    elif damage == "half a batch":
        del bad[-5:]
    following.answer(data(0, bad), data(1, batch(b"c", leader_epoch=EPOCH)))
    assert (following.node.end(), following.node.end(TopicPartition("orders", 1))) == (1, 1)
    request = following.ask()
    assert request is not None
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    assert [p.partition for topic in request.topics for p in topic.partitions] == [1]
    assert 0 < request.max_wait_ms <= 500
    following.answer()
    following.now_ms = BACKOFF_MS
    assert following.asked() == {0: 1}
    following.answer(data(0, batch(b"b", leader_epoch=EPOCH, base_offset=1)))
    assert following.node.end() == 2


@pytest.mark.setting("replica.fetch.backoff.ms")
def test_a_request_does_not_wait_longer_than_until_a_delayed_partition_is_due() -> None:
    following = Following(2)
    following.ask()
    following.answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), data(1))
    request = following.ask()
    assert request is not None
    assert request.max_wait_ms == 10
    following.answer()
    following.now_ms = 10
    assert following.asked() == {0: 0}


def test_a_disk_that_fails_ends_its_partition_and_no_other() -> None:
    following = Following(2)
    following.ask()
    following.node.disk.volume("/logs").failing_writes = 1.0
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH)), data(1))
    following.node.disk.repair()
    assert len(following.node.storage_errors) == 1
    state = following.partitions.get(ORDERS)
    assert state is not None
    assert state.stage is Stage.FAILED
    following.ask()
    following.answer(data(1, batch(b"a", leader_epoch=EPOCH)))
    assert following.node.end(TopicPartition("orders", 1)) == 1


def test_a_fenced_partition_is_not_asked_for_until_it_is_told_of_another_epoch() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert following.ask() is None
    assert following.partitions.next_look_ms(0) is None
    (decision,) = following.node.told(DecisionKind.FENCED)
    assert decision.leader_epoch == EPOCH
    following.follow(0, EPOCH + 1)
    assert following.asked() == {0: 0}


def test_an_error_code_of_a_later_release_waits_for_the_back_off() -> None:
    following = Following()
    following.ask()
    following.answer(PartitionData(partition_index=0, error_code=9_999))
    assert following.ask() is None
    assert following.partitions.next_look_ms(0) == BACKOFF_MS


# -- offsets out of range


def out_of_range(*epochs: int, high_watermark: int = 0) -> Following:
    following = Following()
    following.fill(*epochs, high_watermark=high_watermark)
    following.ask()
    following.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert following.ask() is None, "nothing is fetched before the leader's offsets are known"
    return following


def test_a_leader_that_ends_earlier_cuts_the_log_there_and_below_the_high_watermark_it_is_counted() -> None:
    following = out_of_range(1, 1, 1, high_watermark=3)
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    assert following.partitions.take_leader_ends(asking, offsets((0, 2)), 0) == []
    assert following.asked() == {0: 2}
    assert following.counts.truncations_below_high_watermark == 1


def test_a_leader_whose_log_is_empty_ends_at_offset_0_and_has_everything_cut() -> None:
    following = out_of_range(1, 1)
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    assert following.partitions.take_leader_ends(asking, offsets((0, 0)), 0) == []
    assert following.asked() == {0: 0}


def test_a_leader_that_begins_later_has_the_log_begin_there_too() -> None:
    following = out_of_range(1, 1)
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    longer = following.partitions.take_leader_ends(asking, offsets((0, 90)), 0)
    assert longer == asking
    following.partitions.take_leader_starts(longer, offsets((0, 70)), 0)
    assert following.asked() == {0: 70}
    log = following.node.partition().log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (70, 70, 70)
    (decision,) = following.node.told(DecisionKind.LOG_TRUNCATED)
    assert "deleted" in decision.why


def begins_at(offset: int) -> Following:
    """The log is empty and begins there, as the leader's did when it was asked."""
    following = out_of_range(1, 1)
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    longer = following.partitions.take_leader_ends(asking, offsets((0, 90)), 0)
    following.partitions.take_leader_starts(longer, offsets((0, offset)), 0)
    assert following.asked() == {0: offset}
    return following


def test_a_leader_that_begins_within_a_batch_has_the_whole_batch_taken_and_the_log_begin_where_it_does() -> None:
    """DeleteRecords up to 71; the batch 69..72 is there as it was, and is all that can be sent."""
    following = begins_at(71)
    whole = batch(b"a", b"b", b"c", b"d", leader_epoch=EPOCH, base_offset=69)
    following.answer(data(0, whole, high_watermark=73, log_start=71))
    log = following.node.partition().log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (71, 73, 73)
    assert following.asked() == {0: 73}
    following.answer(data(0, batch(b"e", leader_epoch=EPOCH, base_offset=73), high_watermark=74, log_start=71))
    assert log.log_end_offset == 74


def test_a_batch_that_ends_before_an_empty_log_begins_is_not_taken() -> None:
    following = begins_at(71)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH, base_offset=69), high_watermark=73, log_start=71))
    log = following.node.partition().log
    assert (log.log_start_offset, log.log_end_offset) == (71, 71)


@pytest.mark.parametrize("answer", [offsets(), offsets((0, -1))])
def test_a_leader_that_does_not_tell_its_offsets_is_asked_again(answer: ListOffsetsResponse) -> None:
    following = out_of_range(1, 1)
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    assert following.partitions.take_leader_ends(asking, answer, 0) == []
    assert following.partitions.asking(Stage.ASKING_OFFSETS, 0) == []
    assert following.partitions.asking(Stage.ASKING_OFFSETS, 10) == asking


# -- sessions


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_refused_session_is_made_anew_at_once(error: ErrorCode) -> None:
    following = Following(3)
    following.ask()
    following.answer()
    assert following.asked() == {}
    assert following.answer(error=error, session_id=0)
    assert following.asked() == {0: 0, 1: 0, 2: 0}


def test_a_leader_that_refuses_a_full_request_is_left_alone_for_a_while() -> None:
    following = Following()
    following.ask()
    assert not following.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)


def test_without_a_session_partitions_that_had_records_are_named_behind_the_others() -> None:
    # A leader whose cache has no room for a session serves partitions in the order of the request, until its answer is
    # full. Those in front would get all of it for ever.
    following = Following(3)
    assert list(following.asked()) == [0, 1, 2]
    following.answer(
        data(0, batch(b"a", leader_epoch=EPOCH)), data(1, batch(b"a", leader_epoch=EPOCH)), data(2), session_id=0
    )
    assert list(following.asked()) == [2, 0, 1]


# -- throttles


def throttled(names: Sequence[str], *, rate: int) -> Following:
    following = Following(2)
    following.throttle.rate = rate
    following.throttle.set_replicas("orders", names)
    following.ask()
    return following


def test_a_throttled_partition_is_left_out_while_the_quota_is_used_up_and_others_go_on() -> None:
    following = throttled(["0:2"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1))
    request = following.ask()
    assert request is not None
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    following.answer(data(1, batch(b"a", leader_epoch=EPOCH), high_watermark=5))
    assert following.asked() == {1: 1}, "the other is not throttled"
    following.answer()
    assert following.partitions.next_look_ms(0) == BACKOFF_MS, "the quota may be raised before it is free"
    following.now_ms = BACKOFF_MS
    assert following.asked() == {}
    following.answer()
    following.now_ms = following.throttle.free_in_ms(0)
    assert following.asked() == {0: 1}


def test_a_replica_that_is_caught_up_is_not_throttled() -> None:
    following = throttled(["*"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=1), data(1, high_watermark=9))
    assert following.asked() == {0: 1}, "partition 0 is in sync, partition 1 is not"


def test_a_throttle_that_is_lifted_frees_its_partitions_at_the_next_look() -> None:
    following = throttled(["*"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1, high_watermark=9))
    assert following.ask() is None
    following.throttle.set_replicas("orders", [])
    assert following.asked() == {0: 1, 1: 0}


def test_a_throttled_partition_is_fetched_again_as_soon_as_the_quota_is_raised() -> None:
    following = throttled(["*"], rate=1)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1, high_watermark=9))
    assert following.ask() is None
    following.throttle.rate = 1_000_000
    assert following.partitions.next_look_ms(0) == 0, "not the minute that the former rate would have needed"
    assert following.asked() == {0: 1, 1: 0}


def test_a_partition_that_is_throttled_only_now_is_left_out_at_once() -> None:
    following = throttled(["0:2"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1, high_watermark=9))
    assert following.asked() == {}
    following.answer()
    following.throttle.set_replicas("orders", ["*"])
    assert following.ask() is None


def test_a_replica_that_is_throttled_no_more_is_fetched_again_though_others_were_fetched_all_the_time() -> None:
    following = throttled(["0:2"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1))
    following.ask()
    following.answer(data(1, batch(b"a", leader_epoch=EPOCH), high_watermark=5))
    assert following.asked() == {1: 1}, "partition 0 is left out"
    following.answer()
    following.throttle.set_replicas("orders", [])
    assert following.asked() == {0: 1}


def test_a_replica_of_which_the_throttle_goes_while_others_keep_theirs_is_fetched_again_at_once() -> None:
    following = throttled(["0:2", "1:2"], rate=5)
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH), high_watermark=5), data(1))
    following.ask()
    following.answer()
    following.throttle.set_replicas("orders", ["1:2"])
    assert following.asked() == {0: 1}
