"""What is found before a query begins: definitions that do not parse, brokers that do not answer."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame
from pyspark.sql.connect.proto import relations_pb2 as relations

from kavka_spark.pipelines import precheck
from kavka_spark.pipelines.definitions import Definitions, Place
from kavka_spark.pipelines.driver import brokers_are_there
from kavka_spark.pipelines.journal import Journal, JournalReader
from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.precheck import brokers_problem, endpoints_problem, parse_problem
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, read_spec
from kavka_spark.stream_plans import Step
from tests.kit.ports import free_port

READS = 'brokers = spark.conf.get("spark.kavka.bootstrap.servers")\n'


def spec_of(root: Path, **files: bytes) -> PipelineSpec:
    """A pipeline of definition files, by names with __ for the dot."""
    (root / "transformations").mkdir()
    for name, text in files.items():
        (root / "transformations" / name.replace("__", ".")).write_bytes(text)
    (root / "pipeline.yml").write_text("name: p\nstorage: storage\n")
    return read_spec(root)


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("a__py", b"x = 1\ndef f(:\n    pass\n", 2, "SyntaxError"),
        ("a__py", b"if 1:\nx = 2\n", 2, "IndentationError"),
        ("a__sql", b"\n\nSELECT 1;\n", 3, "SELECT 1 ... defines no streaming table"),
        ("a__py", b"x = '\xff'\n", 1, "SyntaxError"),
        ("a__sql", b"-- \xff\n", 0, "is not text"),
    ],
)
def test_a_definition_that_does_not_parse_is_named_with_its_line(
    tmp_path: Path, name: str, text: bytes, line: int, words: str
) -> None:
    spec = spec_of(tmp_path, **{name: text})
    problem = parse_problem(spec)
    assert problem is not None
    assert words in problem.problem
    assert problem.line == line
    assert not line or problem.file == f"transformations/{name.replace('__', '.')}"


def test_a_parse_runs_nothing(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, a__py=b"raise SystemExit(1)\n", b__sql=b"CREATE STREAMING TABLE t AS SELECT 1 AS x;\n")
    assert parse_problem(spec) is None


def test_a_pipeline_without_definitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no definition matches"):
        parse_problem(spec_of(tmp_path))


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precheck, "ANSWER_S", 1.0)


def spec_at(root: Path, bootstrap: str, text: str = READS) -> PipelineSpec:
    return spec_of(root, a__py=text.encode()).with_changes(bootstrap, [])


@contextmanager
def mute() -> Iterator[str]:
    """The address of somebody who accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.usefixtures("hurry")
def test_that_nobody_listens_is_told_in_one_line_with_the_address_and_the_way_out(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, f"127.0.0.1:{free_port()}")
    began = time.monotonic()
    problem = brokers_problem(spec)
    assert problem is not None
    assert problem.sentence == f"no broker answers: {spec.own.bootstrap} refused the connection"
    assert "-b HOST:PORT" in problem.next_step
    assert "kavka.bootstrap in pipeline.yml" in problem.next_step
    assert time.monotonic() - began < 5


def test_a_broker_that_comes_up_meanwhile_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    threading.Timer(0.5, listener.listen).start()
    assert brokers_problem(spec_at(tmp_path, f"127.0.0.1:{port}")) is None
    listener.close()


def test_one_address_that_answers_is_enough_and_is_not_waited_for_behind_the_others(tmp_path: Path) -> None:
    with mute() as address:
        began = time.monotonic()
        assert brokers_problem(spec_at(tmp_path, f"127.0.0.1:{free_port()},{address}")) is None
    assert time.monotonic() - began < precheck.ANSWER_S / 2


