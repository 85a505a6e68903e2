"""How many tasks write a query's rows: the record that says it, and what an attempt has to do about it.

Rows go to tasks by their hash, so another number of tasks puts most rows of a micro-batch elsewhere. A task sees only
its own marker. So before it writes it must be certain that no task of another number has committed rows of this batch,
or ever will. The record in the topic of the markers says which number holds.

Decides what follows from such a record. It must not know producers, topics or Spark.

    found                                    of an attempt with `tasks` at `batch`          step
    none                                                                                    write: settled
    a later batch                                                                           refuse (stale)
    settled, the same tasks                                                                 proceed
    settled, other tasks, the same batch                                                    refuse (layout changed)
    settled, other tasks, an earlier batch                                                  write: intent, from those
    intent, from the same tasks                                                             write: settled as before
    intent of the same batch and tasks                                                      replace
    any other intent                                                                        write: intent, from `before`

    replace: fence every task of `before`, then read their markers. None has this batch: write what was intended, as
    settled. One has it: write `before`, as settled.

Invariants
  I1  An attempt writes rows only if it read, after it had taken over its transactional id, a settled layout of its own
      number of tasks.
  I2  A settled layout follows another one only through an intent that all could read before the first of the old tasks
      was fenced. Who takes an id over after that reads the intent, and does not write (I1); who had it before can
      commit no more, and what it did commit is found in its marker.
  I3  So all committed rows of a batch are of one layout. The first to settle one for a batch wins.

| record | JSON, in this order |
| key    | query, layout: true |
| value  | batch, tasks, before: null if settled |
"""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

from kavka.errors import CorruptRecords


class Layout(NamedTuple):
    """`tasks` tasks write from batch `batch` on: settled, or intended in place of `before` tasks."""

    batch: int
    tasks: int
    before: int | None = None

    @property
    def is_settled(self) -> bool:
        return self.before is None

    @property
    def value(self) -> bytes:
        return json.dumps({"batch": self.batch, "tasks": self.tasks, "before": self.before}).encode()


def layout_key(query: str) -> bytes:
    """The key of a query's layout."""
    return json.dumps({"query": query, "layout": True}).encode()


def layout_transactional_id(query: str) -> str:
    """Whoever writes a query's layout has this id, and fences who had it before."""
    return f"kavka-spark-{query}-layout"


def parse_layout(value: bytes) -> Layout:
    """The layout in a record's value; raises `CorruptRecords` for anything else."""
    try:
        found = json.loads(value)
        before = found["before"]
        return Layout(int(found["batch"]), int(found["tasks"]), None if before is None else int(before))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecords(f"{value[:100]!r} is not the layout of a query: {error}") from error


class Verdict(Enum):
    """What needs no record."""

    PROCEED = "proceed"
    STALE = "stale"
    CHANGED = "changed"


class Write(NamedTuple):
    """Write this record, then look again."""

    layout: Layout


class Replace(NamedTuple):
    """Fence the tasks of `intent.before`, read their markers, and write one of the two records."""

    intent: Layout

    def settled(self, *, is_committed: bool) -> Layout:
        """The record to write; `is_committed`: one of the fenced tasks has a marker of this batch or a later one."""
        assert self.intent.before is not None
        return Layout(self.intent.batch, self.intent.before if is_committed else self.intent.tasks)


Step = Verdict | Write | Replace


def next_step(found: Layout | None, batch: int, tasks: int) -> Step:
    """The table above."""
    if found is None:
        return Write(Layout(batch, tasks))
    if found.batch > batch:
        return Verdict.STALE
    if found.before is None:
        if found.tasks == tasks:
            return Verdict.PROCEED
        if found.batch == batch:
            return Verdict.CHANGED
        return Write(Layout(batch, tasks, before=found.tasks))
    if found.before == tasks:
        return Write(Layout(batch, tasks))
    intent = Layout(batch, tasks, before=found.before)
    return Replace(intent) if found == intent else Write(intent)
