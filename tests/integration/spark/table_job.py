"""A Spark job that moves a topic's records into a table, and ends when all are moved.

    python table_job.py '{"bootstrap": ..., "source": ..., "format": ..., "table": {option: value}, "checkpoint": ...,
                          "rows_per_batch": ..., "hold": directory, "conf": {...}}'

While a file `before-commit` or `after-commit` is in the directory `hold`, the driver waits there in its commit, and
says so with a file `held`: there it can be killed.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from kavka_spark import session
from kavka_spark.lakehouse.delta_format import DeltaFormat
from kavka_spark.lakehouse.lake_sink import LakeStreamWriter


def wait(hold: Path, moment: str) -> None:
    while (hold / moment).exists():
        (hold / "held").touch()
        time.sleep(0.05)


class HeldWriter(LakeStreamWriter):
    def hold_in(self, directory: Path) -> "HeldWriter":
        self._hold = directory
        return self

    def commit(self, messages, batchId):  # noqa: N803  # Spark's
        wait(self._hold, "before-commit")
        super().commit(messages, batchId)
        wait(self._hold, "after-commit")


def held(kind, hold: str):
    """The format, held in its commits."""

    class Held(kind):
        @classmethod
        def name(cls):
            return f"held-{kind.name()}"

        def streamWriter(self, schema, overwrite):  # noqa: N802
            made = super().streamWriter(schema, overwrite)
            made.__class__ = HeldWriter
            return made.hold_in(Path(hold))

    return Held


def run(spark: SparkSession, job: dict) -> None:
    kind = {"kavka-delta": DeltaFormat}[job["format"]]
    spark.dataSource.register(held(kind, job["hold"]))
    (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("subscribe", job["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(job["rows_per_batch"]))
        .load()
        .selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id", "partition", "offset")
        .writeStream.format(f"held-{kind.name()}")
        .options(**job["table"])
        .option("checkpointLocation", job["checkpoint"])
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    found = json.loads(sys.argv[1])
    run(session("tables", **found.get("conf", {})), found)
