"""LongSession: a pipeline's definitions as Structured Streaming queries in one session that goes on.

Decides how a definition is run where SDP does not plan it: in which order definitions can be resolved, what a streaming
table, a sink and a materialized view become.

    streaming table     a query for each of its flows into the table, checkpoint where SDP would have it
    sink                a query for each of its flows into its format
    temporary view      a view of the session
    materialized view   computed again every `kavka.refresh`, when something that streams has moved, and at the end

I1  A flow's checkpoint is the one that a triggered run uses, so the two ways may take turns: no row is lost or doubled
    by the change.
I2  A flow is resolved once all that it names is there; when nothing more can be resolved, what is missing is a problem.
I3  A query that fails is started again from its checkpoint, as SDP does it; one that fails `RETRIES` times more without
    a micro-batch in between ends the session, with its flow named.

Source: SDP's FlowSystemMetadata (paths of checkpoints, tried with 4.3); Structured Streaming's guide.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

from kavka_spark.pipelines import catalog
from kavka_spark.pipelines.datasets import datasets_of
from kavka_spark.pipelines.definitions import (
    DEFAULT_FORMAT,
    DefinitionProblem,
    Definitions,
    Place,
    Registry,
    load_definitions,
)
from kavka_spark.pipelines.journal import Journal
from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.passed_over import refuse_passed_over
from kavka_spark.pipelines.precheck import OURS, reach, readers_in, sinks_in
from kavka_spark.pipelines.problems import plain, problem_of, told
from kavka_spark.pipelines.progress import Figures, short_name
from kavka_spark.pipelines.spec import PipelineSpec, local_path
from kavka_spark.pipelines.sql_definitions import Kind
from kavka_spark.pipelines.unplanned import CHECKPOINTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.25
RETRIES: Final = 2
"""As often as SDP tries a flow again (spark.sql.pipelines.maxFlowRetryAttempts)."""
_MISSING: Final = ("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_TABLE")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A flow that must be resolved and run."""

    flow: str
    target: str
    kind: Kind
    query: Callable[[], DataFrame]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a table is stored: format, partitions, properties."""

    format: str
    partitioned_by: tuple[str, ...]
    properties: Mapping[str, str]

    def clauses(self) -> str:
        """The clauses that follow the columns in CREATE TABLE."""
        partitioned = f" PARTITIONED BY ({', '.join(f'`{each}`' for each in self.partitioned_by)})"
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        return (
            f"USING {self.format}{partitioned if self.partitioned_by else ''}"
            f"{f' TBLPROPERTIES ({pairs})' if pairs else ''}"
        )


class _Unresolved(Exception):
    """A flow that cannot be resolved, or not be resolved yet."""

    def __init__(self, wanted: _Wanted, error: Exception) -> None:
        super().__init__(str(error))
        self.wanted = wanted
        self.error = error


class LongSession:
    """A pipeline that goes on until it is asked to end."""

    def __init__(self, spec: PipelineSpec, order: Order, journal: Journal, spark: SparkSession) -> None:
        self._spec = spec
        self._order = order
        self._journal = journal
        self._spark = spark
        self._definitions = Definitions()
        self._queries: dict[str, StreamingQuery] = {}
        self._streams: dict[str, _Wanted] = {}
        self._failures: dict[str, tuple[int, int]] = {}
        """How often each flow failed, and after how many micro-batches."""
        self._views: dict[str, _Wanted] = {}
        """Materialized views, each after those that it reads."""
        self._figures: dict[str, Figures] = {}
        self._refreshed_at: tuple[float, int] = (0.0, -1)

    def run(self, is_over: threading.Event) -> bool:
        """Runs until `is_over`. Returns whether all went well."""
        began = time.monotonic()
        self._journal.write("run began", run=1)
        registry = Registry()
        try:
            load_definitions(self._spec, registry, self._spark)
            self._definitions = registry.definitions
            self._journal.write("defined", flows=self._definitions.as_json(self._spec.root))
            refuse_passed_over(self._definitions, self._spec)
            self._start_all(self._wanted())
            self._views = self._in_order()
            went_well = self._go_on(is_over, began)
        except _Unresolved as unresolved:
            self._tell_problem(unresolved.error, registry, unresolved.wanted.flow)
            went_well = False
        except Exception as error:  # noqa: BLE001  # whatever a definition or Spark raises is told with its place
            self._tell_problem(error, registry, registry.current.flow if registry.current is not None else "")
            went_well = False
        self._end(went_well=went_well)
        outcome = "completed" if went_well else "failed"
        self._journal.write("run ended", run=1, outcome=outcome, seconds=round(time.monotonic() - began, 2))
        return went_well

    def _tell_problem(self, error: Exception, registry: Registry, flow: str) -> None:
        self._journal.write("problem", **problem_of(error, self._spec, registry.definitions, flow).as_json())

    # -- resolving

    def _wanted(self) -> list[_Wanted]:
        definitions = self._definitions
        wanted = [
            _Wanted(short_name(flow.name), target, definitions.kind_of(target), flow.func)
            for flow in definitions.flows
            for target in (short_name(flow.target),)
        ]
        for each in definitions.sql:
            definition = each.definition
            target = short_name(definition.target.replace("`", ""))
            if definition.query:
                kind = definitions.kind_of(target) if definition.kind == "flow" else definition.kind
                name = short_name(definition.name.replace("`", ""))
                wanted.append(_Wanted(name, target, kind, _sql_query(self._spark, definition.query)))
        return wanted

    def _start_all(self, wanted: list[_Wanted]) -> None:
        """Resolves flows until none is left (I2)."""
        left = wanted
        while left:
            waiting: list[_Unresolved] = []
            for each in left:
                try:
                    self._start(each, each.query())
                except Exception as error:
                    unresolved = _Unresolved(each, error)
                    if not any(sign in str(error) for sign in _MISSING):
                        raise unresolved from error
                    waiting.append(unresolved)
            if len(waiting) == len(left):
                raise waiting[0] from waiting[0].error
            left = [each.wanted for each in waiting]

    def _in_order(self) -> dict[str, _Wanted]:
        """The materialized views, each after those that it reads: where their tables were there already, they were
        resolved as they are defined. Raises `DefinitionProblem` where they read each other."""
        flows = {self._full_name(wanted.target): flow for flow, wanted in self._views.items()}
        reads = self._definitions.reads
        names = {flow: {step.table.replace("`", "").lower() for step in reads.get(flow, ())} for flow in self._views}
        before = {flow: {flows[name] for name in names[flow] & flows.keys()} for flow in self._views}
        try:
            return {flow: self._views[flow] for flow in TopologicalSorter(before).static_order()}
        except CycleError as error:
            around = error.args[1]
            place = self._definitions.place_of(around[0]) or Place("")
            raise DefinitionProblem(f"materialized views read each other: {' < '.join(around)}", place) from error

    def _full_name(self, target: str) -> str:
        return ".".join([*self._spec.home, *target.replace("`", "").split(".")][-3:]).lower()

    def _start(self, wanted: _Wanted, frame: DataFrame) -> None:
        frame.schema  # noqa: B018 - resolves it now, so that what is missing is seen here
        self._definitions.note_reads(wanted.flow, frame)
        if wanted.flow not in self._streams:
            self._reach_brokers(wanted.flow)
        self._journal.write("datasets", flows=datasets_of(self._definitions, self._definitions.reads, self._spec))
        self._journal.write("flow", flow=wanted.flow, state="starting", why="")
        match wanted.kind:
            case "temporary view":
                frame.createOrReplaceTempView(wanted.target)
            case "materialized view":
                self._create_table(wanted.target, frame, self._layout_of(wanted.target))
                self._views[wanted.flow] = wanted
                self._figures.setdefault(wanted.flow, Figures(wanted.flow))
            case "sink":
                output: Any = self._definitions.outputs[wanted.target]
                writer = self._writer(wanted, frame).format(output.format).options(**output.options)
                self._queries[wanted.flow] = writer.start()
            case _:
                layout = self._layout_of(wanted.target)
                self._create_table(wanted.target, frame, layout)
                # A stream into a table of Spark's own catalog makes folders of partitions only if the writer says so
                # once more. SDP's does not, and files of both kinds in one table cannot be read: neither does this.
                writer = self._writer(wanted, frame).format(layout.format)
                self._queries[wanted.flow] = writer.toTable(wanted.target)
        if wanted.flow in self._queries:
            self._streams[wanted.flow] = wanted
            self._figures.setdefault(wanted.flow, Figures(wanted.flow))
            self._journal.write("flow", flow=wanted.flow, state="running", why="")

    def _reach_brokers(self, flow: str) -> None:
        """Raises `KavkaError` where the brokers of a flow do not answer, before its query waits for them and is tried
        again. One that fails later is not asked about: brokers may be away for a while."""
        for endpoint in (*readers_in(self._definitions), *sinks_in(self._definitions)):
            if endpoint.flow == flow and endpoint.format == OURS:
                reach(endpoint)

    def _writer(self, wanted: _Wanted, frame: DataFrame) -> Any:
        writer = frame.writeStream.queryName(wanted.flow).outputMode("append")
        writer = writer.option("checkpointLocation", self._checkpoint(wanted))
        return writer.trigger(processingTime=f"{round(self._spec.own.trigger_s * 1000)} milliseconds")

    def _checkpoint(self, wanted: _Wanted) -> str:
        """The checkpoint where SDP has it: the highest number is the one since the last full refresh (I1)."""
        target = wanted.target.split(".")
        parts = target if wanted.kind == "sink" else [*self._spec.home, *target][-3:]
        path = "/".join([self._spec.storage.rstrip("/"), CHECKPOINTS, *parts, wanted.flow.split(".")[-1]])
        folder = local_path(path)
        there = [] if folder is None or not folder.is_dir() else list(folder.iterdir())
        numbers = [int(each.name) for each in there if each.name.isdecimal()]
        return f"{path}/{max(numbers, default=0)}"

    def _create_table(self, name: str, frame: DataFrame, layout: _Layout) -> None:
        if self._spark.catalog.tableExists(name):
            return
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in frame.schema.fields)
        self._spark.sql(f"CREATE TABLE {_quoted(name)} ({columns}) {layout.clauses()}")
        catalog.save(self._spark, self._spec)

    def _layout_of(self, name: str) -> _Layout:
        output: Any = self._definitions.outputs.get(name)
        if output is not None:
            partitioned = tuple(getattr(output, "partition_cols", None) or ())
            properties = dict(getattr(output, "table_properties", None) or {})
            return _Layout(getattr(output, "format", None) or DEFAULT_FORMAT, partitioned, properties)
        for each in self._definitions.sql:
            if short_name(each.definition.name.replace("`", "")) == name:
                return _Layout(each.definition.format or DEFAULT_FORMAT, each.definition.partitioned_by, {})
        return _Layout(DEFAULT_FORMAT, (), {})

    # -- while it goes on

    def _go_on(self, is_over: threading.Event, began: float) -> bool:
        while not is_over.wait(LOOK_S):
            self._tell()
            failed = next((flow for flow, query in self._queries.items() if not query.isActive), None)
            if failed is not None and not self._try_again(failed):
                return self._tell_failure(failed)
            self._maybe_refresh()
            if self._order.for_s is not None and time.monotonic() - began > self._order.for_s:
                return True
        return True

    def _tell(self) -> None:
        for flow, query in self._queries.items():
            figures = self._figures[flow]
            news = [figures.add_batch(_as_json(progress)) for progress in query.recentProgress]
            if any(news):
                self._journal.write_figures(figures)

    def _try_again(self, flow: str) -> bool:
        """Starts a query that ended; returns whether it may be tried again (I3)."""
        batches = self._figures[flow].batches
        failures, at_batches = self._failures.get(flow, (0, batches))
        failures = failures + 1 if at_batches == batches else 1
        self._failures[flow] = failures, batches
        error = self._queries[flow].exception()
        if failures > RETRIES or error is None:
            return False
        self._journal.write("flow", flow=flow, state="failed", why=plain(str(error))[:500])
        wanted = self._streams[flow]
        self._start(wanted, wanted.query())
        return True

    def _tell_failure(self, flow: str) -> bool:
        error = self._queries[flow].exception()
        text = str(error) if error is not None else "it stopped by itself"
        problem = told(text, self._spec, self._definitions.place_of(flow), flow)
        self._journal.write("flow", flow=flow, state="failed", why=problem.problem[:500])
        self._journal.write("problem", **problem.as_json())
        return False

    def _maybe_refresh(self) -> None:
        at, batches = self._refreshed_at
        moved = sum(self._figures[flow].batches for flow in self._queries)
        if time.monotonic() - at >= self._spec.own.refresh_s and moved != batches:
            self._refresh()
            self._refreshed_at = (time.monotonic(), moved)

    def _refresh(self) -> None:
        for flow, wanted in self._views.items():
            began = time.monotonic()
            figures = self._figures[flow]
            # Files of streaming tables are found when a table is resolved: it has to be resolved anew.
            columns = self._spark.table(wanted.target).columns
            wanted.query().select(*columns).write.insertInto(wanted.target, overwrite=True)
            figures.batches += 1
            figures.seconds += time.monotonic() - began
            self._journal.write_figures(figures)

    def _end(self, *, went_well: bool) -> None:
        for query in self._queries.values():
            query.stop()
        self._tell()
        if went_well and self._views:
            self._refresh()
        catalog.save(self._spark, self._spec)


def _sql_query(spark: SparkSession, query: str) -> Callable[[], DataFrame]:
    return lambda: spark.sql(query)


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in re.split(r"\.", name))


def _as_json(progress: Any) -> dict[str, Any]:
    import json

    fields = json.loads(progress.json) if hasattr(progress, "json") else progress
    assert isinstance(fields, dict)
    return fields
