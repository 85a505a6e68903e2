"""Flows that SDP hears of when all files are read, with their tables out of sight.

SDP runs a flow after the flows that write what it reads, and knows them by the names of tables in its plan. But Spark
Connect resolves the input of some steps (`withColumn`, `drop`, `withWatermark`) as soon as it hears of them. From the
second run on the table is there, and its name is no longer in the plan: SDP runs such a flow at once, as one that reads
nothing of the pipeline, and it finds what the run before left. `withColumn` puts up with a table that is not there yet,
as in the first run; so none of them is there until SDP knows the flows.

    I1  a name is hidden by a temporary view that reads nothing that exists; all such views are gone before the run
    I2  a flow that cannot be planned so is planned as it is, and that is told: it sees what the run before left

A name with its database in front is not hidden.

Source: Spark 4.2, SparkConnectPlanner (transformWithColumns, transformDrop), FlowAnalysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import Output

from kavka_spark.pipelines.definitions import DefinitionProblem, Registry
from kavka_spark.pipelines.progress import short_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING: Final = "kavka_no_such_table"
_WHY: Final = "Spark plans one of its steps before the run (drop, withWatermark and such; not select or withColumn)"


class LateFlows(GraphElementRegistry):
    """Passes definitions on to `inner`, flows not before `define`. `spark` is a session of Spark Connect."""

    def __init__(self, inner: GraphElementRegistry, spark: SparkSession, graph: str) -> None:
        self._inner = inner
        self._spark = spark
        self._graph = graph
        self._flows: list[Flow] = []

    def register_output(self, output: Output) -> None:
        self._inner.register_output(output)

    def register_flow(self, flow: Flow) -> None:
        """Runs its function."""
        with add_pipeline_analysis_context(self._spark, self._graph, flow.name):
            made = flow.func()
        self._flows.append(replace(flow, func=lambda: made))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        self._inner.register_auto_cdc_flow(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self._inner.register_sql(sql_text, file_path)

    def define(self, registry: Registry, note: Callable[[str], None]) -> None:
        """Tells `inner` of all flows. `registry`, which passed them on to this one, knows what they read."""
        read = {flow.name: _bare_names(registry, flow) for flow in self._flows}
        left: list[Flow] = []
        with self._hidden({name for names in read.values() for name in names}):
            for flow in self._flows:
                try:
                    self._inner.register_flow(flow)
                except PySparkException:
                    left.append(flow)
        tables = registry.definitions.tables()
        for flow in left:
            inside = ", ".join(sorted(tables[name] for name in read[flow.name] & tables.keys()))
            with registry.registering(flow):
                try:
                    self._inner.register_flow(flow)
                except PySparkException as error:
                    if inside and "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                        raise _too_early(registry, inside) from error
                    raise
            if inside:
                name = short_name(flow.name)
                note(f"{name} has what earlier runs left in {inside}, not what comes in this run: {_WHY}")

    @contextmanager
    def _hidden(self, names: Iterable[str]) -> Iterator[None]:
        """Tables of these names cannot be found meanwhile (I1)."""
        views: list[str] = []
        try:
            for name in sorted(names):
                if not views:
                    self._make_view(NOTHING, "SELECT 1 AS nothing")
                    views.append(NOTHING)
                self._make_view(name, f"SELECT * FROM {NOTHING}")
                views.append(name)
            if views:
                self._spark.catalog.dropTempView(NOTHING)
            yield
        finally:
            for name in views:
                self._spark.catalog.dropTempView(name)  # Not DROP VIEW, which takes a user's own one.

    def _make_view(self, name: str, query: str) -> None:
        self._spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS {query}")


def _too_early(registry: Registry, tables: str) -> DefinitionProblem:
    assert registry.current is not None
    return DefinitionProblem(f"{tables} is not there before the first run. {_WHY}", registry.current.place)


def _bare_names(registry: Registry, flow: Flow) -> set[str]:
    """The names without a database that it reads, in lower case, as Spark compares them."""
    steps = registry.definitions.reads.get(short_name(flow.name), ())
    names = (step.table.replace("`", "").lower() for step in steps)
    return {name for name in names if name and "." not in name}
