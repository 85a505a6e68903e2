"""The Grafana dashboard asks for metrics that brokers and console really show."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tools import grafana_dashboard

from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port

pytest.importorskip("starlette")

from tests.kit.console_process import ConsoleProcess

METRIC = re.compile(r"\b((?:kafka|kavka)_[a-z_0-9]+)(?:\{([^}]*)\})?")
GIVEN_BY_PROMETHEUS = {"instance", "job"}


def expressions(part: Any) -> Iterator[str]:
    """Every query of the dashboard's file, of its panels and of its variables."""
    if isinstance(part, dict):
        yield from (part[key] for key in ("expr", "query", "definition") if isinstance(part.get(key), str))
        for value in part.values():
            yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


def asked_metrics() -> set[tuple[str, str]]:
    """Metrics, each with a label that a query selects, sums or lists it by; '' for itself."""
    asked = set()
    for query in expressions(json.loads(grafana_dashboard.FILE.read_text(encoding="utf-8"))):
        grouped = [label for labels in re.findall(r"by \(([^)]*)\)", query) for label in labels.split(",")]
        grouped += re.findall(r"label_values\([^,]+, (\w+)\)", query)
        for name, selected in METRIC.findall(query):
            labels = {label.strip() for label in (*re.findall(r"(\w+)=", selected), *grouped)}
            asked |= {(name, label) for label in {"", *labels} - GIVEN_BY_PROMETHEUS}
    assert len({name for name, _label in asked}) > 30
    return asked


def values(port: int) -> dict[str, float]:
    """Each line's number by what stands before it."""
    lines = (line.rpartition(" ") for line in text_of(port).splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def shown_metrics(port: int) -> set[tuple[str, str]]:
    shown = set()
    for line in text_of(port).splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            shown |= {(name, label) for label in ("", *re.findall(r'(\w+)="', labels))}
    return shown


def text_of(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_the_file_is_what_its_table_makes() -> None:
    assert grafana_dashboard.FILE.read_text(encoding="utf-8") == grafana_dashboard.text(), (
        "run python tools/grafana_dashboard.py"
    )


def test_every_metric_that_it_asks_for_is_shown(tmp_path: Path) -> None:
    metrics_port = free_port()
    with KavkaProcess(tmp_path / "broker", settings={"kavka.metrics.port": str(metrics_port)}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", b"value")
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + 60
        while consumer.poll(0.5) is None:
            assert time.monotonic() < deadline
        consumer.commit(asynchronous=False)
        settings = f'poll_ms = 300\n[[cluster]]\nname = "live"\nbootstrap = "{broker.bootstrap}"\n'
        with ConsoleProcess(settings, tmp_path / "console") as console:
            missing, deadline = asked_metrics(), time.monotonic() + 60
            while missing and time.monotonic() < deadline:
                missing = asked_metrics() - shown_metrics(metrics_port) - shown_metrics(console.port)
                time.sleep(0.2)
            assert not missing
        counted = values(metrics_port)
        of_topic = 'kafka_server_brokertopicmetrics_{}persec_total{{topic="orders"}}'
        assert counted[of_topic.format("messagesin")] == 1
        assert counted[of_topic.format("bytesin")] == counted[of_topic.format("bytesout")] > 0
        assert counted[of_topic.format("replicationbytesout")] == 0
        assert counted[of_topic.format("failedproducerequests")] == 0
        assert counted['kafka_log_log_logendoffset{topic="orders",partition="0"}'] == 1
        assert 0 <= counted["kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"] <= 1
        consumer.close()
