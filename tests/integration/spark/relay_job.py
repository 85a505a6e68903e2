"""A Spark job to be killed: moves a topic's records to another topic, to Parquet files or to a Delta table, and ends
when all are moved.

    python relay_job.py '{"bootstrap": ..., "source": ..., "target": topic or directory,
                          "format": "kavka" | "parquet" | "delta", "checkpoint": ..., "rows_per_batch": ...,
                          "conf": {...}, "sink": {...}}'
"""

import json
import sys
from collections.abc import Callable

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import session, stable

TASKS = 3
"""Not the number of partitions, nor of cores."""


def into_delta(path: str, name: str) -> Callable[[DataFrame, int], None]:
    """Appends micro-batches to a Delta table, each with its number in the same commit: one that comes again is left
    out."""

    def append(frame: DataFrame, batch: int) -> None:
        last = DeltaTable(path).transaction_version(name) if DeltaTable.is_deltatable(path) else None
        if last is not None and last >= batch:
            return
        number = CommitProperties(app_transactions=[Transaction(name, batch)])
        write_deltalake(path, frame.toArrow(), mode="append", commit_properties=number)

    return append


def run(spark: SparkSession, job: dict) -> None:
    frame = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("subscribe", job["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(job["rows_per_batch"]))
        .load()
        .select("key", "value")
    )
    if "exactlyOnce" in job.get("sink", {}):
        frame = stable(frame, TASKS)
    writer = frame.writeStream.option("checkpointLocation", job["checkpoint"]).trigger(availableNow=True)
    if job["format"] == "delta":
        writer.foreachBatch(into_delta(job["target"], job["checkpoint"])).start().awaitTermination()
        return
    if job["format"] == "kavka":
        writer = writer.option("kafka.bootstrap.servers", job["bootstrap"]).option("topic", job["target"])
    else:
        writer = writer.option("path", job["target"])
    writer.format(job["format"]).options(**job.get("sink", {})).start().awaitTermination()


if __name__ == "__main__":
    found = json.loads(sys.argv[1])
    run(session("relay", **found.get("conf", {})), found)
