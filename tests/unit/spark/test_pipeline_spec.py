"""pipeline.yml: what it means, what is refused, and how that is said."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from kavka_spark.pipelines.journal import journals
from kavka_spark.pipelines.monitor import Limits
from kavka_spark.pipelines.order import Order, decode_order, encode_order
from kavka_spark.pipelines.runner import Runner, is_running
from kavka_spark.pipelines.shipped import EXAMPLES, ExampleError, describe_examples, lay
from kavka_spark.pipelines.spec import SpecError, parse_seconds, parse_spec, read_spec, storage_uri

FILE = Path("/pipelines/orders/pipeline.yml")


def test_a_relative_storage_is_beside_the_file_and_a_uri_stays() -> None:
    assert storage_uri(Path("/pipelines/orders"), "storage") == "file:///pipelines/orders/storage"
    assert storage_uri(Path("/pipelines"), "s3a://bucket/orders") == "s3a://bucket/orders"
    assert storage_uri(Path("/home/jürgen"), "a+b@c,d") == "file:///home/jürgen/a+b@c,d"  # Hadoop knows no escapes.


@pytest.mark.parametrize("storage", ["my storage", "a%20b", "a[1]", "{a}", "a#b", "a?b", "s3a://bucket/my orders"])
def test_a_storage_is_refused_that_spark_would_write_otherwise_in_each_place(storage: str) -> None:
    """A full refresh would not find the checkpoint, and leave a table without rows."""
    with pytest.raises(SpecError, match="Spark does not find again what it stores below a path with"):
        parse_spec(FILE, {"name": "orders", "storage": storage})


def test_own_settings_have_units_and_defaults() -> None:
    spec = parse_spec(FILE, {"name": "orders", "storage": "storage", "kavka": {"every": "2m", "trigger": "250ms"}})
    assert (spec.own.every_s, spec.own.trigger_s, spec.own.refresh_s) == (120.0, 0.25, 30.0)
    assert spec.state == Path("/pipelines/orders/storage/_kavka")
    assert parse_spec(FILE, {"name": "orders", "storage": "s3a://bucket/orders"}).state == FILE.parent / ".kavka-orders"


def _alerts(**fields: object) -> dict[str, object]:
    return {"name": "n", "storage": "s", "kavka": {"alerts": {"webhook": "http://h/", **fields}}}


def test_alerts_metrics_and_lineage_are_none_unless_they_are_asked_for() -> None:
    own = parse_spec(FILE, {"name": "n", "storage": "s"}).own
    assert (own.metrics, own.webhook, own.lineage, own.limits) == ("", "", "", Limits())
    own = parse_spec(FILE, _alerts(lag=1000, broken="1%", **{"for": "1m"})).own
    assert (own.webhook, own.limits) == ("http://h/", Limits(1000, 60.0, 0.01))
    fields = {"metrics": "metrics/orders.prom", "lineage": True}
    own = parse_spec(FILE, {"name": "n", "storage": "s", "kavka": fields}).own
    assert (own.metrics, own.lineage) == ("/pipelines/orders/metrics/orders.prom", "client")


PLAIN = """
name: orders
storage: file:///pipelines/orders/storage
libraries: [{glob: {include: transformations/**}}]
configuration: {spark.kavka.bootstrap.servers: "kafka:9092"}
"""


def test_kavkas_settings_may_stand_in_a_file_of_their_own_beside_a_spec_that_spark_takes(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(PLAIN)
    assert read_spec(tmp_path).own.bootstrap == "kafka:9092", "what plain spark-pipelines has definitions find"
    (tmp_path / "kavka.yml").write_text("every: 1m\n")
    spec = read_spec(tmp_path)
    assert (spec.own.every_s, spec.own.bootstrap) == (60.0, "kafka:9092")
    assert spec.spark_configuration()["spark.kavka.bootstrap.servers"] == "kafka:9092"
    (tmp_path / "kavka.yml").write_text("bootstrap: other:9092\n")
    assert read_spec(tmp_path).spark_configuration()["spark.kavka.bootstrap.servers"] == "other:9092"
    assert read_spec(tmp_path).with_changes("third:9092", []).own.bootstrap == "third:9092"
    (tmp_path / "spark-pipeline.yml").write_text(f"{PLAIN}\nkavka: {{every: 2m}}\n")
    with pytest.raises(SpecError, match=r"has a key kavka, and kavka.yml is beside it"):
        read_spec(tmp_path)


def test_a_spec_beside_kavka_yml_is_one_that_sparks_own_command_reads(tmp_path: Path) -> None:
    from pyspark.pipelines.cli import load_pipeline_spec

    (tmp_path / "spark-pipeline.yml").write_text(PLAIN)
    (tmp_path / "kavka.yml").write_text("every: 1m\n")
    theirs, ours = load_pipeline_spec(tmp_path / "spark-pipeline.yml"), read_spec(tmp_path)
    assert (theirs.name, theirs.storage, dict(theirs.configuration)) == (ours.name, ours.storage, ours.configuration)


def _include(glob: str) -> dict[str, object]:
    return {"name": "n", "storage": "s", "libraries": [{"glob": {"include": glob}}]}


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
        (_include("/etc"), "'/etc' is no path from", "transformations/**"),
        (_include("/srv/**"), "'/srv/**' is no path from", "transformations/**"),
        (_include(""), "'' is no path from", "transformations/**"),
        (_include("/**"), "'/**' is no path from", "transformations/**"),
        ({"name": "n", "storage": "s", "kavka": {"bootstrap": None}}, "kavka.bootstrap is empty", "HOST:PORT"),
        ({"name": "n", "storage": "s", "kavka": {"bootstrap": ["a"]}}, "kavka.bootstrap is ['a']", "HOST:PORT,HOST"),
        ({"name": "n", "storage": "s", "kavka": {"master": 4}}, "kavka.master is 4", 'master: "local[*]"'),
        ({"name": "n", "storage": "s", "kavka": {"metrics": "9405"}}, "kavka.metrics is 9405", "HOST:PORT"),
        ({"name": "n", "storage": "s", "kavka": {"lineage": "here"}}, "kavka.lineage is here", "http://"),
        ({"name": "n", "storage": "s", "kavka": {"alerts": {"lag": 5}}}, "kavka.alerts names no webhook", "webhook"),
        (_alerts(lag="many"), "kavka.alerts.lag is many", "a number of records"),
        (_alerts(**{"for": "5m"}), "kavka.alerts.for is about a lag", "lag"),
        (_alerts(lag=5, **{"for": "soon"}), "kavka.alerts.for is soon", "5m"),
        (_alerts(broken="120%"), "kavka.alerts.broken is 120%", "1%"),
        (_alerts(brokn="1%"), "unknown key kavka.alerts.brokn", "kavka.alerts.broken"),
        ([], "does not hold keys and values", "name"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(fields: object, problem: str, next_step: str) -> None:
    with pytest.raises(SpecError, match=r"pipeline\.yml") as refused:
        parse_spec(FILE, fields)
    assert problem in str(refused.value)
    assert next_step in refused.value.next_step


def test_definitions_may_be_beside_the_folder_and_a_folder_is_none(tmp_path: Path) -> None:
    """A folder was passed over without a word, and one beside the pipeline counted as hidden."""
    (tmp_path / "common").mkdir()
    (tmp_path / "orders").mkdir()
    (tmp_path / "common" / "a.sql").write_text("CREATE STREAMING TABLE a;")
    spec = "name: n\nstorage: s\nlibraries: [{glob: {include: %s}}]\n"
    (tmp_path / "orders" / "pipeline.yml").write_text(spec % "../common/**")
    assert [file.resolve() for file in read_spec(tmp_path / "orders").files()] == [tmp_path / "common" / "a.sql"]
    (tmp_path / "orders" / "pipeline.yml").write_text(spec % "../common")
    with pytest.raises(SpecError, match=r"\.\./common is a folder") as refused:
        read_spec(tmp_path / "orders")
    assert "write ../common/**" in refused.value.next_step


def test_a_folder_that_kubernetes_mounts_has_each_definition_once(tmp_path: Path) -> None:
    mounted = tmp_path / "transformations"
    (mounted / "..2026_11_26").mkdir(parents=True)
    (mounted / "..2026_11_26" / "a.sql").write_text("CREATE STREAMING TABLE a;")
    (mounted / "..data").symlink_to("..2026_11_26")
    (mounted / "a.sql").symlink_to("..data/a.sql")
    (tmp_path / "pipeline.yml").write_text("name: n\nstorage: s\n")
    assert read_spec(tmp_path).files() == [mounted / "a.sql"]


def test_broken_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: orders\nstorage: [\n")
    with pytest.raises(SpecError, match="line 3"):
        read_spec(tmp_path)


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (b"name: caf\xe9\nstorage: s\n", "is not text in UTF-8"),
        (b"name: 2021-13-45\nstorage: s\n", "is not valid YAML: month must be in 1..12"),
        (b"name: n\nstorage: " + b"[" * 10_000, "is not valid YAML"),
        (b"name: n\nstorage: 's3a://[/x'\n", "storage is s3a://[/x"),
        (b"name: n\nstorage: s\ncatalog: [a]\n", "catalog is ['a']"),
        (b"name: n\nstorage: s\ndatabase: 5\n", "database is 5"),
    ],
    ids=["latin-1", "a date", "nested too deeply", "a broken address", "a list", "a number"],
)
def test_a_file_that_cannot_be_a_spec_is_told_in_a_sentence(tmp_path: Path, contents: bytes, problem: str) -> None:
    (tmp_path / "pipeline.yml").write_bytes(contents)
    with pytest.raises(SpecError, match=r"pipeline\.yml") as refused:
        read_spec(tmp_path)
    assert problem in str(refused.value)


def test_a_storage_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file")
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "n", "storage": "s"})
    with (
        pytest.raises(SpecError, match="s/_kavka cannot be written: Not a directory"),
        Runner(spec, Order("p", "", "run")),
    ):
        pass
    assert not is_running(spec.state)


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
