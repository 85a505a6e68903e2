"""Rules of share groups: what they take for right, and what breaks them all the same."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.coordinator.share_state.decide.records import (
    UNKNOWN_START,
    ShareKey,
    ShareState,
    UpdateRecord,
    snapshot_record,
    update_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode
from kavka.model import Offset, StateBatch, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder
from kavka.share.decide.share_partition import SharePartition
from kavka.share.decide.spans import RecordState
from kavka.simulator.host.wire import Exchange
from kavka.simulator.rules.replica_view import View, Violation
from kavka.simulator.rules.share_rules import ShareBounds, ShareRules

ORDERS = TopicPartition("orders", 0)
KEY = ShareKey("workers", uuid.UUID(int=7), ORDERS.partition)
END = 10
"""Of the log of the orders."""


def _rules() -> ShareRules:
    view = View(allow_loss=False)
    view.topic_ids[ORDERS.topic] = KEY.topic_id
    rules = ShareRules(view)
    rules.begin(ShareBounds(lock_ms=3_000, deliveries=3, in_flight=100, sessions=10))
    return rules


def _commit(rules: ShareRules, *records: CoordinatorRecord) -> None:
    builder = BatchBuilder()
    for record in records:
        builder.append(1, record.key, record.value)
    rules.on_committed(list(iterate_batches(memoryview(bytearray(builder.build())))))


def _made(state_epoch: int, start: Offset, leader_epoch: int = -1) -> CoordinatorRecord:
    return snapshot_record(KEY, ShareState(0, state_epoch, leader_epoch, start, 0, 1, 1))


def _written(leader_epoch: int, start: Offset, *batches: StateBatch) -> CoordinatorRecord:
    return update_record(UpdateRecord(KEY, 0, leader_epoch, start, 0, batches))


def _deletion() -> Exchange:
    """An administrator's request, as a broker gets it."""
    broker: Any = None
    context: Any = SimpleNamespace(client_host="administrator")
    return Exchange(broker, ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[KEY.group_id]), context)


def _answer(rules: ShareRules, deletion: Exchange, error: ErrorCode) -> None:
    result = DeletableGroupResult(group_id=KEY.group_id, error_code=error)
    deletion.answer = DeleteGroupsResponse(results=[result])
    rules.on_answer(deletion)


def _look(rules: ShareRules, *, leader_epoch: int, begins: Offset, kept: tuple[StateBatch, ...] = ()) -> None:
    """At a broker that has loaded the state just now."""
    log = SimpleNamespace(log_start_offset=0, log_end_offset=END)
    hosted = SimpleNamespace(log=log, topic_partition=ORDERS)
    records = SharePartition(begins, kept)
    led = SimpleNamespace(key=KEY, hosted=hosted, leader_epoch=leader_epoch, state_epoch=1, records=records)
    counts = SimpleNamespace(dead_letter_failures={})
    room = SimpleNamespace(sessions=(), leaders=SimpleNamespace(counts=counts, led=lambda: [led]))
    inner = SimpleNamespace(share=SimpleNamespace(made=room))
    broker: Any = SimpleNamespace(broker_id=1, life=1, hosted=SimpleNamespace(inner=inner))
    rules.check(broker)


def _find(rules: ShareRules, *offsets: Offset) -> None:
    rules.check_nothing_lost(KEY.group_id, {ORDERS: dict.fromkeys(offsets, b"")}, {ORDERS: 0})


def test_a_leader_that_slept_may_begin_with_what_it_read_before_another_led() -> None:
    """It read the state, stood still, and does not know yet that another one leads. It can store nothing."""
    rules = _rules()
    _commit(rules, _made(1, UNKNOWN_START), _written(0, 0), _written(1, 7))

    _look(rules, leader_epoch=0, begins=0)


def test_a_leader_that_begins_below_what_is_done_breaks_a_rule() -> None:
    rules = _rules()
    _commit(rules, _made(1, UNKNOWN_START), _written(0, 0), _written(1, 7))

    with pytest.raises(Violation, match="SH4"):
        _look(rules, leader_epoch=1, begins=0)


def test_a_leader_that_forgets_which_dead_letters_are_due_breaks_a_rule() -> None:
    rules = _rules()
    due = StateBatch(3, 3, RecordState.ARCHIVING, 0)
    _commit(rules, _made(1, UNKNOWN_START), _written(1, 0, due))

    _look(rules, leader_epoch=1, begins=0, kept=(due,))
    with pytest.raises(Violation, match="SH14"):
        _look(rules, leader_epoch=1, begins=0)


def test_what_lies_below_the_start_that_an_administrator_set_before_anybody_read_the_state_need_not_be_done() -> None:
    """So a new group may be told to begin elsewhere: nothing was set anew, as nothing had begun."""
    rules = _rules()
    _commit(rules, _made(1, UNKNOWN_START), _made(6, 2), _written(0, 4))

    _find(rules, 0, 1)
    with pytest.raises(Violation, match="SH3"):
        _find(rules, 2)


def test_what_lies_below_the_start_of_a_state_that_was_made_there_need_not_be_done() -> None:
    rules = _rules()
    _commit(rules, _made(1, 2), _written(0, 4))

    _find(rules, 0, 1)
    with pytest.raises(Violation, match="SH3"):
        _find(rules, 2)


@pytest.mark.parametrize("first", [_written(0, 4), _made(1, 4, leader_epoch=0)], ids=["an update", "a snapshot"])
def test_a_leader_that_has_the_group_begin_behind_the_first_record_breaks_a_rule(first: CoordinatorRecord) -> None:
    rules = _rules()
    _commit(rules, _made(1, UNKNOWN_START), first)

    with pytest.raises(Violation, match="SH3"):
        _find(rules, 0)


def test_a_start_that_is_forgotten_without_its_state_s_deletion_breaks_a_rule() -> None:
    """In a later epoch too: the group would begin wherever its settings say."""
    deletion = snapshot_record(KEY, None)
    rules = _rules()
    rules.on_request(_deletion())
    _commit(rules, _made(1, UNKNOWN_START), _written(0, 4), deletion, _made(2, UNKNOWN_START), _written(0, 6))

    with pytest.raises(Violation, match="SH4"):
        _commit(rules, _made(3, UNKNOWN_START, leader_epoch=0))


def test_a_state_that_is_deleted_after_who_wanted_that_was_told_so_breaks_a_rule() -> None:
    """It was made again, and the request came late."""
    gone = snapshot_record(KEY, None)
    rules = _rules()
    failed, told = _deletion(), _deletion()
    rules.on_request(failed)
    _commit(rules, _made(7, UNKNOWN_START), gone, _made(7, UNKNOWN_START))
    _answer(rules, failed, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    _commit(rules, gone, _made(7, UNKNOWN_START))
    rules.on_request(told)
    _commit(rules, gone)
    _answer(rules, told, ErrorCode.NONE)
    _commit(rules, _made(1, UNKNOWN_START))

    with pytest.raises(Violation, match="SH17"):
        _commit(rules, gone)
