"""A Spark job that copies lines of files to a topic, exactly once, and stands still at some of them while a service is
away.

    python files_job.py '{"bootstrap": ..., "target": topic, "source": directory, "checkpoint": ..., "cores": ...,
                          "away": a file that is there while the service is away, "tasks": those of stable(), or null}'
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql.functions import udf

from kavka_spark import session, stable

SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def run(job: dict) -> None:
    spark = session("files", **{**SMALL, "spark.master": f"local[{job['cores']}]"})

    @udf("string")
    def ask_the_service(line: str) -> str:
        while line.startswith("P") and Path(job["away"]).exists():
            time.sleep(0.05)
        return line

    rows = spark.readStream.text(job["source"]).select("value")
    if job["tasks"] is not None:
        rows = stable(rows, job["tasks"])
    # It moves no row, so it may stand behind stable(): the tasks that write are held up, not those before them.
    rows = rows.withColumn("value", ask_the_service("value"))
    writer = rows.writeStream.format("kavka").option("kafka.bootstrap.servers", job["bootstrap"])
    writer.option("topic", job["target"]).option("exactlyOnce", "true").option(
        "checkpointLocation", job["checkpoint"]
    ).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
