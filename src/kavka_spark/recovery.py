"""Recovery: how far a query that writes exactly once has come, and how it goes on.

Decides what its checkpoint and its markers mean together, in words for whoever has to start the query again. Changes
nothing. It must not know how the answer is shown.

    checkpoint   offsets/N  Spark has planned batch N      markers   tasks that have committed, and their last batch
                 commits/N  batch N is through             layout    how many tasks write, from which batch on

Source: Spark's checkpoints (`StreamMetadata`, `OffsetSeqLog`, `CommitLog`, `CheckpointFileManager.generateTempPath`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kavka.errors import ConfigError
from kavka_spark.markers import Marker
from kavka_spark.writer_layouts import Layout

MOST_METADATA_BYTES: Final = 1 << 20
MOST_SHOWN: Final = 20
_UNFINISHED: Final = re.compile(r"\.\d+\..+\.tmp")


class NoCheckpoint(ConfigError):
    """What is no checkpoint of a query."""

    next_step: Final = "name the query's checkpointLocation. Of one in a store copy metadata, offsets and commits here"


class Checkpoint(NamedTuple):
    """What is known of a query besides its markers. Of a batch job with an id nothing but that is."""

    query: str
    planned: int | None = None
    """The last batch that Spark has begun."""
    finished: int | None = None
    """The last one that is through, according to Spark."""
    unfinished: tuple[Path, ...] = ()
    """Where no batch is planned: plans that a killed driver had not yet given their name. Spark does not start with
    them."""


class Progress(NamedTuple):
    """What is in the topic of the markers."""

    layout: Layout | None
    markers: Mapping[int, Marker]
    """By task."""


class Advice(NamedTuple):
    """What there is, and what to do."""

    found: str
    next_step: str


def read_checkpoint(directory: Path) -> Checkpoint:
    """Raises NoCheckpoint."""
    file = directory / "metadata"
    try:
        with file.open("rb") as opened:
            query = json.loads(opened.read(MOST_METADATA_BYTES))["id"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else f"{file.name} is damaged: {problem}"
        raise NoCheckpoint(f"{directory} is no checkpoint of a query on this machine: {why}") from problem
    planned = _last_batch(directory / "offsets")
    return Checkpoint(str(query), planned, _last_batch(directory / "commits"), _unfinished(directory, planned))


def is_unfinished_plan(name: str) -> bool:
    """Whether a file in `offsets` is a plan as Spark writes it before it gets its name, N: `.N.UUID.tmp`."""
    return _UNFINISHED.fullmatch(name) is not None


def _unfinished(directory: Path, planned: int | None) -> tuple[Path, ...]:
    plans = directory / "offsets"
    if planned is not None or not plans.is_dir():
        return ()
    return tuple(sorted(file for file in plans.iterdir() if is_unfinished_plan(file.name)))


def _last_batch(directory: Path) -> int | None:
    if not directory.is_dir():
        return None
    return max((int(file.name) for file in directory.iterdir() if file.name.isdigit()), default=None)


def advise(checkpoint: Checkpoint, progress: Progress) -> Advice:
    """What the next start of the query will do, and with which number of tasks."""
    layout, markers = progress
    last = max((marker.batch for marker in markers.values()), default=None)
    batch = last if checkpoint.planned is None else checkpoint.planned
    if checkpoint.unfinished and last is None:
        return Advice(
            "nothing is committed, and Spark was killed while it planned the first batch. Spark 4.1 and later do not "
            "start with what that left",
            f"remove {', '.join(map(str, checkpoint.unfinished))}, and start the query; the number in "
            "stable(df, ...) is free",
        )
    if batch is None or (layout is None and last is None):
        return Advice("nothing is committed", "start the query; the number in stable(df, ...) is free")
    if last is not None and last > batch:
        return Advice(
            f"the checkpoint ends with batch {batch}, and batch {last} is committed: it was set back, or copied",
            "start with the newer checkpoint; with this one batches are refused (StaleBatchError)",
        )
    done = sorted(task for task, marker in markers.items() if marker.batch == batch)
    if layout is None:
        return Advice(
            f"batch {last} was committed by a version of kavka before stable(): nobody knows which rows its tasks had",
            "nothing more is needed, this batch is through"
            if checkpoint.finished == batch or not done
            else "let that version finish the batch, or start with a new checkpoint and startingOffsets",
        )
    if checkpoint.finished is not None and checkpoint.finished >= batch:
        return Advice(f"batch {batch} is through", "start the query; the number in stable(df, ...) is free")
    if layout.before is not None:
        return Advice(
            f"batch {layout.batch} began a change from stable(df, {layout.before}) to stable(df, {layout.tasks})",
            f"start the query with stable(df, {layout.tasks}). If a task had committed before, it is refused "
            f"(LayoutChangedError) and nothing is written: then start it with stable(df, {layout.before})",
        )
    if not done and layout.batch < batch:
        return Advice(
            f"batch {batch} is begun, and none of its rows are committed",
            "start the query; the number in stable(df, ...) is free",
        )
    return Advice(
        f"batch {batch} is begun: of {layout.tasks} tasks {_shown(done)} committed, and each that has rows will be",
        f"start the query with stable(df, {layout.tasks}) until this batch is through; tasks that have committed "
        "compare their rows and write nothing",
    )


def _shown(tasks: list[int]) -> str:
    if not tasks:
        return "none has"
    more = f" and {len(tasks) - MOST_SHOWN} more" if len(tasks) > MOST_SHOWN else ""
    return ", ".join(map(str, tasks[:MOST_SHOWN])) + more + (" has" if len(tasks) == 1 else " have")
