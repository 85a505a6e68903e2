"""Whether a micro-batch may be committed: pure.

Decides from what the table holds and what the batch is. Must not know how a table keeps it.

| the table has | the batch is | step |
|--|--|--|
| batch N of the query | N, up to the same offsets | SKIP: the commit before had come through |
| batch N of the query | N, up to others | refuse: another checkpoint with the same id |
| batch N of the query | before N | refuse: an old process, or a checkpoint that was set back |
| batch N of the query | after N+1 | refuse: the table was restored |
| no batch of the query | after 0 | refuse: another table, or one that was made anew |
| the batch's first offset as its next one, or none of this partition | the next, or the first | COMMIT |
| an earlier offset as its next one | | refuse: records between would be missing |
| a later offset as its next one | | refuse: records would be there twice |
| offsets of a topic with another id, by another query | | refuse: the topic was made anew |
| rows of one query, the batch's | one that fills in earlier records, too | COMMIT |
| rows of others, or nobody knows of whom | one that fills in earlier records | refuse: they may be there |

Invariants
  I1  COMMIT only where every partition of the batch goes on at the offset at which the table ends.
  I2  A batch that the table has is never committed again.
  I3  Earlier records are filled in only by the query that was the first one: where the table's rows begin, it began,
      and no other query has filled in any. What it fills in itself does not overlap (`backfill`, I1). A later query
      begins behind the first one's rows, or the first one had none.

Offsets count within a writer id, so that two queries with different filters may write one topic into one table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from kavka.model import TopicPartition
from kavka_spark.lakehouse.batch import Batch
from kavka_spark.lakehouse.errors import BatchRefused

_Value = TypeVar("_Value")
_NEW_CHECKPOINT: Final = "Start the query with a new checkpoint"


class Held(NamedTuple):
    """What a table holds."""

    batch: int | None
    """The last batch of this query; None if there is none."""
    offsets: Mapping[TopicPartition, int]
    """Of this writer id: the next offset of each partition, as far as the batch asks for it."""
    topic_ids: Mapping[str, str]
    """Of the topics of this writer id, as far as they are known."""
    firsts: Mapping[TopicPartition, int] = MappingProxyType({})
    """Of this writer id: where its rows of each partition begin, leaving out what was filled in. As far as commits have
    noted it."""
    fillers: Mapping[TopicPartition, str] = MappingProxyType({})
    """Of partitions in which earlier records were filled in: by which query."""
    filled_in: tuple[tuple[TopicPartition, int, int], ...] | None = None
    """What `batch` filled in; None if that is not known any more."""


class Step(Enum):
    """What to do with a batch that is not refused."""

    COMMIT = "commit"
    SKIP = "skip"


def next_step(batch: Batch, held: Held, *, table: str, writer_id: str) -> Step:
    """See the table above. Raises BatchRefused."""
    if held.batch is not None and batch.number <= held.batch:
        return _known(batch, held, table)
    if batch.follows and batch.number != (0 if held.batch is None else held.batch + 1):
        raise BatchRefused(_not_next(batch, held, table, writer_id))
    if batch.follows:
        _check_filled_in(batch, held, table)
        _check_topics(batch, held, table, writer_id)
        _check_offsets(batch, held, table, writer_id)
    return Step.COMMIT


def noted(batch: Batch, held: Held) -> Batch:
    """The batch with what its commit is to note besides: `Batch.firsts` and `Batch.fillers`."""
    firsts, fillers = dict(held.firsts), dict(held.fillers)
    for name in batch.ends:
        if name in held.offsets:
            continue
        firsts.pop(name, None)  # Of rows that a RESTORE took away.
        if name in batch.starts:
            firsts[name] = batch.starts[name]
        elif batch.number > 0:
            firsts[name] = 0  # It came later, and is read from its beginning.
    fillers |= {name: batch.query for name, _, _ in batch.filled_in}
    return replace(
        batch,
        firsts={name: firsts[name] for name in batch.ends if name in firsts},
        fillers={name: fillers[name] for name in batch.ends if name in fillers},
    )


def _known(batch: Batch, held: Held, table: str) -> Step:
    assert held.batch is not None
    if not batch.follows:
        return Step.SKIP
    if batch.number < held.batch:
        raise BatchRefused(
            f"{batch} comes after batch {held.batch} was committed to {table}: this process was believed dead and "
            "should end, or the checkpoint was set back. Nothing was committed. To go on from the table, see "
            f"startingOffsets below. {_resume(held)}"
        )
    changed = [name for name, end in batch.ends.items() if held.offsets.get(name, end) != end]
    if changed:
        name = min(changed)
        raise BatchRefused(
            f"{batch} was committed to {table} with {name} up to offset {held.offsets[name]}, and comes again with "
            f"offset {batch.ends[name]}: two checkpoints have the id of one query, because one was copied. Only one of "
            f"them can go on. {_NEW_CHECKPOINT} for the other. {_resume(held)}"
        )
    if held.filled_in is not None and held.filled_in != batch.filled_in:
        raise BatchRefused(
            f"{batch} was committed to {table} with other earlier records (kavka.backfill.from) than it comes with "
            "again: two checkpoints have the id of one query, because one was copied. Only one of them can go on. "
            f"{_NEW_CHECKPOINT} for the other. {_resume(held)}"
        )
    return Step.SKIP


def _not_next(batch: Batch, held: Held, table: str, writer_id: str) -> str:
    found = "no batch of this query" if held.batch is None else f"its batches up to {held.batch} only"
    return (
        f"{batch} should follow on batch {batch.number - 1}, but {table} has {found}: the checkpoint wrote to another "
        "table before, or the table was made anew or restored. Nothing was committed. "
        f"{_NEW_CHECKPOINT}{_where(held, writer_id)}"
    )


def _check_filled_in(batch: Batch, held: Held, table: str) -> None:
    for name in sorted({each for each, _, _ in batch.filled_in}):
        filler = held.fillers.get(name)
        if filler == batch.query or (
            filler is None and (name not in held.offsets or batch.began.get(name, -1) == held.firsts.get(name))
        ):
            continue
        raise BatchRefused(
            f"{batch} fills in earlier records of {name} (kavka.backfill.from), and {table} may have them from another "
            "query: only the one that began the table can fill in what was before. Nothing was committed. Fill in "
            "with a batch job, with records that no query has written: "
            'spark.read.format("kavka") with startingOffsets and endingOffsets, written with an exactlyOnceId. '
            f"{_NEW_CHECKPOINT} for the stream, without the backfill{', and ' + _resume(held) if held.offsets else ''}"
        )


def _check_topics(batch: Batch, held: Held, table: str, writer_id: str) -> None:
    if held.batch is not None:
        return  # The query saw the topic change: its source has told of it, or was asked not to (failOnDataLoss).
    for topic, topic_id in sorted(batch.topic_ids.items()):
        before = held.topic_ids.get(topic)
        if before is not None and before != topic_id:
            raise BatchRefused(
                f"{table} holds rows of the topic {topic} that had the id {before}; it was deleted and made anew, and "
                f"has the id {topic_id}. Write the new topic to another table, or, where its rows belong to "
                f"the same one, give the query an option writerId other than {writer_id!r}"
            )


def _check_offsets(batch: Batch, held: Held, table: str, writer_id: str) -> None:
    late, early = [], []
    for name in sorted(batch.ends):
        there = held.offsets.get(name)
        start = batch.starts.get(name)
        if there is None or (batch.ends[name] == there and start in (there, None if there == 0 else there)):
            continue
        if start is None or start < there:
            late.append((name, start, there))
        elif start > there:
            early.append((name, start, there))
    if not late and not early:
        return
    name, start, there = (late or early)[0]
    found = "where it began is not in the checkpoint" if start is None else f"begins at offset {start}"
    more = f" (and {len(late) + len(early) - 1} more partitions)" if len(late) + len(early) > 1 else ""
    outcome = "its records would be there twice" if late else f"records {there} to {(start or 0) - 1} would be missing"
    raise BatchRefused(
        f"{table} holds {name} up to before offset {there}, and {batch} {found}: {outcome}{more}. Nothing was "
        f"committed. {_NEW_CHECKPOINT}{_where(held, writer_id)}"
    )


def _where(held: Held, writer_id: str) -> str:
    goes_on = f", and {_resume(held)}" if held.offsets else ""
    return f"{goes_on}; or, for rows that belong there besides, an option writerId other than {writer_id!r}"


def _resume(held: Held) -> str:
    if not held.offsets:
        return ""
    return f"startingOffsets={starting_offsets(held.offsets)}"


def starting_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The option of the source that goes on where the table ends."""
    return json.dumps(nested(offsets), separators=(",", ":"))


def nested(offsets: Mapping[TopicPartition, _Value]) -> dict[str, dict[str, _Value]]:
    """By topic, then by partition, as Spark writes offsets."""
    written: dict[str, dict[str, _Value]] = {}
    for topic, partition in sorted(offsets):
        written.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return written
