"""Each rule of transactions, broken by hand: a rule that nothing can break watches nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.simulator.rules.replica_view import View, Violation
from kavka.simulator.rules.transaction_rules import LEDGER, Entry, TransactionRules, _Fence

ONE, TWO = TopicPartition(LEDGER, 0), TopicPartition(LEDGER, 1)
INPUT = TopicPartition("orders", 0)


def _batch(offset: int, *entries: Entry, producer_id: int = 7, epoch: int = 0) -> RecordBatch:
    builder = BatchBuilder()
    for entry in entries:
        builder.append(1, None, entry.encode())
    stamp = ProducerStamp(producer_id, epoch, 0, is_transactional=True)
    return next(iter(iterate_batches(memoryview(bytearray(builder.build(stamp, base_offset=offset))))))


def _marker(offset: int, kind: ControlType, *, producer_id: int = 7, epoch: int = 0) -> RecordBatch:
    data = build_marker(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=epoch, timestamp=1, base_offset=offset
    )
    return next(iter(iterate_batches(memoryview(bytearray(data)))))


def _rules() -> TransactionRules:
    return TransactionRules(View(allow_loss=False))


def _commit(rules: TransactionRules, partition: TopicPartition, offset: int, *entries: Entry) -> dict[int, bytes]:
    rules.on_committed(partition, [_batch(offset, *entries), _marker(offset + len(entries), ControlType.COMMIT)])
    return {offset + index: entry.encode() for index, entry in enumerate(entries)}


def test_a_whole_transaction_that_is_read_breaks_nothing() -> None:
    rules = _rules()
    found = {
        ONE: _commit(rules, ONE, 0, Entry("a", 0, 2, "orders-0:0")),
        TWO: _commit(rules, TWO, 0, Entry("a", 1, 2, "orders-0:1")),
    }
    rules.on_read(ONE, 0, Entry("a", 0, 2, "orders-0:0").encode())
    rules.on_told("a", is_committed=True)
    rules.check(found)
    rules.check_inputs(found, {INPUT: {0: b"", 1: b"", 2: b""}}, {INPUT: 2})


def test_one_outcome_in_one_partition_and_another_in_the_other() -> None:
    rules = _rules()
    _commit(rules, ONE, 0, Entry("a", 0, 2))
    with pytest.raises(Violation, match=r"P4.*committed and aborted"):
        rules.on_committed(TWO, [_batch(0, Entry("a", 1, 2)), _marker(1, ControlType.ABORT)])


def test_a_record_of_an_aborted_or_open_transaction_is_read() -> None:
    rules = _rules()
    rules.on_committed(ONE, [_batch(0, Entry("a", 0, 1)), _marker(1, ControlType.ABORT), _batch(2, Entry("b", 0, 1))])
    for offset, name in ((0, "a"), (2, "b")):
        with pytest.raises(Violation, match="P3"):
            rules.on_read(ONE, offset, Entry(name, 0, 1).encode())


def test_a_committed_record_is_not_read() -> None:
    rules = _rules()
    _commit(rules, ONE, 0, Entry("a", 0, 1))
    with pytest.raises(Violation, match="P3"):
        rules.check({ONE: {}})


def test_a_torn_transaction() -> None:
    rules = _rules()
    found = {ONE: _commit(rules, ONE, 0, Entry("a", 0, 2))}
    with pytest.raises(Violation, match=r"P4.*has 2 records"):
        rules.check(found)


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_end_that_is_not_the_one_its_producer_was_told(is_committed: bool) -> None:
    rules = _rules()
    found = {} if is_committed else {ONE: _commit(rules, ONE, 0, Entry("a", 0, 1))}
    rules.on_told("a", is_committed=is_committed)
    with pytest.raises(Violation, match=r"P4.*was told"):
        rules.check(found)


def test_an_input_of_which_something_is_made_twice_or_never() -> None:
    rules = _rules()
    found = {
        ONE: _commit(rules, ONE, 0, Entry("a", 0, 1, "orders-0:0")),
        TWO: _commit(rules, TWO, 0, Entry("b", 0, 1, "orders-0:0")),
    }
    with pytest.raises(Violation, match=r"P7.*made twice"):
        rules.check(found)
    with pytest.raises(Violation, match=r"P7.*nothing was made"):
        rules.check_inputs(found, {INPUT: {0: b"", 1: b""}}, {INPUT: 2})


def _given(rules: TransactionRules, name: str | None, producer_id: int, epoch: int) -> None:
    rules.on_answer(
        SimpleNamespace(  # type: ignore[arg-type]  # what the rules look at of an Exchange
            key=ApiKey.INIT_PRODUCER_ID,
            request=SimpleNamespace(transactional_id=name, producer_id=-1),
            answer=SimpleNamespace(error_code=0, producer_id=producer_id, producer_epoch=epoch),
        )
    )


def test_a_producer_id_that_two_get() -> None:
    rules = _rules()
    _given(rules, "one", 7, 0)
    _given(rules, "one", 7, 1)
    with pytest.raises(Violation, match="P2"):
        _given(rules, "other", 7, 2)
    _given(rules, None, 8, 0)
    with pytest.raises(Violation, match="P2"):
        _given(rules, None, 8, 0)


def test_a_former_epoch_writes_on() -> None:
    rules = _rules()
    rules._fences[7] = _Fence(2, {ONE: 5})
    rules.on_committed(ONE, [_batch(4, Entry("a", 0, 1), epoch=1)])
    with pytest.raises(Violation, match="P5"):
        rules.on_committed(ONE, [_batch(5, Entry("a", 0, 1), epoch=1)])
