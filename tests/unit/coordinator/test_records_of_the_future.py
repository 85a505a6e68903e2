"""A record of a version that is not known here is passed over, and the log behind it is read on.

Any client that calls itself `__admin_client` may write to a coordinator's topic where nobody asks who it is, and a
newer broker may have written before.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from kavka.coordinator.groups.decide.records import CommittedOffset, OffsetRecord, decode_record, offset_record
from kavka.coordinator.groups.shard_writer import ShardWriter
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.transactions.decide.records import decode_transaction_record, transaction_tombstone
from kavka.errors import ProtocolViolation

KNOWN = offset_record("g", "t", 0, CommittedOffset(5, 1, "", 1_000))
FUTURE = b"\x00\x63" + b"whatever"


def test_an_offset_of_a_future_version_is_no_offset() -> None:
    with pytest.raises(ProtocolViolation, match=r"OffsetCommitValue .* not 99: a newer broker may have written it"):
        decode_record(KNOWN.key, FUTURE)


def test_a_group_of_a_future_version_is_no_group() -> None:
    with pytest.raises(ProtocolViolation, match="GroupMetadataValue"):
        decode_record(b"\x00\x02\x00\x01g", FUTURE)


def test_a_transaction_of_a_future_version_is_no_transaction() -> None:
    with pytest.raises(ProtocolViolation, match="TransactionLogValue"):
        decode_transaction_record(transaction_tombstone("txn").key, FUTURE)


def test_a_coordinator_reads_on_behind_it() -> None:
    writer = ShardWriter(cast(Any, None), lambda: 0)
    assert writer.decoded(0, CoordinatorRecord(KNOWN.key, FUTURE)) is None
    assert isinstance(writer.decoded(0, KNOWN), OffsetRecord)
