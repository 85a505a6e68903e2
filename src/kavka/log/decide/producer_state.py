"""ProducerState: what each producer wrote last into one log, so that a retry is recognised and a gap refused.

Decides whether a batch of an idempotent producer is new, a duplicate, out of order or fenced; which transactions are
open; and from where on records are not yet stable. It must not know files: `unified_log` keeps the snapshots.

Invariants
  I1  A producer's entry holds its last `BATCHES_RETAINED` batches at most, all of one epoch.
  I2  `check` changes nothing; what was checked is noted by `append` only after it has been written.
  I3  A transaction is in `_ongoing` from its first record to its marker, then in `_unreplicated` until the high
      watermark has passed the marker: no stable offset overtakes either.
  I4  A transaction begins in the log only while a verification of its producer and epoch stands: the coordinator was
      asked whether it is open, answered yes, and no marker of the producer came meanwhile (KIP-890, P6). Otherwise 1. a
      producer sends a batch, which is late; 2. its transaction is aborted, and the marker is written here; 3. the batch
      arrives, and opens a transaction that nobody will ever end. Records from a leader need no such question.
  I5  The state after a log's records is a function of those records (and of what expired), however they were read:
      live, from a leader, or after a crash.

Source: KIP-98, KIP-360, Kafka's ProducerStateManager, ProducerAppendInfo, ProducerStateEntry, TransactionIndex.

A producer's sequence, seen from one partition (e: epoch of the batch, s: its first sequence, E and S: of the entry):

| known? | e, E  | s                                     | client                       | leader, recovery |
|--------|-------|---------------------------------------|------------------------------|------------------|
| no     | < -1  | any                                   | INVALID_PRODUCER_EPOCH       | new              |
| no     | other | any                                   | new                          | new              |
| yes    | e < E | any                                   | INVALID_PRODUCER_EPOCH       | new              |
| yes    | E: -1 | any but a duplicate's                 | new                          | new              |
| yes    | e > E | 0                                     | new                          | new              |
| yes    | e > E | other                                 | OUT_OF_ORDER_SEQUENCE_NUMBER | new              |
| yes    | e = E | first and last of a batch still known | duplicate, old offset        | new              |
| yes    | e = E | S + 1 (0 after 2^31 - 1)              | new                          | new              |
| yes    | e = E | other                                 | OUT_OF_ORDER_SEQUENCE_NUMBER | new              |

While a verification stands, a sequence above the lowest one that was seen with it is out of order too: of several
batches that wait for the coordinator's word the first one must come first. Where it was asked for with transaction
version 2, and no batch of the producer is known, the first sequence must be 0: each transaction has an epoch of its own
there, so a higher one has lost the batch before it. Kafka does so since 4.2.

Kafka 3.9 answers neither DUPLICATE_SEQUENCE_NUMBER nor UNKNOWN_PRODUCER_ID here any more, and so does this.

A snapshot (.snapshot), big-endian: version i16 (1), CRC-32C u32 of all behind it, count i32, then per producer

| offset | width | field                                                   |
|      0 |     8 | producer id                                             |
|      8 |     2 | epoch                                                   |
|     10 |     4 | last sequence, -1 for none                              |
|     14 |     8 | last offset, -1 for none                                |
|     22 |     4 | offset delta: last offset of the last batch - its first |
|     26 |     8 | timestamp, ms                                           |
|     34 |     4 | coordinator epoch                                       |
|     38 |     8 | first offset of the open transaction, -1 for none       |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from crc32c import crc32c

from kavka.errors import ErrorCode, RecordsError
from kavka.log.decide.indexes import AbortedTransaction
from kavka.model import NO_OFFSET, NO_TIMESTAMP, Offset
from kavka.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from kavka.records.control import ControlType, EndTransactionMarker

BATCHES_RETAINED = 5
"""Batches of a producer in which a duplicate is found: max.in.flight.requests.per.connection of an idempotent one."""
MAX_SEQUENCE = (1 << 31) - 1
MAX_VERIFICATIONS = 10_000
"""Producers of one log that may be about to begin a transaction; the oldest one over it has to ask again."""
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct("!hIi")
_CRC_END = 6
_SNAPSHOT_ENTRY = struct.Struct("!qhiqiqiq")


class AppendOrigin(Enum):
    """Who appends: that decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """This broker itself, as group or transaction coordinator: sequences are not checked."""
    REPLICATION = "replication"
    """A leader's records: they were accepted there, nothing is refused here."""


