"""Prints in how many tasks a topic is read: `table N` and `stream N`.

python tasks_job.py BOOTSTRAP TOPIC MASTER
"""

import sys

from kavka_spark import session


def run(bootstrap: str, topic: str, master: str) -> None:
    spark = session("tasks", **{"spark.master": master, "spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    print("table", spark.read.format("kavka").options(**options).load().rdd.getNumPartitions(), flush=True)

    def show(frame, batch) -> None:
        print("stream", frame.rdd.getNumPartitions(), flush=True)

    rows = spark.readStream.format("kavka").options(**options).load()
    rows.writeStream.foreachBatch(show).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(*sys.argv[1:])
