"""When SDP hears of flows, and which tables it can see then."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, Output, Sink, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql.connect.proto.relations_pb2 import Read, Relation, WithRelations

from kavka_spark.pipelines.definitions import DefinitionProblem, Place, Registry
from kavka_spark.pipelines.late_flows import LateFlows
from kavka_spark.stream_plans import Step, rename_tables

CREATE = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW `(\w+)` AS SELECT (.*)")


class Session:
    """A session whose catalog has `tables`, with what happens in it."""

    def __init__(self, *tables: str) -> None:
        self.tables = set(tables)
        self.views: dict[str, str] = {}
        self.catalog = self
        self.client = self
        self.contexts = 0

    def sql(self, statement: str) -> None:
        assert not self.contexts, "Spark refuses to change a session there"
        match = CREATE.fullmatch(statement)
        assert match is not None, statement
        self.views[match[1]] = match[2]

    def dropTempView(self, name: str) -> bool:  # noqa: N802  # Spark's name
        return self.views.pop(name, None) is not None

    def sees(self, name: str) -> bool:
        plain = name.lower().replace("`", "")
        source = self.views.get(plain)
        if source is None:
            return plain in self.tables
        return source.rpartition("FROM ")[2] in self.views

    def add_threadlocal_user_context_extension(self, extension: object) -> str:
        self.contexts += 1
        return "id"

    def remove_user_context_extension(self, identifier: str) -> None:
        self.contexts -= 1


class Sdp:
    """SDP's registry: a flow with `eager` steps can be planned only where its tables are seen."""

    def __init__(self, session: Session, eager: set[str]) -> None:
        self._session = session
        self._eager = eager
        self.registry: Registry | None = None
        self.told: list[str] = []
        self.eager_tables: set[str] = set()
        """Those that a step of any flow needs at once."""

    def register_output(self, output: Output) -> None:
        self.told.append(f"output {output.name}")

    def register_flow(self, flow: Flow) -> None:
        assert self.registry is not None
        for step in self._steps(flow):
            if (flow.name in self._eager or step.table in self.eager_tables) and not self._session.sees(step.table):
                raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] The table or view `{step.table}` cannot be found.")
            seen = "seen" if self._session.sees(step.table) else "late"
            self.told.append(f"flow {flow.name}: {step.table} {seen}")

    def _steps(self, flow: Flow) -> list[Step]:
        assert self.registry is not None
        names = getattr(flow.func(), "_names", {})
        steps = self.registry.definitions.reads[flow.name]
        return [replace(step, table=names.get(step.table, step.table)) for step in steps]


def place(line: int) -> SourceCodeLocation:
    return SourceCodeLocation(filename="flows.py", line_number=line)


def begin(
    monkeypatch: pytest.MonkeyPatch,
    session: Session,
    reads: dict[str, list[str]],
    *,
    eager: set[str] | None = None,
    home: tuple[str, str] = ("spark_catalog", "default"),
) -> tuple[LateFlows, Registry, Sdp]:
    """The table `numbers`, and a flow for each of `reads` into a sink; all are registered."""
    made: Any = type("Frame", (), {})
    monkeypatch.setattr("kavka_spark.pipelines.definitions.require_frame", lambda frame, name: frame)
    sdp = Sdp(session, eager or set())
    late = LateFlows(sdp, session, "graph", home)  # type: ignore[arg-type]
    sdp.registry = registry = Registry(late)
    monkeypatch.setattr(
        type(registry.definitions),
        "note_reads",
        lambda self, name, frame: self.reads.update({name: [Step("Read", table=each) for each in reads[name]]}),
    )
    for line, name in enumerate(reads, 1):
        registry.register_output(Sink(name, None, place(line), "kavka", {}))
        registry.register_flow(Flow(name, name, {}, place(line), lambda: made()))
    registry.register_output(MaterializedView("numbers", None, place(9), {}, None, None, None, None))
    return late, registry, sdp


def test_flows_come_last_and_do_not_see_tables_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("numbers", "shop.numbers")
    late, registry, sdp = begin(monkeypatch, session, {"a": ["numbers", "shop.numbers"], "b": ["NUMBERS", "other"]})
    assert sdp.told == ["output a", "output b", "output numbers"]
    notes: list[str] = []
    late.define(registry, notes.append)
    assert sdp.told[3:] == [
        "flow a: numbers late",
        "flow a: shop.numbers seen",
        "flow b: NUMBERS late",
        "flow b: other late",
    ]
    assert (session.views, session.contexts, notes) == ({}, 0, [])
    assert session.sees("numbers")


def test_what_must_be_planned_at_once_is_and_it_is_told_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("numbers", "outside")
    late, registry, sdp = begin(monkeypatch, session, {"a": ["numbers"], "b": ["outside"]}, eager={"a", "b"})
    notes: list[str] = []
    late.define(registry, notes.append)
    assert sdp.told[3:] == ["flow b: outside seen", "flow a: numbers seen"]
    assert [note.partition(":")[0] for note in notes] == [
        "a has what earlier runs left in numbers, not what comes in this run"
    ]
    assert session.views == {}


def test_a_table_of_others_that_must_be_seen_at_once_is_no_reason_to_show_the_pipelines_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session("numbers", "outside")
    late, registry, sdp = begin(monkeypatch, session, {"a": ["numbers", "outside"]})
    sdp.eager_tables.add("outside")
    notes: list[str] = []
    late.define(registry, notes.append)
    assert sdp.told[2:] == ["flow a: numbers late", "flow a: outside seen"]
    assert notes == []


