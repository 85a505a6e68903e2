"""Which stage of a request dominates, which broker it waited for, and the form on the disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model import BrokerId, TopicPartition
from kavka.traces import (
    FollowerStep,
    MalformedTrace,
    RequestTrace,
    Stage,
    Stages,
    TracedPartition,
    decode_trace,
    encode_trace,
    verdict,
)

ORDERS = TracedPartition("orders", 3, 10, 12)


def trace(stages: Stages, *followers: FollowerStep, flush_us: int = 0) -> RequestTrace:
    return RequestTrace(
        "2-77-1",
        1_700_000_000_000,
        BrokerId(2),
        "Produce",
        11,
        "app",
        "10.0.0.7",
        "User:ANONYMOUS",
        sampled=False,
        stages=stages,
        partitions=(ORDERS,),
        followers=followers,
        flush_us=flush_us,
    )


def step(broker_id: int, fetched_us: int, *, reached: bool = True, in_sync: bool = True) -> FollowerStep:
    return FollowerStep(BrokerId(broker_id), "orders", 3, fetched_us, reached, in_sync)


def test_the_follower_that_came_last_is_the_one_that_was_waited_for() -> None:
    found = verdict(trace(Stages(local=200, remote=1_500_000), step(1, 3_000), step(3, 1_499_000)))
    assert (found.stage, found.broker_id) == (Stage.REMOTE, 3)
    assert found.why == (
        "Produce of client app at 10.0.0.7 took 1500 ms, 1500 ms of them in stage remote: "
        "broker 3 was the last to fetch the records of orders-3, after 1499 ms"
    )


def test_a_follower_that_never_came_is_named_before_those_that_did() -> None:
    found = verdict(trace(Stages(remote=30_000_000), step(1, 29_999_000), step(3, 20, reached=False)))
    assert found.broker_id == 3
    assert "had not fetched the records of orders-3 yet" in found.why


def test_a_follower_that_left_the_isr_is_named_and_its_leaving_too() -> None:
    found = verdict(trace(Stages(remote=30_000_000), step(1, 1_000), step(3, 20, reached=False, in_sync=False)))
    assert found.broker_id == 3
    assert "left the ISR" in found.why


def test_of_two_that_did_not_come_the_one_in_sync_is_waited_for() -> None:
    gone, there = step(1, 5, reached=False, in_sync=False), step(3, 20, reached=False)
    assert verdict(trace(Stages(remote=30_000_000), gone, there)).broker_id == 3


def test_a_flush_is_the_brokers_own_disk() -> None:
    found = verdict(trace(Stages(remote=900_000), step(1, 1_000), flush_us=800_000))
    assert found.broker_id == 2
    assert "waited for its disk" in found.why


@pytest.mark.parametrize("stage", [each for each in Stage if each is not Stage.REMOTE])
def test_every_other_stage_is_the_brokers_own(stage: Stage) -> None:
    times = [0] * len(Stage)
    times[list(Stage).index(stage)] = 700_000
    found = verdict(trace(Stages(*times), step(1, 1_000)))
    assert (found.stage, found.broker_id, found.share) == (stage, 2, 1.0)


def test_a_partition_knows_its_records_as_far_as_it_knows_their_end() -> None:
    place = TopicPartition("orders", 3)
    assert [ORDERS.has(place, offset) for offset in (9, 10, 11, 12)] == [False, True, True, False]
    assert not ORDERS.has(TopicPartition("orders", 4), 10)
    without_end = TracedPartition("orders", 3, 10)
    assert [without_end.has(place, offset) for offset in (9, 10, 11)] == [False, True, None]


names = st.text(max_size=8)
counts = st.integers(0, 1 << 40)
partitions = st.builds(
    TracedPartition, names, st.integers(0, 99), st.integers(-1, 99), st.integers(-1, 99), names, st.integers(-1, 99)
)
steps = st.builds(FollowerStep, st.integers(0, 9), names, counts, st.integers(-1, 99), st.booleans(), st.booleans())


@given(
    st.builds(Stages, *[counts] * 6),
    st.lists(partitions, max_size=3),
    st.lists(steps, max_size=3),
    st.integers(-1, 99),
    counts,
)
def test_what_is_written_is_read_back(
    stages: Stages, parts: list[TracedPartition], followers: list[FollowerStep], committed: int, flush: int
) -> None:
    whole = trace(stages)._replace(
        partitions=tuple(parts),
        followers=tuple(followers),
        committed_us=committed,
        flush_us=flush,
        stalled_us=flush,
        stall_cause="kavka.log" if flush else "",
    )
    data = encode_trace(whole)
    assert b"\n" not in data
    assert decode_trace(data) == whole


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"version":2}', b'{"version":1}', encode_trace(trace(Stages()))[:-9]]
)
def test_a_torn_line_is_no_trace(line: bytes) -> None:
    with pytest.raises(MalformedTrace):
        decode_trace(line)
