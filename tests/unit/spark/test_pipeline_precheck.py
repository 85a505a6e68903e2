"""What is found before Spark starts: definitions that do not parse, brokers that do not answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql.connect.proto import relations_pb2 as relations

from kavka_spark.pipelines.precheck import Endpoint, brokers_problem, parse_problem, readers_in
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, read_spec
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


def test_brokers_that_do_not_answer_are_named_within_seconds(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, a__py=READS.encode()).with_changes(f"127.0.0.1:{free_port()}", [])
    began = time.monotonic()
    problem = brokers_problem(spec)
    assert problem is not None
    assert spec.own.bootstrap in problem.problem
    assert "-b HOST:PORT" in problem.next_step
    assert time.monotonic() - began < 30


def test_a_pipeline_of_files_asks_no_broker(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, a__py=b"x = 1\n").with_changes(f"127.0.0.1:{free_port()}", [])
    assert brokers_problem(spec) is None


def test_readers_are_found_wherever_they_stand_in_a_plan() -> None:
    def read(*, is_streaming: bool, **options: str) -> relations.Relation:
        source = relations.Read.DataSource(format="kavka", options=options)
        return relations.Relation(read=relations.Read(data_source=source, is_streaming=is_streaming))

    left = relations.Relation(filter=relations.Filter(input=read(is_streaming=True, subscribe="a")))
    table = relations.Relation(read=relations.Read(named_table=relations.Read.NamedTable(unparsed_identifier="t")))
    join = relations.Relation(join=relations.Join(left=left, right=read(is_streaming=False, Assign="b")))
    plan = relations.Relation(set_op=relations.SetOperation(left_input=join, right_input=table))
    assert list(readers_in("f", plan)) == [
        Endpoint("f", "stream", "kavka", {"subscribe": "a"}),
        Endpoint("f", "table", "kavka", {"assign": "b"}),
    ]