@pytest.mark.usefixtures("hurry")
def test_all_addresses_that_do_not_answer_are_named(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    problem = brokers_problem(spec_at(tmp_path, f"127.0.0.1:{first},no-such-host.invalid:{second}"))
    assert problem is not None
    assert f"127.0.0.1:{first} refused the connection" in problem.problem
    assert "no-such-host.invalid" in problem.problem


def test_brokers_that_want_a_login_are_left_to_the_definitions_which_have_it(tmp_path: Path) -> None:
    """Who listens may speak TLS, and close what comes without it."""
    with mute() as address:
        assert brokers_problem(spec_at(tmp_path, address)) is None


def test_a_pipeline_of_files_asks_no_broker(tmp_path: Path) -> None:
    assert brokers_problem(spec_at(tmp_path, f"127.0.0.1:{free_port()}", "x = 1\n")) is None


def test_the_brokers_that_are_asked_are_those_that_the_definitions_will_get(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, a__py=READS.encode())
    (tmp_path / "pipeline.yml").write_text(
        "name: p\nstorage: s\nconfiguration: {spark.kavka.bootstrap.servers: 'no-such-host.invalid:1'}\n"
    )
    spec = read_spec(tmp_path)
    with mute() as address:
        for changed in (
            spec.with_changes(address, []),
            spec.with_changes(None, [f"spark.kavka.bootstrap.servers={address}"]),
        ):
            assert changed.spark_configuration()["spark.kavka.bootstrap.servers"] == address
            assert brokers_problem(changed) is None


def reads(bootstrap: str, **options: str) -> Definitions:
    """Of one flow that reads a topic there."""
    definitions = Definitions()
    definitions.note("orders", "orders", Place("transformations/a.py", 7))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"} | options
    definitions.reads["orders"] = [Step("Read", True, "kavka", options)]
    return definitions


def _never() -> DataFrame:
    raise AssertionError("nobody asks for its rows")


def writes(bootstrap: str) -> Definitions:
    """Of one flow that writes a topic there."""
    definitions = Definitions()
    definitions.note("copy", "out", Place("transformations/a.py", 9))
    options = {"kafka.bootstrap.servers": bootstrap, "topic": "copies"}
    place = SourceCodeLocation("transformations/a.py", 8)
    definitions.outputs["out"] = Sink("out", None, place, "kavka", options)
    definitions.flows.append(Flow("copy", "out", {}, place, _never))
    return definitions


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(("made", "flow", "line"), [(reads, "orders", 7), (writes, "copy", 9)])
def test_brokers_that_only_a_definition_names_are_told_with_its_line(
    tmp_path: Path, made: Callable[[str], Definitions], flow: str, line: int
) -> None:
    port = free_port()
    problem = endpoints_problem(spec_of(tmp_path), made(f"127.0.0.1:{port}"), with_topics=False)
    assert problem is not None
    assert problem.sentence.startswith(f"flow {flow}, transformations/a.py:{line}: UnreachableError: ")
    assert f"127.0.0.1:{port} refused the connection" in problem.problem
    assert "\n" not in problem.problem
    assert "-b HOST:PORT" in problem.next_step


@pytest.mark.usefixtures("hurry")
def test_a_broker_that_accepts_and_never_answers_is_told_in_the_same_time(tmp_path: Path) -> None:
    with mute() as first, mute() as second:
        began = time.monotonic()
        problem = endpoints_problem(spec_of(tmp_path), reads(f"{first},{second}"), with_topics=False)
        assert problem is not None
        assert re.search(f"no answer from {first},{second}|{second} did not answer", problem.problem)
        assert time.monotonic() - began < 5


def test_brokers_of_other_formats_are_not_asked(tmp_path: Path) -> None:
    definitions = Definitions()
    definitions.reads["orders"] = [Step("Read", True, "kafka", {"kafka.bootstrap.servers": "127.0.0.1:1"})]
    assert endpoints_problem(spec_of(tmp_path), definitions, with_topics=False) is None


@pytest.mark.parametrize(
    ("form", "options", "said"),
    [
        ("kavkaa", {}, "there is no format 'kavkaa'; did you mean 'kavka'?"),
        ("kavka-dleta", {}, "did you mean 'kavka-delta'?"),
        ("kavka-delta", {}, "a Delta table has a path"),
        ("kavka-delta", {"path": "/t", "mergeKey": "id"}, "mergeKeys"),
        ("kavka-iceberg", {}, "table"),
        ("kavka-delta", {"path": "/t", "mergeKeys": "id"}, ""),
        ("kafka", {}, ""),
        ("delta", {}, ""),
    ],
)
def test_a_sink_that_cannot_be_is_told_before_its_first_rows(
    tmp_path: Path, form: str, options: dict[str, str], said: str
) -> None:
    """A check said that such a pipeline was well."""
    definitions = writes("127.0.0.1:1")
    definitions.outputs["out"] = Sink("out", None, SourceCodeLocation("transformations/a.py", 8), form, options)
    problem = endpoints_problem(spec_of(tmp_path), definitions, with_topics=True)
    assert (problem is None) == (said == "")
    if problem is not None:
        assert said in problem.sentence
        assert problem.line == 9


def asked(spec: PipelineSpec, order: Order, is_over: threading.Event) -> tuple[bool, list[dict[str, Any]]]:
    journal = Journal(spec.state / "journal")
    found = brokers_are_there(order, spec, journal, is_over)
    journal.close()
    return found, list(JournalReader(spec.state / "journal").read())


@pytest.mark.usefixtures("hurry")
def test_a_run_without_brokers_is_a_failed_run_whoever_is_told_of_those(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, f"127.0.0.1:{free_port()}")
    found, events = asked(spec, Order(str(spec.path), "", "run"), threading.Event())
    assert not found
    assert [event["event"] for event in events] == ["note", "run began", "problem", "run ended"]
    assert events[-1]["outcome"] == "failed"


def test_a_watch_goes_on_asking_until_somebody_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precheck, "ANSWER_S", 0.2)
    port = free_port()
    spec = spec_at(tmp_path, f"127.0.0.1:{port}")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        threading.Timer(1.5, listener.listen).start()
        found, events = asked(spec, Order(str(spec.path), "", "run", every_s=0.2), threading.Event())
    assert found
    assert [event["outcome"] for event in events if event["event"] == "run ended"].count("failed") > 1


