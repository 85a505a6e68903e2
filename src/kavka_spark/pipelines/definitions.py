"""Definitions: what the files of a pipeline define, and where.

Decides how definition files are run: as SDP does it, each Python file as a module of its own with a registry that
takes note, SQL files as text. `Registry` is what both ways of running share: it knows of every flow where it stands, so
that what goes wrong later can be told with file and line.

I1  A flow that is being registered is `Registry.current`, until that is done.

Source: pyspark/pipelines/cli.py (register_definitions) of Spark 4.3.
"""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView

from kavka_spark.pipelines.progress import short_name
from kavka_spark.pipelines.spec import PipelineSpec, SpecError
from kavka_spark.pipelines.sql_definitions import Kind, SqlDefinition, SqlProblem, sql_definitions
from kavka_spark.stream_plans import Step, nodes, require_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


DEFAULT_FORMAT: Final = "parquet"
FILE_FORMATS: Final = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
"""What Spark's own file sink writes. Tables with transactions of their own (Delta, Iceberg) take several flows."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is defined. `line` counts from 1; 0 means unknown."""

    file: str
    line: int = 0


class DefinitionProblem(Exception):
    """A definition that cannot be used, and where it is."""

    def __init__(self, problem: str, place: Place) -> None:
        super().__init__(problem)
        self.place = place


@dataclass(frozen=True, slots=True)
class DefinedFlow:
    """A flow by its short name."""

    flow: str
    target: str
    place: Place


@dataclass(frozen=True, slots=True)
class SqlFlow:
    """A SQL statement and its file."""

    definition: SqlDefinition
    file: Path


@dataclass(slots=True)
class Definitions:
    """All definitions of a pipeline, in the order of the files and of the definitions in them."""

    outputs: dict[str, Output] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    sql: list[SqlFlow] = field(default_factory=list)
    places: dict[str, DefinedFlow] = field(default_factory=dict)
    reads: dict[str, list[Step]] = field(default_factory=dict)
    """The steps of each flow's plan that read something, as far as the flow has been planned."""

    def note(self, name: str, target: str, place: Place) -> None:
        self.places[short_name(name)] = DefinedFlow(short_name(name), short_name(target), place)

    def note_reads(self, flow: str, frame: DataFrame) -> None:
        self.reads[flow] = [step for step in nodes(frame) if step.table or step.format or step.is_opaque]

    def place_of(self, flow: str) -> Place | None:
        """Where a flow is defined. Takes its short name, or one with a database in front."""
        found = self.places.get(flow) or self.places.get(flow.rpartition(".")[2])
        return found.place if found is not None else None

    def kind_of(self, target: str) -> Kind:
        """What a flow writes to. A target without a definition is a streaming table that SDP knows."""
        output = self.outputs.get(target)
        if output is not None:
            return kind_of(output)
        for each in self.sql:
            if short_name(each.definition.name) == target and each.definition.kind != "flow":
                return each.definition.kind
        return "streaming table"

    def tables(self) -> dict[str, str]:
        """The tables and materialized views, by their names in lower case."""
        targets = {short_name(name) for name in (*self.outputs, *(each.target for each in self.places.values()))}
        tables = sorted(name for name in targets if self.kind_of(name) in ("streaming table", "materialized view"))
        return {name.lower(): name for name in tables}

    def views(self) -> list[str]:
        """The temporary views."""
        targets = {short_name(name) for name in (*self.outputs, *(each.target for each in self.places.values()))}
        return sorted(name for name in targets if self.kind_of(name) == "temporary view")

    def check_tables(self, names: Iterable[str]) -> None:
        """Raises `SpecError` for a name that no table and no materialized view has: SDP would leave out all flows, and
        report a completed run."""
        spelled = self.tables()
        for name in names:
            plain = name.replace("`", "").lower().rpartition(".")[2]
            if plain not in spelled:
                near = get_close_matches(plain, spelled, 1)
                hint = f"did you mean {spelled[near[0]]}? " if near else ""
                raise SpecError(
                    f"there is no table {name}", f"{hint}The tables are {', '.join(spelled.values()) or 'none'}"
                )

    def refuse_shared_files(self) -> None:
        """Raises `DefinitionProblem` for files that two flows would write to.

        Spark's log of such files holds the number of the last micro-batch, of whichever query it was: what the other
        one writes under a number that is there already is passed over as done, and its rows are lost without an error.
        """
        first: dict[str, str] = {}
        for flow in self.places.values():
            other = first.setdefault(flow.target, flow.flow)
            if other == flow.flow or self.kind_of(flow.target) not in ("streaming table", "sink"):
                continue
            found = self._format_of(flow.target)
            if found in FILE_FORMATS:
                raise DefinitionProblem(
                    f"{other} and {flow.flow} both write to {flow.target}, whose files ({found}) take the rows of one "
                    "flow: Spark would lose those of the other without an error. Let one flow return the union of "
                    "both, or give each a table of its own",
                    flow.place,
                )

    def _format_of(self, target: str) -> str:
        output = self.outputs.get(target)
        if output is not None:
            return getattr(output, "format", None) or DEFAULT_FORMAT
        for each in self.sql:
            if short_name(each.definition.name.replace("`", "")) == target and each.definition.kind != "flow":
                return each.definition.format or DEFAULT_FORMAT
        return ""

    def as_json(self, root: Path) -> list[dict[str, object]]:
        return [
            {
                "flow": each.flow,
                "target": each.target,
                "kind": self.kind_of(each.target),
                "file": shown_path(each.place.file, root),
                "line": each.place.line,
            }
            for each in self.places.values()
        ]


