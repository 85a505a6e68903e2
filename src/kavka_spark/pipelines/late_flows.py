"""Flows that SDP hears of when all files are read, with their tables out of sight.

SDP runs a flow after the flows that write what it reads, and knows them by the names of tables in its plan. But Spark
Connect resolves the input of some steps (`withColumn`, `drop`, `withWatermark`) as soon as it hears of them. From the
second run on the table is there, and its name is no longer in the plan: SDP runs such a flow at once, as one that reads
nothing of the pipeline, and it finds what the run before left. `withColumn` puts up with a table that is not there yet,
as in the first run; so none of them is there until SDP knows the flows.

    I1  a table of the pipeline is hidden by a temporary view that reads nothing that exists; all such views are gone
        before the run. Tables of others stay in sight: a step that must see one of those is no reason to show the rest
    I2  a flow that cannot be planned so is planned as it is, and that is told: it sees what the run before left
    I3  a name with the pipeline's own catalog and database in front, which no view can hide, reaches SDP without them

A table of another database is not hidden.

Source: Spark 4.2, SparkConnectPlanner (transformWithColumns, transformDrop), FlowAnalysis, GraphIdentifierManager.
"""

from __future__ import annotations

import re
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

from kavka_spark.pipelines.definitions import DefinitionProblem, Place, Registry
from kavka_spark.pipelines.progress import USUAL_HOME, short_name
from kavka_spark.pipelines.sql_definitions import tables_read
from kavka_spark.stream_plans import rename_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING: Final = "kavka_no_such_table"
_WHY: Final = "Spark plans one of its steps before the run (drop, withWatermark and such; not select or withColumn)"
_NOT_FOUND: Final = re.compile(r"TABLE_OR_VIEW_NOT_FOUND.*?(`[^ ]+`) cannot be found", re.S)


class LateFlows(GraphElementRegistry):
    """Passes definitions on to `inner`, flows not before `define`. `spark` is a session of Spark Connect, `home` the
    pipeline's catalog and database."""

    def __init__(
        self,
        inner: GraphElementRegistry,
        spark: SparkSession,
        graph: str,
        home: tuple[str, str] = USUAL_HOME,
    ) -> None:
        self._inner = inner
        self._spark = spark
        self._graph = graph
        self._prefixes = tuple(f"{prefix}.".lower() for prefix in (".".join(home), home[1]))
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
        own = self._own(registry)
        left: list[Flow] = []
        with self._hidden(self._to_hide(registry, own)):
            for flow in self._flows:
                try:
                    self._inner.register_flow(self._with_bare_names(registry, flow))
                except PySparkException:
                    left.append(flow)
        for flow in left:
            with registry.registering(flow):
                try:
                    self._inner.register_flow(self._with_bare_names(registry, flow))
                except PySparkException as error:
                    missing = _NOT_FOUND.search(str(error))
                    name = self._bare(missing[1]).lower() if missing is not None else ""
                    if name in own:
                        raise _too_early(registry, own[name]) from error
                    raise
            inside = sorted(own[name] for name in self._read_by(registry, flow) & own.keys())
            if inside:
                name = short_name(flow.name)
                note(f"{name} has what earlier runs left in {', '.join(inside)}, not what comes in this run: {_WHY}")

    def check_spelling(self, registry: Registry) -> None:
        """Raises `DefinitionProblem` for a name of the pipeline in other letters, capital or small. Spark takes it for
        the same table and SDP for another one: the flow would have what the run before left, and nobody would know."""
        definitions = registry.definitions
        own = self._own(registry)
        read = {
            flow: [name for step in steps for name in (step.table, *tables_read(step.query))]
            for flow, steps in definitions.reads.items()
        }
        for each in definitions.sql:
            read[short_name(each.definition.name.replace("`", ""))] = tables_read(each.definition.query)
        for flow, names in read.items():
            for name in names:
                bare = self._bare(name)
                spelled = own.get(bare.lower(), "")
                if spelled and bare != self._bare(spelled):
                    place = definitions.place_of(flow) or Place("")
                    raise DefinitionProblem(f"{flow} reads {bare}, which is defined as {spelled}: spell it so", place)

    def _own(self, registry: Registry) -> dict[str, str]:
        """The tables and temporary views of the pipeline, by their names in lower case without `home`."""
        definitions = registry.definitions
        names = (*definitions.tables().values(), *definitions.views())
        return {self._bare(name).lower(): name.replace("`", "") for name in names}

    def _to_hide(self, registry: Registry, own: Iterable[str]) -> set[str]:
        """Those that flows read; all where one of them reads in a text of SQL, of which only Spark knows."""
        steps = [step for flow in self._flows for step in registry.definitions.reads.get(short_name(flow.name), ())]
        is_any_opaque = any(step.is_opaque for step in steps)
        read = {self._bare(step.table).lower() for step in steps}
        return {name for name in own if "." not in name and (is_any_opaque or name in read)}

    def _read_by(self, registry: Registry, flow: Flow) -> set[str]:
        return {self._bare(step.table).lower() for step in registry.definitions.reads.get(short_name(flow.name), ())}

    def _bare(self, name: str) -> str:
        """The name without backquotes, and without the pipeline's own catalog and database."""
        plain = name.replace("`", "")
        prefix = next((each for each in self._prefixes if plain.lower().startswith(each)), "")
        return plain[len(prefix) :]

    def _with_bare_names(self, registry: Registry, flow: Flow) -> Flow:
        """I3. A view of the same name is another thing than the table."""
        tables = {self._bare(name).lower(): self._bare(name) for name in registry.definitions.tables().values()}
        tables = {name: spelled for name, spelled in tables.items() if "." not in name}
        views = {name.lower() for name in registry.definitions.views()}
        names: dict[str, str] = {}
        for step in registry.definitions.reads.get(short_name(flow.name), ()):
            bare = self._bare(step.table).lower()
            if "." in step.table and bare in tables.keys() - views:
                names[step.table] = f"`{tables[bare]}`"
        return replace(flow, func=lambda: rename_tables(flow.func(), names)) if names else flow

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


def _too_early(registry: Registry, name: str) -> DefinitionProblem:
    assert registry.current is not None
    when = "the first run" if name.lower() in registry.definitions.tables() else "the run, which a view never is"
    return DefinitionProblem(f"{name} is not there before {when}. {_WHY}", registry.current.place)
