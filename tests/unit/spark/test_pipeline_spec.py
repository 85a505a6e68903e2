"""pipeline.yml: what it means, what is refused, and how that is said."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from kavka_spark.pipelines.journal import journals
from kavka_spark.pipelines.order import Order, decode_order, encode_order
from kavka_spark.pipelines.runner import Runner, is_running
from kavka_spark.pipelines.shipped import EXAMPLES, ExampleError, describe_examples, lay
from kavka_spark.pipelines.spec import SpecError, parse_seconds, parse_spec, read_spec, storage_uri

FILE = Path("/pipelines/orders/pipeline.yml")


def test_a_relative_storage_is_beside_the_file_and_a_uri_stays() -> None:
    assert storage_uri(Path("/pipelines/orders"), "storage") == "file:///pipelines/orders/storage"
    assert storage_uri(Path("/pipelines"), "s3a://bucket/orders") == "s3a://bucket/orders"


def test_own_settings_have_units_and_defaults() -> None:
    spec = parse_spec(FILE, {"name": "orders", "storage": "storage", "kavka": {"every": "2m", "trigger": "250ms"}})
    assert (spec.own.every_s, spec.own.trigger_s, spec.own.refresh_s) == (120.0, 0.25, 30.0)
    assert spec.state == Path("/pipelines/orders/storage/_kavka")
    assert parse_spec(FILE, {"name": "orders", "storage": "s3a://bucket/orders"}).state == FILE.parent / ".kavka-orders"


@pytest.mark.parametrize(
    ("fields", "problem", "next_step"),
    [
        ({"storage": "s"}, "name is missing", "name"),
        ({"name": "n"}, "storage is missing", "storage"),
        ({"name": "n", "storage": "s", "libs": []}, "unknown key libs", "libraries"),
        ({"name": "n", "storage": "s", "kavka": {"bootsrap": "x"}}, "unknown key kavka.bootsrap", "kavka.bootstrap"),
        ({"name": "n", "storage": "s", "kavka": {"every": "soon"}}, "kavka.every is soon", "10s"),
        ({"name": "n", "storage": "s", "configuration": {"a": 1}}, "configuration a is 1", 'a: "1"'),
        ({"name": "n", "storage": "s", "libraries": ["a"]}, "does not have the form", "glob"),
        ({"name": "n", "storage": "s", "libraries": [{"glob": {"include": "a/*/b.py"}}]}, "a/*/b.py", "glob"),
        ([], "does not hold keys and values", "name"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(fields: object, problem: str, next_step: str) -> None:
    with pytest.raises(SpecError, match=r"pipeline\.yml") as refused:
        parse_spec(FILE, fields)
    assert problem in str(refused.value)
    assert next_step in refused.value.next_step


def test_broken_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: orders\nstorage: [\n")
    with pytest.raises(SpecError, match="line 3"):
        read_spec(tmp_path)


def test_the_command_line_goes_over_the_file() -> None:
    spec = parse_spec(FILE, {"name": "orders", "storage": "s", "configuration": {"a": "1", "spark.b": "2"}})
    changed = spec.with_changes("other:9092", ["a=3", "c=x=y"])
    assert changed.session_configuration() == {"a": "3", "c": "x=y"}
    assert changed.spark_configuration() == {"spark.b": "2", "spark.kavka.bootstrap.servers": "other:9092"}
    with pytest.raises(SpecError, match="--set a is not NAME=VALUE"):
        spec.with_changes(None, ["a"])


def test_files_that_are_no_definitions_are_named(tmp_path: Path) -> None:
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "n", "storage": "s"})
    with pytest.raises(SpecError, match="no definition"):
        spec.files()
    (tmp_path / "transformations" / "below").mkdir(parents=True)
    for name in ("b.sql", "a.py", "below/c.py"):
        (tmp_path / "transformations" / name).touch()
    assert [path.name for path in spec.files()] == ["a.py", "b.sql", "c.py"]
    (tmp_path / "transformations" / "notes.txt").touch()
    with pytest.raises(SpecError, match=r"notes\.txt"):
        spec.files()


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10.0), ("1.5m", 90.0), ("2h", 7200.0), ("10", None), ("", None)]
)
def test_durations_have_a_unit(text: str, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


def test_an_order_is_the_same_after_the_command_line() -> None:
    order = Order("a.yml", "j", "run", "b:1", ("x=1",), every_s=2.5, full_refresh=("t",))
    assert decode_order(encode_order(order)) == order


def test_every_shipped_pipeline_can_be_laid_and_is_read(tmp_path: Path) -> None:
    assert set(describe_examples()) == {path.parent.name for path in EXAMPLES.glob("*/pipeline.yml")}
    for name, what in describe_examples().items():
        assert what.endswith((".", "?")), f"{name} begins with a sentence that says what it does"
        lay(name, tmp_path / name)
        assert read_spec(tmp_path / name).files()
    with pytest.raises(ExampleError, match="not empty"):
        lay("first", tmp_path / "first")
    with pytest.raises(ExampleError, match="no example"):
        lay("no-such", tmp_path / "other")


def test_one_driver_at_a_time_works_on_a_storage(tmp_path: Path) -> None:
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "n", "storage": "s"})
    spec.state.mkdir(parents=True)
    assert not is_running(spec.state)
    with (spec.state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_running(spec.state)
        with pytest.raises(SpecError, match="another run of n is under way"), Runner(spec, Order("p", "", "run")):
            pass
    assert not journals(spec.state), "a run that did not begin leaves no journal"