class Verification:
    """That a producer is about to begin a transaction here: see I4. `is_granted` once its coordinator said so;
    `bumps_epoch` where each of its transactions has another epoch, as with transaction version 2.

    `since_ms` is of the wall clock, as the timestamps are that producers expire by: one that is set back keeps entries
    for as much longer (MAX_VERIFICATIONS bounds them), one that is set forward has the coordinator asked again.
    """

    __slots__ = ("bumps_epoch", "is_granted", "lowest_sequence", "producer_epoch", "since_ms")

    def __init__(self, producer_epoch: int, lowest_sequence: int, since_ms: int, *, bumps_epoch: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.since_ms = since_ms
        self.bumps_epoch = bumps_epoch
        self.is_granted = False

    def grant(self, producer_epoch: int) -> None:
        """The transaction of this epoch is open. What stands for a later one is not touched."""
        if producer_epoch == self.producer_epoch:
            self.is_granted = True


class CorruptSnapshot(ValueError):
    """Bytes that are no producer snapshot; an older one is used, or the records are read again."""


class BatchMetadata(NamedTuple):
    """What is remembered of a batch to recognise its retry."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> Offset:
        return self.last_offset - self.offset_delta


class LastRecord(NamedTuple):
    """What compaction must leave of a producer: the batch that ends at `data_offset`, or, where that is None, the
    marker of its epoch."""

    data_offset: Offset | None
    producer_epoch: int


class ProducerEntry:
    """One producer id. `current_txn_first_offset` is -1 outside of a transaction; `batches` the oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: Offset = NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = list(batches)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def __repr__(self) -> str:
        return (
            f"ProducerEntry({self.producer_id}, epoch={self.producer_epoch}, last_sequence={self.last_sequence}, "
            f"last_offset={self.last_offset}, current_txn_first_offset={self.current_txn_first_offset})"
        )


class ProducerState:
    """All producers of one log. `end_offset` is the offset up to which the state tells of the records."""

    __slots__ = ("_ongoing", "_unreplicated", "_verifications", "end_offset", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset: Offset = 0
        # First offset of each open transaction -> its producer, in order of the offsets.
        self._ongoing: dict[Offset, int] = {}
        # First offset -> marker's offset of transactions that ended at or above the high watermark.
        self._unreplicated: dict[Offset, Offset] = {}
        self._verifications: dict[int, Verification] = {}

    def check(self, header: BatchHeader, origin: AppendOrigin) -> BatchMetadata | None:
        """None if the data batch of a producer is new; what is remembered of it if it is here already.

        Raises `RecordsError` as in the table above, and INVALID_TXN_STATE for a plain batch in a transaction.
        """
        if origin is AppendOrigin.REPLICATION:
            return None
        entry = self.producers.get(header.producer_id)
        if entry is None:
            _check_epoch(header.producer_id, NO_PRODUCER_EPOCH, header.producer_epoch)
            if header.is_transactional:
                self._check_verification(header)
                if origin is AppendOrigin.CLIENT:
                    self._check_first_sequence(header)
            return None
        if origin is AppendOrigin.CLIENT:
            duplicate = _duplicate(entry, header)
            if duplicate is not None:
                return duplicate
        _check_epoch(header.producer_id, entry.producer_epoch, header.producer_epoch)
        if origin is AppendOrigin.CLIENT:
            _check_sequence(entry, header)
        if entry.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise RecordsError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open since offset {entry.current_txn_first_offset} "
                "and sent a batch that is not part of it",
            )
        # A transaction that is open in an earlier epoch says nothing about one of this.
        is_open = entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == header.producer_epoch
        if header.is_transactional and not is_open:
            self._check_verification(header)
        return None

    def _check_verification(self, header: BatchHeader) -> None:
        verification = self._verifications.get(header.producer_id)
        if verification is None or not verification.is_granted or verification.producer_epoch != header.producer_epoch:
            raise RecordsError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} epoch {header.producer_epoch} has no transaction that is known here",
            )
        if header.base_sequence > verification.lowest_sequence:
            raise RecordsError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} epoch {header.producer_epoch} began a transaction with sequence "
                f"{header.base_sequence}, but the batch with sequence {verification.lowest_sequence} comes first",
            )

    def _check_first_sequence(self, header: BatchHeader) -> None:
        if header.base_sequence and self._verifications[header.producer_id].bumps_epoch:
            raise RecordsError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} epoch {header.producer_epoch} began with sequence "
                f"{header.base_sequence}, expected 0: no batch of it is known, and each transaction has its own epoch",
            )

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """What stands between the producer and the begin of its transaction here; None while that is open.

        The one that stands already, or a new one. The caller asks the coordinator, and grants it.
        """
        entry = self.producers.get(producer_id)
        if entry is not None and entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == producer_epoch:
            return None
        known = self._verifications.get(producer_id)
        if known is None or known.producer_epoch < producer_epoch:
            if known is None and len(self._verifications) >= MAX_VERIFICATIONS:
                del self._verifications[next(iter(self._verifications))]
            known = self._verifications[producer_id] = Verification(
                producer_epoch, sequence, now_ms, bumps_epoch=bumps_epoch
            )
        elif known.producer_epoch == producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def stands(self, producer_id: int, verification: Verification) -> bool:
        """Whether no marker has ended the verification, and no record of the transaction."""
        return self._verifications.get(producer_id) is verification

    def append(self, header: BatchHeader, first_offset: Offset) -> None:
        """Notes a data batch of a producer that was written at `first_offset`."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        entry.enter_epoch(header.producer_epoch)
        batches = entry.batches
        if len(batches) >= BATCHES_RETAINED:
            del batches[0]
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        batches.append(BatchMetadata(header.last_sequence, first_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if header.is_transactional and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = header.producer_id
            self._verifications.pop(header.producer_id, None)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, origin: AppendOrigin) -> None:
        """Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker from a past life."""
        entry = self.producers.get(header.producer_id)
        if entry is None or origin is AppendOrigin.REPLICATION:
            return
        _check_epoch(header.producer_id, entry.producer_epoch, header.producer_epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise RecordsError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {header.producer_id}: the marker has coordinator epoch {marker.coordinator_epoch}, "
                f"an earlier one had {entry.coordinator_epoch}",
            )

    def end_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: Offset
    ) -> AbortedTransaction | None:
        """Notes a marker written at `offset`; returns what belongs into the transaction index, if it aborts one."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        self._verifications.pop(header.producer_id, None)
        first_offset = entry.current_txn_first_offset
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = NO_OFFSET
        entry.last_timestamp = header.max_timestamp
        if first_offset == NO_OFFSET:
            return None
        stable = min((first for first, producer in self._ongoing.items() if producer != header.producer_id), default=-1)
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        if marker.control_type is not ControlType.ABORT:
            return None
        return AbortedTransaction(header.producer_id, first_offset, offset, stable if stable >= 0 else offset + 1)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """What is remembered of a producer; not to be changed."""
        return self.producers.get(producer_id)

    def entries(self) -> list[ProducerEntry]:
        """What is remembered of each producer, by id; not to be changed."""
        return [entry for _producer_id, entry in sorted(self.producers.items())]

    @property
    def first_unstable_offset(self) -> Offset:
        """First offset of the oldest transaction that is open, or ended above the high watermark; -1 for none."""
        first = next(iter(self._ongoing), NO_OFFSET)
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            if first == NO_OFFSET or unreplicated < first:
                return unreplicated
        return first

    def on_high_watermark(self, high_watermark: Offset) -> None:
        """Transactions whose marker lies below the high watermark are stable from now on."""
        if self._unreplicated:
            for first in [first for first, last in self._unreplicated.items() if last < high_watermark]:
                del self._unreplicated[first]

    def last_records(self) -> dict[int, LastRecord]:
        """What the log must keep of each producer, so that the state can be rebuilt from it."""
        return {
            entry.producer_id: LastRecord(
                entry.last_offset if entry.last_offset != NO_OFFSET else None, entry.producer_epoch
            )
            for entry in self.producers.values()
        }

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forgets producers that wrote nothing for `expiration_ms` and have no open transaction; returns their ids."""
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.since_ms >= expiration_ms:
                del self._verifications[producer_id]
        expired = [entry.producer_id for entry in self.producers.values() if _is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        return expired

    def clear(self, end_offset: Offset) -> None:
        """Knows nothing any more, as of `end_offset`."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._verifications.clear()
        self.end_offset = end_offset

    def load(self, snapshot: bytes, end_offset: Offset, now_ms: int, expiration_ms: int) -> None:
        """Becomes what `snapshot` says of the records before `end_offset`. Raises `CorruptSnapshot`, unchanged."""
        entries = [entry for entry in parse_snapshot(snapshot) if not _is_expired(entry, now_ms, expiration_ms)]
        self.clear(end_offset)
        self.producers.update((entry.producer_id, entry) for entry in entries)
        open_transactions = [(entry.current_txn_first_offset, entry.producer_id) for entry in entries]
        self._ongoing.update(sorted(pair for pair in open_transactions if pair[0] != NO_OFFSET))

    def snapshot(self) -> bytes:
        """The bytes of a .snapshot file."""
        return format_snapshot(self.producers.values())


