"""TriggeredRuns: runs of Spark Declarative Pipelines, each of which processes what is new since the last one.

Decides what of a run is told, and whether it failed. SDP plans and runs the flows; its queries start with
Trigger.AvailableNow, their checkpoints lie below the storage.

I1  A run is reported as completed only when SDP has said so, and after the last figures.
I2  Tables are written down when the first flow starts (SDP makes all of them before), and after every run, failed ones
    too: their files are there.
I3  Only the first run of a session asks whether the brokers answer, before SDP starts the flows: to those it is no
    reason to give up that brokers are away for a while.

Source: pyspark/pipelines/spark_connect_pipeline.py of Spark 4.3.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka_spark.pipelines import catalog
from kavka_spark.pipelines.backfill import FlowBackfill
from kavka_spark.pipelines.datasets import datasets_of
from kavka_spark.pipelines.definitions import Definitions, Registry, load_definitions
from kavka_spark.pipelines.emptying import as_wholes, streaming_tables
from kavka_spark.pipelines.event_log import EventLog
from kavka_spark.pipelines.journal import Journal
from kavka_spark.pipelines.late_flows import LateFlows
from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.passed_over import refuse_passed_over
from kavka_spark.pipelines.precheck import endpoints_problem, sinks_in
from kavka_spark.pipelines.problems import Problem, plain, problem_of, told
from kavka_spark.pipelines.progress import defined_name
from kavka_spark.pipelines.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_S: Final = 5.0
"""How long after a run its last reports may arrive."""
LOOK_S: Final = 0.5
_FLOW: Final = re.compile(r"^Flow '?([\w.`]+)'? (?:is|has|was)(?: been)? ([A-Z_]+)", re.M)
_UNRESOLVED: Final = re.compile(r"^Failed to resolve flow: '?([\w.`]+)'?", re.M)
"""Matches the flow that caused the failure; flows that fail because of it have other messages."""


class TriggeredRuns:
    """Runs of one pipeline in one session."""

    def __init__(
        self, spec: PipelineSpec, order: Order, journal: Journal, sessions: tuple[SparkSession, SparkSession], log: Path
    ) -> None:
        self._spec = spec
        self._order = order
        self._journal = journal
        self._spark, self._classic = sessions
        self._log = EventLog(log, spec.home)
        self._writing = threading.Lock()
        self._number = 0
        self._has_saved = False

    def run(self) -> bool:
        """One run, or one check. Returns whether all went well."""
        self._number += 1
        is_check = self._order.mode == "check"
        self._journal.write("run began", run=self._number)
        self._log.begin_run()
        self._has_saved = False
        began = time.monotonic()
        problem = self._try_to_run(dry=is_check)
        if not is_check:
            self._tell_the_rest()
            catalog.save(self._classic, self._spec)
        if problem is not None:
            self._journal.write("problem", **problem.as_json())
        outcome = "completed" if problem is None else "failed"
        self._journal.write("run ended", run=self._number, outcome=outcome, seconds=round(time.monotonic() - began, 2))
        return problem is None

    def _try_to_run(self, *, dry: bool) -> Problem | None:
        from pyspark.errors import PySparkException
        from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
        from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

        graph = create_dataflow_graph(
            self._spark, self._spec.catalog, self._spec.database, self._spec.session_configuration()
        )
        backfill = None if self._order.backfill is None else FlowBackfill(*self._order.backfill)
        on_frame = None if backfill is None else backfill.take
        flows = LateFlows(SparkConnectGraphElementRegistry(self._spark, graph), self._spark, graph, self._spec.home)
        registry = Registry(flows, on_frame)
        failed: dict[str, str] = {}
        try:
            load_definitions(self._spec, registry, self._spark, lambda: _as_sdp_reads(self._spark, graph))
            if catalog.is_case_insensitive(self._spec):
                flows.check_spelling(registry)
            flows.define(registry, lambda text: self._journal.write("note", text=text, is_warning=True))
            registry.definitions.check_tables((*self._order.refresh, *self._order.full_refresh))
            if backfill is not None:
                backfill.check({each.flow: each.options for each in sinks_in(registry.definitions)})
            self._journal.write("defined", flows=registry.definitions.as_json(self._spec.root))
            reads = registry.definitions.reads
            self._journal.write("datasets", flows=datasets_of(registry.definitions, reads, self._spec))
            if (away := self._away(registry.definitions)) is not None:
                return away
            full_refresh = self._order.full_refresh if self._number == 1 else ()
            is_of_all = self._order.full_refresh_all and self._number == 1
            order = (full_refresh, is_of_all, self._order.refresh, dry, self._spec.storage)
            to_empty = streaming_tables(registry.definitions) if full_refresh or is_of_all else []
            self._refuse_passed_over(registry.definitions, full_refresh, is_of_all=is_of_all)
            with as_wholes(self._classic, self._spec, to_empty), self._reports():
                for result in start_run(self._spark, graph, *order):
                    if "pipeline_event_result" in result:
                        self._on_event(result["pipeline_event_result"].event.message, failed)
        except PySparkException as error:
            flow, text = next(iter(failed.items()), ("", ""))
            if flow:
                return told(text or str(error), self._spec, registry.definitions.place_of(flow), flow)
            current = registry.current.flow if registry.current is not None else ""
            return problem_of(error, self._spec, registry.definitions, current)
        except Exception as error:  # noqa: BLE001  # whatever a definition file raises is its problem, told with its line
            current = registry.current.flow if registry.current is not None else ""
            return problem_of(error, self._spec, registry.definitions, current)
        return endpoints_problem(self._spec, registry.definitions, with_topics=True) if dry else None

    def _refuse_passed_over(self, definitions: Definitions, full_refresh: Sequence[str], *, is_of_all: bool) -> None:
        """Of the tables that this run goes on with."""
        emptied, named = (
            {each.replace("`", "").lower().rpartition(".")[2] for each in names}
            for names in (full_refresh, self._order.refresh)
        )
        if not is_of_all:
            refuse_passed_over(definitions, self._spec, named - emptied if named or emptied else None)

    def _away(self, definitions: Definitions) -> Problem | None:
        """Who does not answer (I3)."""
        if self._number > 1 or self._order.mode == "check" or not self._order.is_of_all_tables:
            return None
        return endpoints_problem(self._spec, definitions, with_topics=False)

    def _on_event(self, message: str, failed: dict[str, str]) -> None:
        match = _UNRESOLVED.search(message) or _FLOW.search(message)
        if match is None:
            return
        flow = defined_name(match[1], self._spec.home)
        state = "failed" if match.re is _UNRESOLVED else match[2].lower()
        why = message[match.end() :].strip(" .:\n") if state == "failed" else ""
        if state == "failed":
            failed[flow] = why
        elif state == "completed":
            failed.pop(flow, None)  # SDP tries a flow again that failed.
        elif state == "starting" and not self._has_saved:
            self._has_saved = True
            catalog.save(self._classic, self._spec)
        self._journal.write("flow", flow=flow, state=state, why=plain(why)[:500])

    # -- figures

    def _reports(self) -> _Reporter:
        return _Reporter(self._tell)

    def _tell(self) -> None:
        with self._writing:
            for flow in sorted(self._log.take()):
                if flow in self._log.figures:
                    self._journal.write_figures(self._log.figures[flow])

    def _tell_the_rest(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        self._tell()
        while not self._log.is_settled and time.monotonic() < deadline:
            time.sleep(LOOK_S / 5)
            self._tell()


class _Reporter:
    """Calls `tell` repeatedly while the block runs."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="kavka-pipeline-reports", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(LOOK_S):
            self._tell()


@contextmanager
def _as_sdp_reads(spark: SparkSession, graph: str) -> Iterator[None]:
    """Lets a definition file read the graph but not change the session."""
    from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
    from pyspark.pipelines.block_session_mutations import block_session_mutations

    with add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph, flow_name=None), block_session_mutations():
        yield


def runs(triggered: TriggeredRuns, order: Order, is_over: threading.Event) -> Iterator[bool]:
    """One run, or runs with pauses until `is_over`; whether each went well."""
    yield triggered.run()
    while order.every_s is not None and not is_over.wait(order.every_s):
        yield triggered.run()
