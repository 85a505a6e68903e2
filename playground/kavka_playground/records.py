"""ReplicaRecords: the records of one replica, and which promised ones the partition has lost.

Decides when a record counts as lost: its producer was told that it is written, and a leader that knows that it leads
has another record at its offset, or none.

    I1  looking changes nothing: a log is read, no clock moves, no chance is drawn
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kavka.records.batch import iterate_batches
from kavka.simulator.rules.log_mirror import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kavka.model import LeaderEpoch, Offset
    from kavka.replication.decide.partition import Partition
    from kavka_playground.traffic import Sent


@dataclass(frozen=True, slots=True)
class Loss:
    """A promised record that is gone. `leader`, `epoch`: whose log lacked it first."""

    number: int
    offset: int
    acks: str
    leader: int
    epoch: int

    @property
    def text(self) -> str:
        return (
            f"record {self.number}, promised at offset {self.offset} with acks={self.acks}: "
            f"leader {self.leader} of epoch {self.epoch} does not have it"
        )

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class ReplicaRecords:
    """The records of one replica, read once."""

    def __init__(self) -> None:
        self.partition: Partition | None = None
        self.end: Offset = 0
        self.epochs: list[Any] = []
        self.values: dict[Offset, tuple[LeaderEpoch, bytes]] = {}

    def follow(self, partition: Partition) -> None:
        """Takes over what is new. What was cut back and written again has another epoch, and is read again."""
        log = partition.log
        end, epochs = log.log_end_offset, log.epoch_entries
        grown = [each for each in epochs if each.start_offset < self.end]
        if partition is not self.partition or end < self.end or grown != self.epochs:
            self.values, self.end = {}, log.log_start_offset
        self.partition, self.epochs = partition, [each for each in epochs if each.start_offset < end]
        while self.end < end:
            result = log.read(self.end, READ_BYTES, max_offset=end, min_one_batch=True)
            before = self.end
            for chunk in result.chunks:
                for batch in iterate_batches(memoryview(chunk.tobytes())):
                    epoch = batch.header.partition_leader_epoch
                    self.values.update((each.offset, (epoch, bytes(each.value or b""))) for each in batch.records())
                    self.end = batch.header.last_offset + 1
            if self.end == before:
                return

    def missing(self, sent: Iterable[Sent]) -> list[Sent]:
        """Which records were promised and are not here."""
        return [
            record
            for record in sent
            if record.is_promised and self.values.get(record.offset, (0, b""))[1] != record.value
        ]
