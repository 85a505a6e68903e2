"""The driver's process: `python -m kavka_spark.pipelines.driver ORDER`.

Decides when it ends: when its order is done, when it is asked to (SIGTERM, SIGINT), or when whoever started it is gone,
which it sees by the end of its standard input. Reports everything in the journal; its standard output is Spark's log.

Nobody waits for Spark's start to hear that there are no brokers: they are looked for first. A watch looks again and
again, as it would run.

Exit status: 0 done, 1 a run failed or could not begin.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka_spark.pipelines import catalog, event_log, unplanned
from kavka_spark.pipelines.journal import Journal
from kavka_spark.pipelines.order import Order, decode_order
from kavka_spark.pipelines.precheck import brokers_problem
from kavka_spark.pipelines.problems import problem_of
from kavka_spark.pipelines.spark_settings import classic_session, connect_session, prepare_environment, settings_of
from kavka_spark.pipelines.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED: Final = 1


def main() -> int:
    order = decode_order(sys.argv[1])
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    threading.Thread(target=_watch_parent, args=(is_over,), daemon=True).start()
    journal = Journal(Path(order.journal))
    spec = order.spec()
    journal.write("began", mode=order.mode, pid=os.getpid(), pipeline=spec.name, spec=str(spec.path))
    log = Path(tempfile.mkdtemp(prefix="kavka-pipeline-"))
    try:
        status = _run(order, spec, journal, log, is_over)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the journal is how its problem is heard of
        journal.write("problem", **problem_of(error, spec).as_json())
        status = FAILED
    finally:
        shutil.rmtree(log, ignore_errors=True)
    journal.write("ended", status=status)
    journal.close()
    return status


def _run(order: Order, spec: PipelineSpec, journal: Journal, log: Path, is_over: threading.Event) -> int:
    if order.is_of_all_tables and not brokers_are_there(order, spec, journal, is_over):
        return FAILED
    began = time.monotonic()
    prepare_environment(spec)
    settings = settings_of(spec)
    if order.mode == "continuous":
        from kavka_spark.pipelines.long_session import LongSession

        spark = classic_session(settings)
        _configure(spark, spec)
        _restore(spark, spec, journal)
        if spec.catalog is not None:
            spark.catalog.setCurrentCatalog(spec.catalog)
        if spec.database is not None:
            spark.catalog.setCurrentDatabase(spec.database)
        _tell_session(journal, spark.version, began)
        return 0 if LongSession(spec, order, journal, spark).run(is_over) else FAILED
    from kavka_spark.pipelines.triggered import TriggeredRuns, runs

    sessions = connect_session({**settings, **event_log.settings(log)})
    _configure(sessions[0], spec)
    _restore(sessions[1], spec, journal)
    _tell_session(journal, sessions[1].version, began)
    outcomes = runs(TriggeredRuns(spec, order, journal, sessions, log), order, is_over)
    last_went_well = False
    for went_well in outcomes:
        last_went_well = went_well
        if is_over.is_set():
            break
    return 0 if last_went_well else FAILED


def brokers_are_there(order: Order, spec: PipelineSpec, journal: Journal, is_over: threading.Event) -> bool:
    """Tells a failed run where nobody listens. Returns whether Spark is worth its start."""
    while True:
        began = time.monotonic()
        journal.write("note", text="brokers are looked for")
        problem = brokers_problem(spec)
        if problem is None:
            journal.write("note", text="Spark starts")
            return True
        journal.write("run began", run=1)
        journal.write("problem", **problem.as_json())
        journal.write("run ended", run=1, outcome="failed", seconds=round(time.monotonic() - began, 2))
        if order.every_s is None or is_over.wait(order.every_s):
            return False


def _configure(spark: SparkSession, spec: PipelineSpec) -> None:
    for name, value in spec.session_configuration().items():
        spark.conf.set(name, value)


def _restore(spark: SparkSession, spec: PipelineSpec, journal: Journal) -> None:
    """What earlier drivers left is made good; `spark` is a classic session."""
    catalog.restore(spark, spec)
    for path in unplanned.remove(spark, spec):
        text = f"{path} was removed: a driver was killed before it had planned its first batch"
        journal.write("note", text=text, is_warning=True)


def _tell_session(journal: Journal, version: str, began: float) -> None:
    journal.write("session", spark=version, seconds=round(time.monotonic() - began, 2))


def _watch_parent(is_over: threading.Event) -> None:
    """Waits until standard input ends: it does when the process that started this one ends, even by a kill."""
    while os.read(0, 1024):
        pass
    is_over.set()
    time.sleep(PATIENCE_S)
    os._exit(FAILED)


PATIENCE_S: Final = 20.0
"""How long this process may take to end in order after its parent has ended."""


if __name__ == "__main__":
    status = main()
    # The JVM and its threads are daemons of this process; leaving without them takes their time to no use.
    sys.stdout.flush()
    os._exit(status)
