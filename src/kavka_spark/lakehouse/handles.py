"""TableHandle: a table that a topic was written to, for its users: what it holds, and as of which offset.

    from kavka_spark.lakehouse.handles import delta_table, iceberg_table

    orders = delta_table("tables/orders")
    orders.starting_offsets()               # where a query with a new checkpoint goes on
    orders.as_of("orders", 0, 4711)         # the first version that has this record

Decides which commit has an offset. Must not know a table format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kavka.model import TopicPartition
from kavka_spark.lakehouse.delta_format import DeltaTarget
from kavka_spark.lakehouse.errors import LakehouseError
from kavka_spark.lakehouse.iceberg_format import DEFAULT_CATALOG, IcebergTarget
from kavka_spark.lakehouse.lake_options import DEFAULT_WRITER_ID, LakeOptions
from kavka_spark.lakehouse.places import Place
from kavka_spark.lakehouse.progress import starting_offsets
from kavka_spark.lakehouse.table import Table, filled_in_of


class CommittedBatch(NamedTuple):
    """One micro-batch in the table. Offsets are the first one that it has, and the one behind its last."""

    version: int
    """Delta's version, or the id of Iceberg's snapshot."""
    writer_id: str
    query: str
    number: int
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    filled_in: tuple[tuple[TopicPartition, int, int], ...] = ()
    """Earlier records that it brought, too: the first offset, and the one behind the last."""


class OffsetNotHeld(LakehouseError):
    """A record that the table does not have, or not in a version that can be told."""


class TableHandle:
    """One table. Each call looks at it anew."""

    def __init__(self, target: DeltaTarget | IcebergTarget) -> None:
        self._target = target

    def open(self) -> Table:
        """The table as it is now. Raises TableRefused if there is none."""
        return self._target.existing()

    def batches(self) -> list[CommittedBatch]:
        """The batches in the table, the first one first, as far as its log or its snapshots reach back."""
        return [_batch(mark) for mark in reversed(self.open().batch_marks())]

    def as_of(self, topic: str, partition: int, offset: int) -> CommittedBatch:
        """The batch whose commit brought the record: with its `version` the table has this record and no later batch.

        For exactly the records up to the offset, filter that version: a batch has more of them. Of a topic that was
        made anew it looks at the one that there is now. Raises OffsetNotHeld.
        """
        return as_of(self.batches(), TopicPartition(topic, partition), offset)

    def starting_offsets(self, writer_id: str = DEFAULT_WRITER_ID) -> str:
        """The option startingOffsets with which a query goes on where the table ends; "{}" where it has no batches."""
        ends: dict[TopicPartition, int] = {}
        for batch in self.batches():
            if batch.writer_id == writer_id:
                ends |= batch.ends
        return starting_offsets(ends)


def as_of(batches: Sequence[CommittedBatch], name: TopicPartition, offset: int) -> CommittedBatch:
    """See `TableHandle.as_of`."""
    known = [batch for batch in batches if name in batch.ends]
    if not known:
        raise OffsetNotHeld(f"the table has no batch with records of {name}")
    same = [batch for batch in known if batch.topic_ids.get(name.topic) == known[-1].topic_ids.get(name.topic)]
    if offset >= same[-1].ends[name]:
        raise OffsetNotHeld(f"the table has {name} up to before offset {same[-1].ends[name]}, and not {offset}")
    for batch in same:
        if any(each == name and first <= offset < end for each, first, end in batch.filled_in):
            return batch
    found = next(batch for batch in same if batch.ends[name] > offset)
    if offset < found.starts.get(name, 0):
        raise OffsetNotHeld(
            f"{name} at offset {offset} came before version {found.version}, the first one whose offsets "
            "the table still tells: the log was cleaned, or the query began behind it"
        )
    return found


def delta_table(path: str) -> TableHandle:
    """The Delta table at a path or address."""
    return TableHandle(DeltaTarget(Place.at(path), LakeOptions()))


def iceberg_table(name: str, catalog: str = DEFAULT_CATALOG, **settings: str) -> TableHandle:
    """The Iceberg table of this name in a catalog; its settings by PyIceberg's names, as `type="rest"`, `uri=...`."""
    return TableHandle(IcebergTarget(name, catalog, tuple(sorted(settings.items())), LakeOptions()))


def _batch(mark: dict[str, Any]) -> CommittedBatch:
    return CommittedBatch(
        mark["version"],
        mark["writer"],
        mark["query"],
        mark["batch"],
        _offsets(mark["starts"]),
        _offsets(mark["ends"]),
        mark["topicIds"],
        filled_in_of(mark),
    )


def _offsets(written: dict[str, dict[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }
