"""Each rule of groups, broken by hand: a rule that nothing can break watches nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.client.assignor import encode_assignment
from kavka.coordinator.groups.decide.records import CommittedOffset, offset_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.model import NO_EPOCH, BrokerId, LeaderAndIsr, LeaderEpoch, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import encode
from kavka.protocol.messages.group_metadata_key import GroupMetadataKey
from kavka.protocol.messages.group_metadata_value import GroupMetadataValue
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.simulator.rules.group_rules import TOPIC, GroupRules
from kavka.simulator.rules.replica_view import Stored, View, Violation
from kavka.zookeeper.znodes import PartitionState

HOME, ORDERS = TopicPartition(TOPIC, 0), TopicPartition("orders", 0)
GROUP, LEADER = "readers", 1


def _rules() -> GroupRules:
    view = View(allow_loss=False)
    view.stored[HOME] = Stored(PartitionState(BrokerId(LEADER), LeaderEpoch(3), (BrokerId(LEADER),), 1), 0)
    state = LeaderAndIsr(BrokerId(LEADER), LeaderEpoch(3), (BrokerId(LEADER),), 0)
    look = SimpleNamespace(is_leader=True, state=state)
    view.replicas[HOME] = {LEADER: SimpleNamespace(look=look)}  # type: ignore[dict-item]  # what the rules look at
    return GroupRules(view)


def _batch(record: CoordinatorRecord, stamp: ProducerStamp | None = None) -> RecordBatch:
    builder = BatchBuilder()
    builder.append(1, record.key, record.value)
    data = builder.build() if stamp is None else builder.build(stamp)
    return next(iter(iterate_batches(memoryview(bytearray(data)))))


def _commit_in_log(rules: GroupRules, offset: int) -> None:
    committed = CommittedOffset(offset, LeaderEpoch(NO_EPOCH), "", 1)
    rules.on_committed(HOME, [_batch(offset_record(GROUP, *ORDERS, committed))])


def _generation_in_log(rules: GroupRules, generation: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="",
        current_state_timestamp=1,
        members=[],
    )
    key = b"\0\2" + encode(GroupMetadataKey(group=GROUP), 2)
    rules.on_committed(HOME, [_batch(CoordinatorRecord(key, b"\0\3" + encode(value, 3)))])


def _exchange(key: ApiKey, request: dict[str, Any], answer: dict[str, Any]) -> Any:
    return _Exchange(
        key=key,
        version=7,
        broker=SimpleNamespace(broker_id=LEADER, node="broker-1"),
        request=SimpleNamespace(group_id=GROUP, **request),
        answer=SimpleNamespace(**answer),
    )


class _Exchange(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]  # as an Exchange's, by identity


def _commit(generation: int, offset: int) -> Any:
    asked = SimpleNamespace(partition_index=0, committed_offset=offset)
    answered = SimpleNamespace(partition_index=0, error_code=0)
    return _exchange(
        ApiKey.OFFSET_COMMIT,
        {"generation_id_or_member_epoch": generation, "topics": [SimpleNamespace(name="orders", partitions=[asked])]},
        {"topics": [SimpleNamespace(name="orders", partitions=[answered])]},
    )


def _fetch(offset: int) -> Any:
    answered = SimpleNamespace(partition_index=0, error_code=0, committed_offset=offset)
    return _exchange(
        ApiKey.OFFSET_FETCH,
        {"topics": [SimpleNamespace(name="orders", partition_indexes=[0])]},
        {"error_code": 0, "topics": [SimpleNamespace(name="orders", partitions=[answered])]},
    )


def _sync(generation: int, member: str) -> Any:
    return _exchange(
        ApiKey.SYNC_GROUP,
        {"generation_id": generation, "member_id": member, "protocol_type": "consumer"},
        {"error_code": 0, "assignment": encode_assignment([ORDERS])},
    )


def _acknowledge(rules: GroupRules, generation: int, offset: int) -> None:
    commit = _commit(generation, offset)
    rules.on_request(commit)
    _commit_in_log(rules, offset)
    rules.on_answer(commit)


def test_commits_and_fetches_in_their_order_break_nothing() -> None:
    rules = _rules()
    _generation_in_log(rules, 1)
    rules.on_answer(_sync(1, "a"))
    rules.on_answer(_sync(1, "a"))
    fetch = _fetch(-1)
    rules.on_request(fetch)
    rules.on_answer(fetch)
    _acknowledge(rules, 1, 5)
    fetch = _fetch(5)
    rules.on_request(fetch)
    rules.on_answer(fetch)
    assert rules.commits_acknowledged == 1


def test_a_partition_of_two_members() -> None:
    rules = _rules()
    rules.on_answer(_sync(1, "a"))
    rules.on_answer(_sync(2, "b"))
    with pytest.raises(Violation, match="G1"):
        rules.on_answer(_sync(2, "a"))


def test_a_generation_that_falls() -> None:
    rules = _rules()
    _generation_in_log(rules, 4)
    with pytest.raises(Violation, match="G2"):
        _generation_in_log(rules, 3)


def test_a_commit_of_a_generation_that_is_over() -> None:
    rules = _rules()
    _generation_in_log(rules, 4)
    with pytest.raises(Violation, match="G2"):
        _acknowledge(rules, 3, 5)


def test_a_commit_that_is_acknowledged_and_not_in_the_log() -> None:
    rules = _rules()
    commit = _commit(1, 5)
    rules.on_request(commit)
    with pytest.raises(Violation, match=r"G3.*acknowledged"):
        rules.on_answer(commit)


def test_a_fetch_that_finds_what_was_before_an_acknowledged_commit() -> None:
    rules = _rules()
    _acknowledge(rules, 1, 5)
    _acknowledge(rules, 1, 8)
    for stale in (5, -1):
        fetch = _fetch(stale)
        rules.on_request(fetch)
        with pytest.raises(Violation, match=r"G3.*fetched"):
            rules.on_answer(fetch)


def test_an_offset_of_an_open_or_aborted_transaction_is_not_committed() -> None:
    rules = _rules()
    committed = CommittedOffset(5, LeaderEpoch(NO_EPOCH), "", 1)
    stamp = ProducerStamp(7, 0, 0, is_transactional=True)
    for kind, expected in ((ControlType.ABORT, {}), (ControlType.COMMIT, {ORDERS: 5})):
        rules.on_committed(HOME, [_batch(offset_record(GROUP, *ORDERS, committed), stamp)])
        assert rules.positions(GROUP) == {}
        marker = build_marker(EndTransactionMarker(kind, 0), producer_id=7, producer_epoch=0, timestamp=1)
        rules.on_committed(HOME, list(iterate_batches(memoryview(bytearray(marker)))))
        assert rules.positions(GROUP) == expected


def test_a_record_below_a_committed_offset_that_nobody_was_given() -> None:
    rules = _rules()
    _commit_in_log(rules, 3)
    rules.delivered[GROUP, ORDERS] = {0: None, 2: None}
    with pytest.raises(Violation, match=r"G4.*\[1\]"):
        rules.check_at_least_once({ORDERS: {0: b"", 1: b"", 2: b"", 3: b""}})
    rules.delivered[GROUP, ORDERS][1] = None
    rules.check_at_least_once({ORDERS: {0: b"", 1: b"", 2: b"", 3: b""}})
