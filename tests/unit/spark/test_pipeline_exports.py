"""What a pipeline's runs are told of: metrics, a webhook, lineage; with receivers that are slow, angry or away."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kavka.runtime.http.webhooks import NotDelivered, post
from kavka_spark.pipelines.alerts import Alerts, Book
from kavka_spark.pipelines.exports import Exports
from kavka_spark.pipelines.monitor import Condition, Limits, Monitor
from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.runner import Runner
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, parse_spec
from tests.kit.http_receiver import HttpReceiver
from tests.kit.ports import free_port


def _spec(folder: Path, **own: object) -> PipelineSpec:
    return parse_spec(folder / "pipeline.yml", {"name": "shop", "storage": "storage", "kavka": own})


def _event(event: str, at: float = 0.0, **fields: object) -> dict[str, Any]:
    return {"at": at, "event": event, **fields}


def _progress(at: float = 1.0, *, lag: int | None = 0, rows: int = 10, broken: int = 0) -> dict[str, Any]:
    expectations = [{"expectation": "has an id", "otherwise": "drop", "broken": broken}]
    figures = {"rows_in": rows, "rows_out": rows - broken, "lag": lag, "batches": 1, "seconds": 0.5, "checked": rows}
    return _event("progress", at, flow="orders", expectations=expectations, **figures)


def _run(*between: dict[str, Any], outcome: str = "completed") -> list[dict[str, Any]]:
    ended = _event("run ended", 2.0, run=1, outcome=outcome, seconds=2.0)
    return [_event("run began", run=1), *between, ended]


PROBLEM = _event("problem", 1.5, problem="no such column", flow="orders")


# -- the monitor


def test_metrics_of_runs_grow_from_run_to_run() -> None:
    monitor = Monitor("shop", Limits())
    for event in (*_run(_progress(rows=10, broken=2)), *_run(_progress(rows=5, lag=7), PROBLEM, outcome="failed")):
        monitor.take(event)
    text = monitor.metrics()
    for line in (
        'kavka_pipeline_rows_in_total{pipeline="shop",flow="orders"} 15',
        'kavka_pipeline_rows_out_total{pipeline="shop",flow="orders"} 13',
        'kavka_pipeline_lag_records{pipeline="shop",flow="orders"} 7',
        'kavka_pipeline_runs_total{pipeline="shop",outcome="completed"} 1',
        'kavka_pipeline_runs_total{pipeline="shop",outcome="failed"} 1',
        'kavka_pipeline_last_completed_seconds{pipeline="shop"} 2',
        'kavka_pipeline_is_running{pipeline="shop"} 0',
        'kavka_pipeline_broken_expectations_total{pipeline="shop",flow="orders",expectation="has an id",'
        'otherwise="drop"} 2',
    ):
        assert line in text.splitlines(), text


def test_a_failed_run_is_a_condition_until_one_completes() -> None:
    monitor = Monitor("shop", Limits())
    for event in _run(PROBLEM, outcome="failed"):
        monitor.take(event)
    [failed] = monitor.conditions(3.0)
    assert failed == Condition("failed", "shop", "critical", "a run of shop failed: flow orders: no such column")
    assert not monitor.is_over("failed", "shop")
    for event in _run():
        monitor.take(event)
    assert monitor.conditions(3.0) == []
    assert monitor.is_over("failed", "shop")


@pytest.mark.parametrize(
    "events",
    [
        [_event("began"), _event("problem", problem="Spark's driver ended with status 1 and left no message")],
        [_event("began"), _event("run began", run=1), _event("ended", status=1)],
    ],
)
def test_a_driver_that_dies_is_a_failed_run(events: list[dict[str, Any]]) -> None:
    monitor = Monitor("shop", Limits())
    for event in events:
        monitor.take(event)
    assert [each.rule for each in monitor.conditions(1.0)] == ["failed"]


def test_a_driver_that_is_killed_is_a_failed_run_and_no_traceback(tmp_path: Path) -> None:
    """What the runner makes of it had no time, which the monitor asked for: a command ended with a KeyError."""
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "shop", "storage": "s"})
    monitor = Monitor("shop", Limits())
    with Runner(spec, Order(str(tmp_path / "pipeline.yml"), "", "run")) as running:
        running.kill()
        events = [event for event in running.events() if event is not None]
    for event in events:
        monitor.take(event)
    [failed] = monitor.conditions(1.0)
    assert failed.rule == "failed"
    assert "Spark's driver was ended by signal 9 and left no message" in failed.text


def test_a_lag_counts_when_it_has_lasted() -> None:
    monitor = Monitor("shop", Limits(lag=100, lag_for_s=60))
    for at, lag in ((0.0, 50), (10.0, 101), (30.0, 500)):
        monitor.take(_progress(at, lag=lag))
    assert monitor.conditions(69.0) == []
    [behind] = monitor.conditions(70.0)
    assert (behind.rule, behind.key) == ("lag", "orders")
    assert behind.text == "flow orders is 500 records behind, more than 100 for 60 s"
    monitor.take(_progress(80.0, lag=100))
    assert monitor.conditions(200.0) == []
    assert monitor.is_over("lag", "orders")
    assert not monitor.is_over("lag", "unknown")


def test_too_many_broken_rows_are_a_condition_until_a_run_with_fewer() -> None:
    monitor = Monitor("shop", Limits(broken=0.1))
    for event in _run(_progress(rows=10, broken=1)):
        monitor.take(event)
    assert monitor.conditions(3.0) == []
    for event in _run(_progress(rows=10, broken=2)):
        monitor.take(event)
    [broken] = monitor.conditions(3.0)
    assert broken.text == "2 of 10 rows of flow orders broke 'has an id' (drop)"
    for event in _run(_progress(rows=0)):
        monitor.take(event)
    assert monitor.conditions(3.0) == [broken], "a run without rows says nothing"
    for event in _run(_progress(rows=10)):
        monitor.take(event)
    assert monitor.conditions(3.0) == []
    assert monitor.is_over("broken", broken.key)


# -- the book, and the webhook

FAILED = Condition("failed", "shop", "critical", "a run of shop failed: why")
LAG = Condition("lag", "orders", "warning", "orders is 900 records behind")


def test_a_condition_is_told_once_and_once_that_it_is_over_also_by_another_command(tmp_path: Path) -> None:
    def told(book: Book, conditions: list[Condition], *, is_over: bool) -> list[str]:
        due = book.update(conditions, 1_700_000_000.0, is_over=lambda rule, key: is_over)
        for each in due:
            book.delivered(each)
        book.save()
        return [each["status"] for each in due]

    path = tmp_path / "alerts.json"
    assert told(Book(path, "shop"), [FAILED], is_over=False) == ["firing"]
    assert told(Book(path, "shop"), [], is_over=False) == [], "the next command knows nothing yet"
    assert told(Book(path, "shop"), [FAILED], is_over=False) == []
    assert told(Book(path, "shop"), [], is_over=True) == ["resolved"]
    assert told(Book(path, "shop"), [], is_over=True) == []


def test_what_was_not_delivered_is_due_again_and_what_was_never_told_is_not_over(tmp_path: Path) -> None:
    book = Book(tmp_path / "alerts.json", "shop")
    for _ in range(2):
        assert len(book.update([FAILED], 1.0, is_over=lambda rule, key: False)) == 1
    assert book.update([], 2.0, is_over=lambda rule, key: True) == []
    (tmp_path / "alerts.json").write_text('{"torn')
    assert Book(tmp_path / "alerts.json", "shop").update([], 3.0, is_over=lambda rule, key: True) == []


def test_a_webhook_gets_the_alert_and_one_that_refuses_is_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    with HttpReceiver(503, 302) as receiver:
        book = Book(tmp_path / "alerts.json", "shop")
        alerts = Alerts(book, receiver.address, lambda: ([FAILED], lambda rule, key: False), said.append)
        for _ in range(4):
            alerts.look()
        [body] = receiver.bodies
    assert {name: body[name] for name in ("version", "status", "rule", "pipeline", "key", "severity", "text")} == {
        "version": 1,
        "status": "firing",
        "rule": "failed",
        "pipeline": "shop",
        "key": "shop",
        "severity": "critical",
        "text": FAILED.text,
    }
    assert said == [f"The webhook was not told of '{FAILED.text}': it answered 503. It is tried again."]
    with pytest.raises(NotDelivered, match="refused"):
        post(f"http://127.0.0.1:{free_port()}/", {})


def test_an_alert_that_a_webhook_refuses_holds_up_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    with HttpReceiver(400) as receiver:
        book = Book(tmp_path / "alerts.json", "shop")
        alerts = Alerts(book, receiver.address, lambda: ([FAILED, LAG], lambda rule, key: False), said.append)
        alerts.look()
        assert [body["rule"] for body in receiver.bodies] == ["lag"]
        alerts.look()
        assert [body["rule"] for body in receiver.bodies] == ["lag", "failed"]
    assert said == [f"The webhook was not told of '{FAILED.text}': it answered 400. It is tried again."]


def test_alerts_go_on_without_a_book_and_past_one_that_is_damaged(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "state").write_text("a file where a folder should be")
    with HttpReceiver() as receiver:
        book = Book(tmp_path / "state" / "alerts.json", "shop")
        alerts = Alerts(book, receiver.address, lambda: ([FAILED], lambda rule, key: False), said.append)
        alerts.look()
        alerts.look()
        assert len(receiver.bodies) == 1
    assert len(said) == 1
    assert "cannot be written: " in said[0]

    damaged = tmp_path / "alerts.json"
    entry = {"rule": "failed", "key": "shop", "since": "soon", "told": False, "severity": "critical", "text": "x"}
    damaged.write_text(json.dumps({"failed shop": entry | {"over": True}}))
    assert Book(damaged, "shop").update([], 3.0, is_over=lambda rule, key: True) == []


# -- all of it, as a command starts it


def test_a_run_is_told_to_prometheus_and_to_the_webhook_and_the_next_one_says_that_it_is_over(tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        spec = _spec(tmp_path, metrics="127.0.0.1:0", alerts={"webhook": f"{receiver.address}/hook"})
        with Exports(spec, pytest.fail) as exports:
            for event in _run(_progress(), PROBLEM, outcome="failed"):
                exports.take(event)
            with urllib.request.urlopen(f"http://{exports.address}/metrics", timeout=30) as answer:
                text = answer.read().decode()
        with Exports(spec, pytest.fail) as exports:
            for event in _run(_progress()):
                exports.take(event)
        assert [(body["status"], body["rule"]) for body in receiver.bodies] == [
            ("firing", "failed"),
            ("resolved", "failed"),
        ]
        assert receiver.paths == ["/hook", "/hook"]
    assert 'kavka_pipeline_runs_total{pipeline="shop",outcome="failed"} 1' in text


def test_a_file_for_prometheus_is_written_at_the_end_and_a_folder_that_is_not_there_is_said_once(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    with Exports(_spec(tmp_path, metrics="./shop.prom"), pytest.fail) as exports:
        exports.take(_event("run began", run=1))
    assert 'kavka_pipeline_is_running{pipeline="shop"} 1' in (tmp_path / "shop.prom").read_text()
    with Exports(_spec(tmp_path, metrics="./none/shop.prom"), said.append) as exports:
        exports.take(None)
    assert said == [f"{tmp_path}/none/shop.prom cannot be written: No such file or directory"]


def test_a_port_that_is_taken_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with HttpReceiver() as other:
        address = other.address.removeprefix("http://")
        with pytest.raises(SpecError, match=r"kavka.metrics .* cannot be listened on"):
            Exports(_spec(tmp_path, metrics=address), pytest.fail).__enter__()


# -- lineage

DATASETS = _event(
    "datasets", flows=[{"flow": "orders", "inputs": [["kafka://k:9092", "orders"]], "outputs": [["file", "/w/orders"]]}]
)


def _flow(state: str, why: str = "") -> dict[str, Any]:
    return _event("flow", flow="orders", state=state, why=why)


def test_lineage_has_runs_flows_datasets_counts_and_expectations(tmp_path: Path) -> None:
    pytest.importorskip("openlineage.client")
    events = _run(DATASETS, _flow("starting"), _flow("running"), _progress(rows=10, broken=2), _flow("completed"))
    with HttpReceiver() as receiver, Exports(_spec(tmp_path, lineage=receiver.address), pytest.fail) as exports:
        for event in events:
            exports.take(event)
        told = receiver.wait(lambda bodies: len(bodies) == 4)
    assert set(receiver.paths) == {"/api/v1/lineage"}
    assert [(each["eventType"], each["job"]["name"]) for each in told] == [
        ("START", "shop"),
        ("START", "shop.orders"),
        ("COMPLETE", "shop.orders"),
        ("COMPLETE", "shop"),
    ]
    assert told[1]["run"]["runId"] == told[2]["run"]["runId"] != told[0]["run"]["runId"] == told[3]["run"]["runId"]
    assert told[2]["run"]["facets"]["parent"]["run"]["runId"] == told[0]["run"]["runId"]
    [read], [written] = told[2]["inputs"], told[2]["outputs"]
    assert (read["namespace"], read["name"]) == ("kafka://k:9092", "orders")
    [assertion] = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["assertion"], assertion["success"]) == ("has an id", False)
    assert (written["namespace"], written["name"]) == ("file", "/w/orders")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 8


def test_lineage_of_a_flow_that_fails_has_the_reason_and_a_command_that_ends_aborts_no_run_silently(
    tmp_path: Path,
) -> None:
    pytest.importorskip("openlineage.client")
    with HttpReceiver() as receiver:
        with Exports(_spec(tmp_path, lineage=receiver.address), pytest.fail) as exports:
            for event in _run(DATASETS, _flow("running"), _flow("failed", "no such column"), outcome="failed"):
                exports.take(event)
            for event in (_event("run began", run=2), DATASETS, _flow("running")):
                exports.take(event)
        told = receiver.bodies
    ended = [each for each in told if each["eventType"] != "START"]
    assert [(each["eventType"], each["job"]["name"]) for each in ended] == [
        ("FAIL", "shop.orders"),
        ("FAIL", "shop"),
        ("ABORT", "shop.orders"),
        ("FAIL", "shop"),
    ]
    assert ended[0]["run"]["facets"]["errorMessage"]["message"] == "no such column"


def test_a_receiver_that_is_away_is_said_once_and_holds_up_nothing(tmp_path: Path) -> None:
    pytest.importorskip("openlineage.client")
    said: list[str] = []
    with Exports(_spec(tmp_path, lineage=f"http://127.0.0.1:{free_port()}"), said.append) as exports:
        for event in (*_run(), *_run()):
            exports.take(event)
    assert len(said) == 1
    assert said[0].startswith("Lineage was not told: ")