def format_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """A .snapshot file's bytes: of each producer its last batch only."""
    rows = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        rows.append(
            _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        )
    data = bytearray(_SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, 0, len(rows)) + b"".join(rows))
    data[2:_CRC_END] = crc32c(memoryview(data)[_CRC_END:]).to_bytes(4, "big")
    return bytes(data)


def parse_snapshot(data: bytes) -> Iterator[ProducerEntry]:
    """The producers in a .snapshot file, read lazily once the whole was checked. Raises `CorruptSnapshot`."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are not a producer snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_SNAPSHOT_VERSION}")
    computed = crc32c(memoryview(data)[_CRC_END:])
    if crc != computed:
        raise CorruptSnapshot(f"the CRC is {computed:#010x}, the file says {crc:#010x}")
    if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not fit into {len(data)} bytes")
    return map(_entry, _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]))


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    return ProducerEntry(
        producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=txn_first_offset if txn_first_offset >= 0 else NO_OFFSET,
        batches=[BatchMetadata(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else (),
    )


def _duplicate(entry: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
    if header.producer_epoch == entry.producer_epoch:
        for batch in entry.batches:
            if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                return batch
    return None


def _check_epoch(producer_id: int, known_epoch: int, producer_epoch: int) -> None:
    if producer_epoch < known_epoch:
        raise RecordsError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} sent epoch {producer_epoch}, but has epoch {known_epoch} by now",
        )


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.producer_epoch == NO_PRODUCER_EPOCH:
        return
    sequence = header.base_sequence
    if header.producer_epoch != entry.producer_epoch:
        expected = 0
    else:
        last = entry.last_sequence
        expected = 0 if last == MAX_SEQUENCE else last + 1
    if sequence != expected:
        raise RecordsError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {entry.producer_id} epoch {header.producer_epoch} sent sequence {sequence}, expected {expected}",
        )


def _is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