def test_a_text_of_sql_hides_all_tables_and_views_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but Spark knows which ones it reads."""
    session = Session("numbers", "view")
    late, registry, sdp = begin(monkeypatch, session, {"a": []})
    registry.register_output(TemporaryView("view", None, place(8)))
    monkeypatch.setattr(sdp, "register_flow", lambda flow: sdp.told.append(",".join(sorted(session.views))))
    registry.definitions.reads["a"] = [Step("SQL", is_opaque=True)]
    late.define(registry, print)
    assert sdp.told[-1] == "numbers,view"
    assert session.views == {}


@pytest.mark.parametrize("name", ["shop.numbers", "lake.shop.numbers", "`shop`.`numbers`", "SHOP.numbers"])
def test_the_pipelines_own_database_in_front_of_a_name_is_left_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    session = Session("numbers")
    late, registry, sdp = begin(monkeypatch, session, {"a": [name, "other.numbers"]}, home=("lake", "shop"))
    late.define(registry, print)
    assert sdp.told[2:] == ["flow a: `numbers` late", "flow a: other.numbers late"]


def test_a_view_of_the_pipeline_is_another_thing_than_the_table_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    late, registry, sdp = begin(monkeypatch, Session(), {"a": ["default.numbers"]})
    registry.register_output(TemporaryView("numbers", None, place(8)))
    late.define(registry, print)
    assert sdp.told[3:] == ["flow a: default.numbers late"]


def test_names_are_changed_in_the_plan_and_in_its_subqueries() -> None:
    def read(table: str) -> Relation:
        return Relation(read=Read(named_table=Read.NamedTable(unparsed_identifier=table)))

    plan = Relation(with_relations=WithRelations(root=read("shop.a"), references=[read("shop.b"), read("c")]))
    frame: Any = SimpleNamespace(_plan=SimpleNamespace(plan=lambda client: plan))
    renamed = rename_tables(frame, {"shop.a": "`a`", "shop.b": "`b`"})._plan.plan(None)
    references = [each.read.named_table.unparsed_identifier for each in renamed.with_relations.references]
    assert renamed.with_relations.root.read.named_table.unparsed_identifier == "`a`"
    assert references == ["`b`", "c"]


@pytest.mark.parametrize("name", ["Numbers", "default.NUMBERS"])
def test_a_name_in_other_letters_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """To SDP it would be another table, with what the run before left."""
    late, registry, _ = begin(monkeypatch, Session("numbers"), {"a": ["numbers", "Outside"], "b": [name]})
    with pytest.raises(DefinitionProblem, match=r"b reads N.*, which is defined as numbers: spell it so") as problem:
        late.check_spelling(registry)
    assert problem.value.place.line == 2


def test_so_is_one_in_a_sql_file_and_what_the_query_itself_names_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    late, registry, sdp = begin(monkeypatch, Session(), {"a": ["numbers"]})
    monkeypatch.setattr(sdp, "register_sql", lambda *_: None, raising=False)
    query = "WITH Numbers AS (SELECT * FROM numbers) SELECT *, ' from NUMBERS' FROM Numbers"
    registry.register_sql(f"CREATE MATERIALIZED VIEW well AS {query};", Path("a.sql"))
    late.check_spelling(registry)
    registry.register_sql("CREATE MATERIALIZED VIEW odd AS SELECT * FROM STREAM(`NUMBERS`)", Path("b.sql"))
    registry.definitions.reads["a"] = [Step("SQL", is_opaque=True, query="SELECT 1 FROM numbers")]
    with pytest.raises(DefinitionProblem, match="odd reads NUMBERS, which is defined as numbers") as problem:
        late.check_spelling(registry)
    assert problem.value.place == Place("b.sql", 1)
    registry.definitions.reads["a"] = [Step("SQL", is_opaque=True, query="SELECT 1 FROM nUmbers")]
    with pytest.raises(DefinitionProblem, match="a reads nUmbers, which is defined as numbers"):
        late.check_spelling(registry)


def test_before_the_first_run_it_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    late, registry, _ = begin(monkeypatch, Session(), {"a": ["numbers"]}, eager={"a"})
    with pytest.raises(DefinitionProblem, match=r"numbers is not there before the first run\. Spark plans") as problem:
        late.define(registry, print)
    assert (problem.value.place.file, problem.value.place.line) == ("flows.py", 1)


def test_a_view_of_the_pipeline_is_never_there_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    late, registry, _ = begin(monkeypatch, Session(), {"a": ["seen"]}, eager={"a"})
    registry.register_output(TemporaryView("seen", None, place(8)))
    with pytest.raises(DefinitionProblem, match="seen is not there before the run, which a view never is"):
        late.define(registry, print)


def test_what_is_wrong_for_another_reason_is_told_as_it_is_and_no_view_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    late, registry, _ = begin(monkeypatch, session, {"a": ["elsewhere", "numbers"]}, eager={"a"})
    with pytest.raises(AnalysisException, match="elsewhere"):
        late.define(registry, print)
    assert registry.current is not None
    assert registry.current.flow == "a"
    assert session.views == {}


def test_without_tables_to_hide_the_session_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    session.sql = None  # type: ignore[assignment,method-assign]
    late, registry, sdp = begin(monkeypatch, session, {"a": [], "b": ["shop.numbers"]})
    late.define(registry, print)
    assert sdp.told[3:] == ["flow b: shop.numbers late"]