def kind_of(output: Output) -> Kind:
    match output:
        case MaterializedView():
            return "materialized view"
        case StreamingTable() | Table():
            return "streaming table"
        case TemporaryView():
            return "temporary view"
        case Sink():
            return "sink"
        case _:
            return "flow"


def shown_path(file: str, root: Path) -> str:
    """The path relative to the pipeline's folder, if it is below that folder."""
    try:
        return str(Path(file).resolve().relative_to(root.resolve()))
    except ValueError:
        return file


class Registry(GraphElementRegistry):
    """Takes note of every definition, and passes it on to `inner` (SDP's own registry) if there is one.

    `on_frame` gets each flow with what its function made.
    """

    def __init__(
        self, inner: GraphElementRegistry | None = None, on_frame: Callable[[Flow, DataFrame], None] | None = None
    ) -> None:
        self.definitions = Definitions()
        self.current: DefinedFlow | None = None
        self._inner = inner
        self._on_frame = on_frame

    def register_output(self, output: Output) -> None:
        self.definitions.outputs[short_name(output.name)] = output
        if self._inner is not None:
            self._inner.register_output(output)

    def register_flow(self, flow: Flow) -> None:
        with self.registering(flow):
            self.definitions.flows.append(flow)
            if self._inner is not None:
                self._inner.register_flow(self._watched(flow))

    def _watched(self, flow: Flow) -> Flow:
        def make() -> DataFrame:
            made = require_frame(flow.func(), short_name(flow.name))
            self.definitions.note_reads(short_name(flow.name), made)
            if self._on_frame is not None:
                self._on_frame(flow, made)
            return made

        return replace(flow, func=make)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        place = Place(flow.source_code_location.filename, flow.source_code_location.line_number or 0)
        if self._inner is None:
            raise DefinitionProblem("an auto CDC flow runs in triggered runs only (`kavka pipeline run`)", place)
        with self._registering(flow.name or flow.target, flow.target, place):
            self._inner.register_auto_cdc_flow(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        try:
            defined = sql_definitions(sql_text)
        except SqlProblem as problem:
            raise DefinitionProblem(str(problem), Place(str(file_path), problem.line)) from problem
        self.definitions.sql += [SqlFlow(each, file_path) for each in defined]
        for each in defined:
            if each.query:
                name = each.name.replace("`", "")
                self.definitions.note(name, each.target.replace("`", ""), Place(str(file_path), each.line))
        if self._inner is not None:
            self._inner.register_sql(sql_text, file_path)

    def registering(self, flow: Flow) -> AbstractContextManager[None]:
        """The flow is `current` meanwhile (I1)."""
        place = Place(flow.source_code_location.filename, flow.source_code_location.line_number or 0)
        return self._registering(flow.name, flow.target, place)

    @contextmanager
    def _registering(self, name: str, target: str, place: Place) -> Iterator[None]:
        self.definitions.note(name, target, place)
        self.current = self.definitions.places[short_name(name)]
        yield
        self.current = None  # Not where it fails: then it tells which one it was.


def load_definitions(
    spec: PipelineSpec,
    registry: Registry,
    spark: SparkSession,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Runs the definition files, each Python file within `around()`. Raises what they raise, and SpecError where there
    are none."""
    files = spec.files()
    before = os.getcwd()
    os.chdir(spec.root)
    try:
        with graph_element_registration_context(registry):
            for file in files:
                if file.suffix == ".sql":
                    registry.register_sql(file.read_text(encoding="utf-8"), file.relative_to(spec.root))
                else:
                    with around():
                        _run_module(file, spark)
    finally:
        os.chdir(before)
    if spec.catalog in (None, "spark_catalog"):
        registry.definitions.refuse_shared_files()


def _run_module(file: Path, spark: SparkSession) -> None:
    name = f"kavka_pipeline_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    # It is not put into sys.modules: functions of it that workers run are then pickled by value.
    try:
        spec.loader.exec_module(module)
    except SystemExit as ended:
        lines = [each.lineno or 0 for each in traceback.extract_tb(ended.__traceback__) if each.filename == str(file)]
        raise DefinitionProblem(
            f"it ended the program (sys.exit({ended.code})): a file of definitions only defines",
            Place(str(file), lines[-1]),
        ) from ended