@pytest.mark.usefixtures("hurry")
def test_a_watch_without_brokers_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, f"127.0.0.1:{free_port()}")
    is_over = threading.Event()
    is_over.set()
    found, events = asked(spec, Order(str(spec.path), "", "run", every_s=60), is_over)
    assert not found
    assert [event["event"] for event in events].count("run ended") == 1


def test_tables_that_are_named_may_need_no_broker() -> None:
    assert Order("p", "", "run").is_of_all_tables
    assert not Order("p", "", "run", refresh=("totals",)).is_of_all_tables
    assert not Order("p", "", "run", full_refresh=("totals",)).is_of_all_tables


def test_readers_are_found_wherever_they_stand_in_a_plan() -> None:
    def read(*, is_streaming: bool, **options: str) -> relations.Relation:
        source = relations.Read.DataSource(format="kavka", options=options)
        return relations.Relation(read=relations.Read(data_source=source, is_streaming=is_streaming))

    left = relations.Relation(filter=relations.Filter(input=read(is_streaming=True, subscribe="a")))
    table = relations.Relation(read=relations.Read(named_table=relations.Read.NamedTable(unparsed_identifier="t")))
    join = relations.Relation(join=relations.Join(left=left, right=read(is_streaming=False, Assign="b")))
    plan = relations.Relation(set_op=relations.SetOperation(left_input=join, right_input=table))
    frame: Any = SimpleNamespace(_plan=SimpleNamespace(plan=lambda _: plan), _session=SimpleNamespace(client=None))
    definitions = Definitions()
    definitions.note_reads("f", frame)
    assert list(precheck.readers_in(definitions)) == [
        precheck.Endpoint("f", "stream", "kavka", {"subscribe": "a"}),
        precheck.Endpoint("f", "table", "kavka", {"assign": "b"}),
    ]
