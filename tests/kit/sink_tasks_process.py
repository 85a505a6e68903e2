"""A process that runs the sink's tasks without Spark, to be killed: what a Python worker of an executor does.

    python sink_tasks_process.py '{"bootstrap": ..., "topic": ..., "query": ..., "rows": rows of a task, "tasks": N}'

Reads lines "BATCH PARTITION", says "began", and then "done", "skipped" or "failed WHY". The rows of a task are the
numbers from (BATCH * 1000 + PARTITION) * rows on, the same whoever runs it.
"""

import json
import sys

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from kavka.errors import KavkaError
from kavka_spark.sink_options import sink_options
from kavka_spark.sink_schema import sink_columns
from kavka_spark.stable import TASK_BITS, TASK_COLUMN
from kavka_spark.writer import BATCH_ID, QUERY_ID, TaskIdentity, write_rows


def main(job: dict) -> None:
    given = {"kafka.bootstrap.servers": job["bootstrap"], "topic": job["topic"], "exactlyOnce": "true"}
    options = sink_options(given, streaming=True)
    columns = sink_columns(
        StructType([StructField("value", BinaryType()), StructField(TASK_COLUMN, LongType())]), options
    )
    print("ready", flush=True)
    for line in sys.stdin:
        batch, partition = map(int, line.split())
        first = (batch * 1000 + partition) * job["rows"]
        values = [b"%d" % number for number in range(first, first + job["rows"])]
        told = {QUERY_ID: job["query"], BATCH_ID: str(batch)}
        task = pa.array([job["tasks"] << TASK_BITS | partition] * len(values), pa.int64())
        rows = [pa.record_batch({"value": pa.array(values, pa.binary()), TASK_COLUMN: task})]
        print("began", flush=True)
        try:
            written = write_rows(iter(rows), columns, options, TaskIdentity(partition, told.get))
            print("skipped" if written.skipped else "done", flush=True)
        except KavkaError as failure:
            print(f"failed {type(failure).__name__}: {failure}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
