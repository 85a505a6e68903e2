"""How a followed partition stands with its leader: from where it fetches, what it cuts off, when it waits or fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.errors import ErrorCode, InvariantViolation
from kavka.model import BrokerId, LeaderAndIsr
from kavka.replication.decide.fetch_state import FIRST_BACKOFF_MS, FetchState, Stage, Truncation
from kavka.replication.decide.partition_results import EpochEndOffset
from tests.unit.replication.fetching_support import NOW_MS, ORDERS, TOPIC_ID, World, batch

BACKOFF_MS = 1_000
EPOCH = 9


class Follower:
    """A follower in leader epoch EPOCH with a log of one-record batches, one for each epoch given."""

    def __init__(
        self, epochs: Sequence[int] = (), *, high_watermark: int = 0, truncates_on_fetch: bool = True, start: int = 0
    ) -> None:
        world = World()
        self.node = world.node(2)
        self.node.apply(ORDERS, LeaderAndIsr(BrokerId(1), EPOCH, (BrokerId(1),), 0), is_fetched=False)
        self.partition = self.node.partition()
        self.log = self.partition.log
        if start:
            self.node.logs.truncate_fully_and_start_at(ORDERS, start, NOW_MS)
        for epoch in epochs:
            self.log.append_as_follower(batch(b"v", leader_epoch=epoch, base_offset=self.log.log_end_offset), NOW_MS)
        self.log.advance_high_watermark(high_watermark)
        self.state = FetchState(self.partition, EPOCH, truncates_on_fetch=truncates_on_fetch)

    def cut(self, truncation: Truncation | None) -> None:
        if truncation is not None:
            if truncation.restarts:
                self.node.logs.truncate_fully_and_start_at(ORDERS, truncation.offset, NOW_MS)
            else:
                self.node.logs.truncate_to(ORDERS, truncation.offset, NOW_MS)
        self.state.on_truncated(truncation, backoff_ms=BACKOFF_MS, now_ms=0)

    def fail(self, code: ErrorCode, now_ms: int = 0) -> None:
        self.state.on_error(code, backoff_ms=BACKOFF_MS, now_ms=now_ms)


# -- beginning


def test_a_log_with_epochs_is_fetched_at_its_end_and_says_its_last_epoch_so_the_leader_decides() -> None:
    follower = Follower((3, 3, 5), high_watermark=1)
    assert follower.state.begin() is None
    assert follower.state.stage is Stage.FETCHING
    assert (follower.state.fetch_offset, follower.state.last_fetched_epoch) == (3, 5)


def test_restarted_followers_keep_what_lies_above_their_high_watermark_until_the_leader_speaks() -> None:
    # KIP-101, first case: m2 was acknowledged, the follower's high watermark does not say so yet.
    follower = Follower((0, 0), high_watermark=1)
    assert follower.state.begin() is None
    assert follower.log.log_end_offset == 2


def test_before_release_2_7_the_last_epoch_is_asked_about_first() -> None:
    follower = Follower((3, 5), truncates_on_fetch=False)
    assert follower.state.begin() is None
    assert follower.state.stage is Stage.ASKING_EPOCH
    assert not follower.state.is_due(0)


def test_an_empty_log_is_fetched_from_its_start() -> None:
    follower = Follower((), truncates_on_fetch=False)
    assert follower.state.begin() is None
    assert follower.state.stage is Stage.FETCHING
    assert (follower.state.fetch_offset, follower.state.last_fetched_epoch) == (0, -1)


def test_a_log_that_knows_no_epochs_keeps_only_what_is_known_to_be_committed() -> None:
    follower = Follower((3, 3, 3), high_watermark=2)
    follower.log._epochs.clear()  # as a file of epochs that was lost leaves it
    truncation = follower.state.begin()
    assert truncation is not None
    assert truncation.offset == 2
    follower.cut(truncation)
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 2)


# -- where logs part


def test_a_leader_whose_epoch_ends_earlier_has_the_follower_cut_there() -> None:
    # KIP-101, second case: the former leader has m2 at offset 1 in epoch 0, the new one ended epoch 0 at 1.
    follower = Follower((0, 0), high_watermark=2)
    truncation = follower.state.on_diverging(EpochEndOffset(0, 1))
    assert (truncation.offset, truncation.is_complete) == (1, True)
    follower.cut(truncation)
    assert follower.log.log_end_offset == 1
    assert (follower.state.fetch_offset, follower.state.last_fetched_epoch) == (1, 0)


def test_an_epoch_that_the_leader_never_had_goes_and_the_next_fetch_asks_with_an_earlier_one() -> None:
    # KIP-279: epochs 1, 2, 4 here; the leader has 1 and 3 and answers with its epoch 3, which is unknown here.
    follower = Follower((1, 2, 4), high_watermark=1)
    truncation = follower.state.on_diverging(EpochEndOffset(3, 3))
    assert (truncation.offset, truncation.is_complete) == (2, False)
    follower.cut(truncation)
    assert (follower.state.fetch_offset, follower.state.last_fetched_epoch) == (2, 2)
    truncation = follower.state.on_diverging(EpochEndOffset(1, 1))
    follower.cut(truncation)
    assert (follower.state.fetch_offset, follower.state.last_fetched_epoch) == (1, 1)
    assert follower.state.delayed_until_ms == 0


def test_an_epoch_without_records_that_the_leader_never_had_is_forgotten_although_no_record_goes() -> None:
    # KAFKA-10706: this replica led in epoch 5 and wrote nothing; the leader knows 4 as the one before.
    follower = Follower((4, 4), high_watermark=2)
    follower.log.assign_epoch_start_offset(5, 2)
    state = FetchState(follower.partition, EPOCH, truncates_on_fetch=True)
    follower.state = state
    assert state.last_fetched_epoch == 5
    follower.cut(state.on_diverging(EpochEndOffset(4, 2)))
    assert follower.log.log_end_offset == 2
    assert (state.fetch_offset, state.last_fetched_epoch) == (2, 4)
    assert state.is_due(0), "it is asked again at once: the question is another one"


def test_an_answer_that_changes_nothing_is_not_asked_for_again_and_again() -> None:
    follower = Follower((4, 4), high_watermark=2)
    follower.cut(follower.state.on_diverging(EpochEndOffset(4, 5)))
    assert follower.log.log_end_offset == 2
    assert not follower.state.is_due(BACKOFF_MS - 1)
    assert follower.state.is_due(BACKOFF_MS)


def test_epochs_that_are_all_later_than_the_leaders_cut_where_the_leader_ends() -> None:
    follower = Follower((), start=10)
    follower.log.append_as_follower(batch(b"v", leader_epoch=6, base_offset=10), NOW_MS)
    truncation = follower.state.on_diverging(EpochEndOffset(7, 10))
    assert (truncation.offset, truncation.is_complete) == (10, True)


def test_epoch_ends_are_asked_for_until_both_sides_name_the_same_epoch() -> None:
    follower = Follower((1, 2, 4), high_watermark=1, truncates_on_fetch=False)
    follower.state.begin()
    follower.cut(follower.state.on_epoch_end(EpochEndOffset(3, 3)))
    assert (follower.state.stage, follower.state.last_fetched_epoch) == (Stage.ASKING_EPOCH, 2)
    follower.cut(follower.state.on_epoch_end(EpochEndOffset(1, 1)))
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 1)


def test_a_leader_that_knows_nothing_of_the_epoch_leaves_what_is_committed() -> None:
    follower = Follower((1, 1, 1), high_watermark=2, truncates_on_fetch=False)
    follower.state.begin()
    truncation = follower.state.on_epoch_end(EpochEndOffset(-1, -1))
    assert (truncation.offset, truncation.is_complete) == (2, True)
    follower.cut(truncation)
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 2)


def test_a_leader_that_ends_every_earlier_epoch_at_offset_0_has_everything_cut_committed_or_not() -> None:
    # It does know something, unlike one that answers -1.
    follower = Follower((1, 1, 1), high_watermark=2)
    assert follower.state.on_diverging(EpochEndOffset(1, 0)).offset == 0


def test_epoch_0_is_asked_about_too_before_release_2_7() -> None:
    follower = Follower((0, 4), truncates_on_fetch=False)
    follower.state.begin()
    follower.cut(follower.state.on_epoch_end(EpochEndOffset(2, 9)))
    assert (follower.state.stage, follower.state.last_fetched_epoch) == (Stage.ASKING_EPOCH, 0)


def test_a_log_that_is_left_without_epochs_has_nothing_more_to_ask_about() -> None:
    follower = Follower((1, 4), truncates_on_fetch=False)
    follower.state.begin()
    truncation = follower.state.on_epoch_end(EpochEndOffset(3, 1))
    assert not truncation.is_complete
    follower.log._epochs.clear()  # as a file of epochs that was lost leaves it
    follower.cut(truncation)
    assert (follower.state.stage, follower.state.last_fetched_epoch) == (Stage.FETCHING, -1)


# -- progress


def test_an_empty_answer_does_not_erase_the_last_fetched_epoch() -> None:
    follower = Follower((3, 3))
    follower.state.on_records(2, -1, 2)
    assert follower.state.last_fetched_epoch == 3
    assert follower.state.is_caught_up


def test_a_diverging_answer_is_no_progress() -> None:
    follower = Follower((3, 3, 3))
    follower.state.on_records(3, 3, 3)
    assert follower.state.is_caught_up
    follower.cut(follower.state.on_diverging(EpochEndOffset(3, 1)))
    assert follower.state.fetch_offset == 1
    assert not follower.state.is_caught_up


@pytest.mark.parametrize(("leader_high_watermark", "lag"), [(2, 0), (3, 0), (4, 1), (9, 6)])
def test_a_follower_is_caught_up_when_nothing_committed_is_missing(leader_high_watermark: int, lag: int) -> None:
    follower = Follower((3, 3, 3))
    follower.state.on_records(3, 3, leader_high_watermark)
    assert follower.state.lag == lag
    assert follower.state.is_caught_up is (lag == 0)


def test_the_first_records_of_a_new_topic_are_of_epoch_0_and_the_next_fetch_says_so() -> None:
    follower = Follower()
    assert follower.state.last_fetched_epoch == -1
    follower.state.on_records(1, 0, 0)
    assert follower.state.last_fetched_epoch == 0


# -- out of range


def test_a_leader_whose_log_ends_where_this_one_does_is_asked_where_it_begins() -> None:
    # Its log may have been deleted up to there since; nothing is to be cut.
    follower = Follower((3, 3, 3))
    follower.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.state.on_leader_end(3) is None


def test_a_leader_with_a_shorter_log_has_the_rest_cut_and_no_more_than_that() -> None:
    follower = Follower((3, 3, 3), high_watermark=3)
    follower.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.state.stage is Stage.ASKING_OFFSETS
    truncation = follower.state.on_leader_end(2)
    assert truncation is not None
    assert (truncation.offset, truncation.restarts) == (2, False)
    follower.cut(truncation)
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 2)


def test_a_log_whose_end_the_leader_has_deleted_starts_anew_high_watermark_and_all() -> None:
    follower = Follower((3, 3, 3), high_watermark=1)
    follower.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.state.on_leader_end(50) is None
    truncation = follower.state.on_leader_start(40)
    assert truncation is not None
    assert (truncation.offset, truncation.restarts) == (40, True)
    follower.cut(truncation)
    log = follower.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (40, 40, 40)
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 40)


def test_a_log_that_is_within_the_leaders_range_again_goes_on_where_it_ends() -> None:
    follower = Follower((3, 3, 3), high_watermark=1)
    follower.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.state.on_leader_end(50) is None
    assert follower.state.on_leader_start(3) is None
    follower.cut(None)
    assert (follower.state.stage, follower.state.fetch_offset) == (Stage.FETCHING, 3)
    assert follower.log.log_end_offset == 3


# -- errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ],
)
def test_a_leader_that_has_not_heard_yet_is_asked_again_soon_and_then_ever_more_rarely(code: ErrorCode) -> None:
    follower, now_ms, pauses = Follower((3,)), 5_000, []
    for _ in range(12):
        follower.fail(code, now_ms)
        assert follower.state.stage is Stage.FETCHING
        pauses.append(follower.state.delayed_until_ms - now_ms)
        now_ms = follower.state.delayed_until_ms
        assert follower.state.is_due(now_ms)
    assert pauses[:4] == [FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS, 4 * FIRST_BACKOFF_MS, 8 * FIRST_BACKOFF_MS]
    assert pauses[-1] == BACKOFF_MS


def test_after_an_answer_the_next_error_is_a_first_one() -> None:
    follower = Follower((3,))
    for _ in range(5):
        follower.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.state.on_records(1, 3, 1)
    assert (follower.state.delayed_until_ms, follower.state.last_error) == (0, None)
    follower.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, 100)
    assert follower.state.delayed_until_ms == 100 + FIRST_BACKOFF_MS


@pytest.mark.parametrize(
    "code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_other_errors_wait_for_the_back_off(code: ErrorCode) -> None:
    follower = Follower((3,))
    follower.fail(code, 100)
    assert follower.state.stage is Stage.FETCHING
    assert follower.state.delayed_until_ms == 100 + BACKOFF_MS
    assert follower.state.last_error == code.name


def test_a_leader_that_does_not_know_it_yet_is_not_asked_sooner_because_of_another_error_before() -> None:
    follower = Follower((3,))
    follower.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    follower.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5_000)
    assert follower.state.delayed_until_ms == 5_000 + BACKOFF_MS
    follower.state.on_records(1, 3, 1)
    assert (follower.state.delayed_until_ms, follower.state.last_error) == (0, None)


def test_an_answer_to_another_question_ends_the_back_off_as_records_do() -> None:
    follower = Follower((3, 3), truncates_on_fetch=False)
    follower.state.begin()
    follower.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert follower.state.last_error == "NOT_LEADER_OR_FOLLOWER"
    follower.cut(follower.state.on_epoch_end(EpochEndOffset(3, 2)))
    assert (follower.state.stage, follower.state.delayed_until_ms) == (Stage.FETCHING, 0)
    assert follower.state.last_error is None


def test_what_failed_says_why() -> None:
    follower = Follower((3,))
    follower.state.fail("the disk is gone")
    assert follower.state.last_error == "the disk is gone"


@pytest.mark.parametrize("truncates_on_fetch", [True, False])
def test_a_fenced_partition_waits_for_the_controllers_next_word(truncates_on_fetch: bool) -> None:
    follower = Follower((3,), truncates_on_fetch=truncates_on_fetch)
    follower.state.begin()
    follower.fail(ErrorCode.FENCED_LEADER_EPOCH)
    assert follower.state.stage is Stage.FAILED
    assert not follower.state.is_ready(1 << 60)


def test_what_has_failed_stays_failed_whatever_else_is_answered() -> None:
    follower = Follower((3,))
    for _ in range(2):
        follower.fail(ErrorCode.FENCED_LEADER_EPOCH)
    assert follower.state.stage is Stage.FAILED
    follower.state.fail("the disk is gone")
    assert (follower.state.stage, follower.state.last_error) == (Stage.FAILED, "the disk is gone")


def test_stages_move_only_as_their_table_says() -> None:
    follower = Follower((3,))
    follower.state.fail("the disk is gone")
    with pytest.raises(InvariantViolation, match=r"orders-0: cannot go from failed to fetching"):
        follower.state._move(Stage.FETCHING)


def test_a_topic_id_is_that_of_the_partition() -> None:
    assert Follower().state.topic_id == TOPIC_ID
