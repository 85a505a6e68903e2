"""Pipeline: the flights go through Spark while a broker and Spark's own driver are killed, and the result is right.

It decides what is done to Spark and when; what the right answer is, `delays` knows. The pipeline is the shipped one,
`kavka pipeline init --example flights`: windows with a watermark, a join with the airlines, Parquet, a result topic.

I1  The last record of the topic, which is no carrier's and lies far ahead in time, is written only when all flights
    were read: it ends the last hours, and a flight that is read after it would come too late.
I2  What was started is ended, whatever happens.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from demo.delays import Delay, airlines_file, delay_of_row
from demo.flights import Flight
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka_spark.pipelines.order import Order
    from kavka_spark.pipelines.runner import Runner

LATENESS = "90 days"
"""In the flights' own time, of which a second of the load has some weeks: a partition whose leader was killed comes
that much after the others."""
AHEAD_MS = 100 * 24 * 3_600_000
PATIENCE_S = 300.0
RESULT_PARTITIONS = 1


class PipelineFailed(Exception):
    """The pipeline did not do what it should; the message says what."""


def why_not() -> str:
    """Why there can be no pipeline here: a sentence; empty where there can."""
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        return f"PySpark is not installed: {install_command('spark')}"
    java = shutil.which("java")
    if java is None:
        return "there is no Java: apt-get install openjdk-17-jre-headless"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    if said.returncode != 0:
        return f"{java} does not run: {said.stderr.strip()}"
    return ""


class Pipeline:
    """The flights' pipeline as one long session, started again after it was killed."""

    def __init__(self, directory: Path, bootstrap: str, topic: str, results: str) -> None:
        from kavka_spark.pipelines.shipped import lay

        self.folder = directory / "pipeline"
        self.results = results
        self._bootstrap = bootstrap
        self._topic = topic
        self._stack = ExitStack()
        self._runner: Runner | None = None
        self._told: dict[str, dict[str, Any]] = {}
        self._problem = ""
        lay("flights", self.folder)
        shutil.copy(airlines_file(), self.folder / "airlines.csv")

    def start(self) -> None:
        """Starts Spark's driver; `wait_until_running` waits for it."""
        from kavka_spark.pipelines.runner import Runner

        order = self._order()
        self._problem, self._told = "", {}
        self._runner = self._stack.enter_context(Runner(order.spec(), order))
        threading.Thread(target=self._listen, args=(self._runner,), daemon=True).start()

    def kill(self) -> int:
        """kill -9 of the driver, its JVM and its workers. Returns the driver's pid."""
        assert self._runner is not None
        # Its listener is told first that this is no problem.
        runner, self._runner = self._runner, None
        pid = runner.pid
        runner.kill()
        self._stack.close()
        self._stack = ExitStack()
        return pid

    def stop(self) -> None:
        """In order; nothing where nothing runs."""
        self._stack.close()
        self._runner = None

    def rows_read(self) -> int:
        """How many records of the topic the pipeline has gone through, in all its lives."""
        return int(self._told.get("delays", {}).get("position") or 0)

    def wait_until_running(self) -> None:
        self._wait(lambda: "delays" in self._told, "Spark did not start")

    def wait_for_rows(self, rows: int) -> None:
        """Raises PipelineFailed where it does not get there."""
        self._wait(lambda: self.rows_read() >= rows, f"{rows:,} flights were not read")

    def wait_for_results(self, rows: int) -> list[Delay]:
        """The result topic, once it has so many records, and nothing more came for a moment. Raises PipelineFailed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"{self.results}-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        consumer.assign([TopicPartition(self.results, number, OFFSET_BEGINNING) for number in range(RESULT_PARTITIONS)])
        found: list[Delay] = []
        deadline, last_at = time.monotonic() + PATIENCE_S, time.monotonic()
        try:
            while len(found) < rows or time.monotonic() - last_at < 1.0:
                for record in consumer.consume(10_000, 0.2):
                    value = record.value()
                    if record.error() is None and value is not None:
                        found.append(delay_of_row(json.loads(value)))
                        last_at = time.monotonic()
                self._look(deadline, f"{len(found):,} of {rows:,} rows came into {self.results}")
        finally:
            consumer.close()
        return found

    def table(self) -> list[Delay]:
        """The table of delays, as its Parquet files hold it. A file sink's log says which files count."""
        import pyarrow.parquet as parquet

        folder = self.folder / "storage" / "warehouse" / "delays"
        files: set[str] = set()
        for entry in sorted(path for path in (folder / "_spark_metadata").iterdir() if not path.name.startswith(".")):
            lines = entry.read_text(encoding="utf-8").splitlines()[1:]
            files |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
        return [delay_of_row(row) for file in sorted(files) for row in parquet.ParquetFile(file).read().to_pylist()]

    def finish(self, flights: Sequence[Flight]) -> None:
        """Writes the record that ends the last hours (I1).

        Its carrier is no airline, but there is one: Spark joins by it, and takes records without one out before it
        looks at their time."""
        ahead_ms = max(flight.timestamp_ms for flight in flights) + AHEAD_MS
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 2})
        producer.produce(self._topic, b'{"carrier":"nobody"}', b"end", timestamp=ahead_ms)
        if producer.flush(60):
            raise PipelineFailed("the last record was not acknowledged")

    def _order(self) -> Order:
        from kavka_spark.pipelines.order import Order

        settings = (
            f"flights.topic={self._topic}",
            f"flights.results={self.results}",
            f"flights.lateness={LATENESS}",
            "spark.sql.shuffle.partitions=2",
        )
        return Order(str(self.folder / "pipeline.yml"), "", "continuous", self._bootstrap, settings)

    def _listen(self, runner: Runner) -> None:
        for event in runner.events():
            if self._runner is not runner:
                return
            if event is None:
                continue
            if event["event"] == "problem":
                self._problem = event["problem"]
            elif event["event"] in ("flow", "progress") and event.get("state") != "starting":
                self._told[event["flow"]] = {**self._told.get(event["flow"], {}), **event}

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            self._look(deadline, otherwise)
            time.sleep(0.05)

    def _look(self, deadline: float, otherwise: str) -> None:
        if self._problem:
            raise PipelineFailed(self._problem)
        if time.monotonic() > deadline:
            log = self._runner.log_tail() if self._runner is not None else ""
            raise PipelineFailed(f"{otherwise} in {PATIENCE_S:.0f} s; Spark's last words:\n{log}")


def in_order_of_time(flights: Sequence[Flight]) -> list[Flight]:
    """As they would come in life: the file has its months in another order."""
    return sorted(flights, key=lambda flight: flight.timestamp_ms)
