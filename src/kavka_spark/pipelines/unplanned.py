"""What a driver left that was killed while it wrote a query's first plan.

Spark writes a batch's plan, `offsets/N` of the checkpoint, under another name (`.N.UUID.tmp`) and renames it. A kill
between the two leaves the other name. With `offsets/0` that is all the folder holds, and Spark 4.1 and later refuse to
start a query whose checkpoint has no plan and yet something in `offsets`
(STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY): somebody would have to remove the file by hand. Nothing was read or written
for such a plan, so the query can begin as if it never had.

    I1  only in a checkpoint without any plan, and only what has the name of an unfinished one: Spark's question is a
        good one about everything else, such as a state whose plans somebody removed

Source: Spark 4.2, MicroBatchExecution.verifyNewCheckpointDirectory, CheckpointFileManager.generateTempPath.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kavka_spark.pipelines.spec import PipelineSpec
from kavka_spark.recovery import is_unfinished_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINTS: Final = "_checkpoints"
DEEPEST: Final = 5
"""How far below them a checkpoint may be: CATALOG/DATABASE/TABLE/FLOW/NUMBER. A sink's is at SINK/FLOW/NUMBER, with a
folder for each part of its name."""


def remove(spark: SparkSession, spec: PipelineSpec) -> list[str]:
    """Removes the unfinished first plans of the pipeline's flows; returns their paths. `spark` is a classic session,
    whose file systems are asked: a storage need not be a folder of this machine."""
    jvm: Any = spark._jvm
    java: Any = spark
    root = jvm.org.apache.hadoop.fs.Path(f"{spec.storage.rstrip('/')}/{CHECKPOINTS}")
    files = root.getFileSystem(java._jsc.hadoopConfiguration())
    removed: list[str] = []
    for folder in _plans(jvm, files, root, DEEPEST) if files.exists(root) else ():
        there = [each.getPath() for each in files.listStatus(folder)]
        if not any(path.getName().isdecimal() for path in there):
            unfinished = (path for path in there if is_unfinished_plan(path.getName()))
            removed += [path.toString() for path in unfinished if files.delete(path, False)]
    return removed


def _plans(jvm: Any, files: Any, folder: Any, depth: int) -> Iterator[Any]:
    """The folders `offsets`. Walked, not matched by a pattern, in which a path may have letters of a meaning."""
    for each in files.listStatus(folder):
        path = each.getPath()
        plans = jvm.org.apache.hadoop.fs.Path(path, "offsets")
        if path.getName().isdecimal() and files.exists(plans):
            yield plans
        elif depth > 1 and each.isDirectory():
            yield from _plans(jvm, files, path, depth - 1)
