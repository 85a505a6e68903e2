"""Committed and pending offsets against a list model: of one partition the last record that counts holds."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.groups.decide.records import CommittedOffset, OffsetRecord
from kavka.coordinator.groups.offsets.decide.group_offsets import GroupOffsets, OffsetKey


def record(value: int | None, partition: int = 0) -> OffsetRecord:
    return OffsetRecord("g", "t", partition, None if value is None else CommittedOffset(value, -1, "", 0))


def held(offsets: GroupOffsets, partition: int = 0) -> int | None:
    found = offsets.get("g", "t", partition)
    return None if found is None else found.offset


def test_an_offset_of_a_transaction_is_pending_until_its_marker_and_holds_with_it() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5)], 1)
    assert held(offsets) is None
    assert offsets.is_pending(OffsetKey("g", "t", 0))
    assert offsets.end(7, committed=True) == ["g"]
    assert held(offsets) == 5
    assert not offsets.has_pending("g")


def test_an_aborted_transaction_leaves_nothing() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5)], 1)
    offsets.end(7, committed=False)
    assert not offsets.has_any("g")


def test_a_marker_ends_what_lies_before_it() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5), record(8, 2)], 1)
    offsets.hold(7, [record(6), record(7, 1)], 3)
    assert offsets.end(7, committed=True, position=2) == ["g"]
    assert (held(offsets), held(offsets, 1), held(offsets, 2)) == (5, None, 8)
    assert [offsets.is_pending(OffsetKey("g", "t", partition)) for partition in range(3)] == [True, True, False]
    assert offsets.end(7, committed=True, position=3) == []
    assert offsets.end(7, committed=False, position=4) == ["g"]
    assert (held(offsets), held(offsets, 1)) == (5, None)
    assert not offsets.has_pending("g")


def test_a_marker_brings_nothing_back_that_was_committed_or_deleted_after_it() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5), record(5, 1)], 1)
    offsets.replay(record(9), 2)
    offsets.replay(record(None, 1), 3)
    offsets.end(7, committed=True)
    assert held(offsets) == 9
    assert held(offsets, 1) is None
    assert not offsets.has_pending("g")


def test_what_is_certainly_not_in_the_log_is_not_pending_and_what_came_before_it_is() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5)], 1)
    offsets.confirm(7, 1)
    offsets.hold(7, [record(6)], 2)
    offsets.revoke(7, 2)
    assert offsets.is_pending(OffsetKey("g", "t", 0))
    offsets.end(7, committed=True)
    assert held(offsets) == 5
    offsets.hold(8, [record(6)], 3)
    offsets.revoke(8, 3)
    assert not offsets.has_pending("g")


def test_a_commit_that_is_told_of_late_does_not_undo_a_later_one() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(9), 2)
    offsets.replay(record(5), 1)
    assert held(offsets) == 9


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 1), st.one_of(st.none(), st.integers(0, 99))),
        st.tuples(st.just("hold"), st.integers(1, 3), st.integers(0, 1), st.integers(0, 99)),
        st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_furthest_record_that_counts_holds(steps: list[tuple[object, ...]]) -> None:
    offsets = GroupOffsets()
    log: list[tuple[int, int, int | None, int | None]] = []
    outcome: dict[int, bool] = {}
    open_: dict[int, list[int]] = {}
    for position, step in enumerate(steps):
        if step[0] == "commit":
            _, partition, value = step
            log.append((position, partition, value, None))  # type: ignore[arg-type]
            offsets.replay(record(value, partition), position)  # type: ignore[arg-type]
        elif step[0] == "hold":
            _, producer, partition, value = step
            log.append((position, partition, value, producer))  # type: ignore[arg-type]
            open_.setdefault(producer, []).append(position)  # type: ignore[call-overload,arg-type]
            offsets.hold(producer, [record(value, partition)], position)  # type: ignore[arg-type]
        else:
            _, producer, committed = step
            for of in open_.pop(producer, []):  # type: ignore[call-overload]
                outcome[of] = bool(committed)
            offsets.end(producer, committed=bool(committed))  # type: ignore[arg-type]
        for partition in (0, 1):
            counted = [
                value for at, p, value, producer in log if p == partition and (producer is None or outcome.get(at))
            ]
            # The last record that counts by place in the log, not by when its marker came.
            assert held(offsets, partition) == (counted[-1] if counted else None)
        waiting = {p for at, p, _v, producer in log if producer is not None and at not in outcome}
        deleted_after = {
            p
            for p in waiting
            if all(
                any(q == p and value is None and producer is None and later > at for later, q, value, producer in log)
                for at, r, _v, owner in log
                if r == p and owner is not None and at not in outcome
            )
        }
        pending = {p for p in (0, 1) if offsets.is_pending(OffsetKey("g", "t", p))}
        assert pending == waiting - deleted_after


def test_nothing_is_kept_of_transactions_and_doubts_that_are_over() -> None:
    """Each producer has an id of its own, and groups come and go: a broker's memory would grow with all that ever were.
    What counts is how much there is, whatever it is made of."""
    offsets, empty = GroupOffsets(), len(pickle.dumps(GroupOffsets()))
    for number in range(100):
        of_group = OffsetRecord(f"g{number}", "t", 0, CommittedOffset(number, -1, "", 0))
        gone = of_group._replace(committed=None)
        offsets.hold(4 * number, [], 8 * number)
        offsets.hold(4 * number + 1, [of_group], 8 * number + 1)
        offsets.end(4 * number + 1, committed=False)
        offsets.hold(4 * number + 2, [of_group], 8 * number + 2)
        offsets.revoke(4 * number + 2, 8 * number + 2)
        offsets.hold(4 * number + 3, [of_group], 8 * number + 3)
        offsets.begin([of_group])
        offsets.doubt([of_group])
        offsets.finish([of_group])
        offsets.replay(gone, 8 * number + 4)
    assert len(pickle.dumps(offsets)) == empty
