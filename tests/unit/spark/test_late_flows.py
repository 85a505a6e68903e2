"""When SDP hears of flows, and which tables it can see then."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, Output, Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation

from kavka_spark.pipelines.definitions import DefinitionProblem, Registry
from kavka_spark.pipelines.late_flows import LateFlows
from kavka_spark.stream_plans import Step

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
        source = self.views.get(name.lower())
        if source is None:
            return name.lower() in self.tables
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

    def register_output(self, output: Output) -> None:
        self.told.append(f"output {output.name}")

    def register_flow(self, flow: Flow) -> None:
        flow.func()
        assert self.registry is not None
        for step in self.registry.definitions.reads[flow.name]:
            if flow.name in self._eager and not self._session.sees(step.table):
                raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] {step.table}")
            seen = "seen" if self._session.sees(step.table) else "late"
            self.told.append(f"flow {flow.name}: {step.table} {seen}")


def place(line: int) -> SourceCodeLocation:
    return SourceCodeLocation(filename="flows.py", line_number=line)


def begin(
    monkeypatch: pytest.MonkeyPatch, session: Session, reads: dict[str, list[str]], *, eager: set[str] | None = None
) -> tuple[LateFlows, Registry, Sdp]:
    """The table `numbers`, and a flow for each of `reads` into a sink; all are registered."""
    made: Any = type("Frame", (), {})
    monkeypatch.setattr("kavka_spark.pipelines.definitions.require_frame", lambda frame, name: frame)
    sdp = Sdp(session, eager or set())
    late = LateFlows(sdp, session, "graph")  # type: ignore[arg-type]
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
    assert sdp.told[3:] == ["flow a: numbers seen", "flow b: outside seen"]
    assert [note.partition(":")[0] for note in notes] == [
        "a has what earlier runs left in numbers, not what comes in this run"
    ]
    assert session.views == {}


def test_before_the_first_run_it_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    late, registry, _ = begin(monkeypatch, Session(), {"a": ["numbers"]}, eager={"a"})
    with pytest.raises(DefinitionProblem, match=r"numbers is not there before the first run\. Spark plans") as problem:
        late.define(registry, print)
    assert (problem.value.place.file, problem.value.place.line) == ("flows.py", 1)


def test_what_is_wrong_for_another_reason_is_told_as_it_is_and_no_view_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    late, registry, _ = begin(monkeypatch, session, {"a": ["elsewhere"]}, eager={"a"})
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
