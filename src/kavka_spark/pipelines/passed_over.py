"""A flow whose micro-batches Spark would pass over, which is refused before anything runs.

A table of files keeps a log of its micro-batches, `_spark_metadata`, and Spark passes over a batch whose number is in
it: that is how a batch that is tried again is there once. The numbers are those of the flow's checkpoint. Where the
checkpoint is behind the log, new batches are taken for old ones, and their rows are lost without an error: after a full
refresh that ended between the new checkpoint and the emptying of the table, or when a flow has another name.

    I1  a checkpoint is never behind by itself: a batch is planned (`offsets/N`) before its files are logged
    I2  asked about tables in Spark's own catalog, in a storage on this machine's disk only

Source: Spark 4.3, FileStreamSink.addBatch, PipelineExecution.startPipeline (State.reset, then the tables).
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Final

from kavka_spark.pipelines.catalog import CATALOG, is_ours
from kavka_spark.pipelines.datasets import table_dataset
from kavka_spark.pipelines.definitions import Definitions
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, local_path
from kavka_spark.pipelines.unplanned import CHECKPOINTS

LOG: Final = "_spark_metadata"


def refuse_passed_over(definitions: Definitions, spec: PipelineSpec, tables: Container[str] | None = None) -> None:
    """Raises SpecError. `tables` go on in this run, by their names in lower case without a database; None means all."""
    storage = local_path(spec.storage)
    if storage is None or not is_ours(spec) or spec.catalog not in (None, CATALOG):
        return
    for flow in definitions.places.values():
        last = flow.target.rpartition(".")[2]
        if definitions.kind_of(flow.target) != "streaming table" or (tables is not None and last.lower() not in tables):
            continue
        written = _last(Path(table_dataset(flow.target, spec).name) / LOG)
        home = [*spec.home, *flow.target.split(".")][-3:]
        versions = storage.joinpath(CHECKPOINTS, *home, flow.flow.rpartition(".")[2])
        planned = _last(versions / str(max(_last(versions), 0)) / "offsets")
        if written > planned:
            has = f"goes to {planned}" if planned >= 0 else "has none"
            raise SpecError(
                f"rows of {flow.target} would be lost: micro-batches go to number {written} in its files, and "
                f"the checkpoint of flow {flow.flow} {has}: Spark would take the next ones for written",
                f"`kavka pipeline run --full-refresh {last}` reads everything again. A flow that has another name now "
                "goes on under its former one",
            )


def _last(folder: Path) -> int:
    """The highest number that a file or folder in it is named by (`7`, `9.compact`); -1 without any."""
    names = (path.name.removesuffix(".compact") for path in folder.iterdir()) if folder.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=-1)
