"""A Spark job to be killed: moves a topic's records to another topic, to Parquet files or to a table, and ends when
all are moved.

    python relay_job.py '{"bootstrap": ..., "source": ..., "target": topic or directory,
                          "format": "kavka" | "parquet" | "kavka-delta" | "kavka-iceberg", "checkpoint": ...,
                          "rows_per_batch": ..., "conf": {...}, "sink": {...}}'
"""

import json
import sys

from pyspark.sql import SparkSession

from kavka_spark import session, stable

TASKS = 3
"""Not the number of partitions, nor of cores."""


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
    if job["format"] == "kavka":
        writer = writer.option("kafka.bootstrap.servers", job["bootstrap"]).option("topic", job["target"])
    elif "target" in job:
        writer = writer.option("path", job["target"])
    writer.format(job["format"]).options(**job.get("sink", {})).start().awaitTermination()


if __name__ == "__main__":
    found = json.loads(sys.argv[1])
    run(session("relay", **found.get("conf", {})), found)
