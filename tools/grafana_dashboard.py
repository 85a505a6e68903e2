"""Writes grafana/kavka-dashboard.json: python tools/grafana_dashboard.py.

The dashboard is a table of panels here, so that a change of it can be read; its queries name only metrics that brokers
(docs/metrics.md) and the console show, which tests/integration/console/test_grafana_dashboard.py checks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parent.parent / "grafana" / "kavka-dashboard.json"
WIDTH, HEIGHT = 8, 7
COLUMNS = 3
TOPIC = 'topic=~"$topic"'
BROKER = 'instance=~"$broker"'


class Panel(NamedTuple):
    """One plot: title, unit, and queries with their legends."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


def rate(metric: str, labels: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def request_time(part: str) -> tuple[str, str]:
    """The mean time of one part of the requests of an API."""
    metric = f"kafka_network_requestmetrics_{part}timems"
    labels = f'{BROKER},request=~"$request"'
    mean = f"sum(rate({metric}_sum{{{labels}}}[$__rate_interval]))"
    return f"{mean} / sum(rate({metric}_count{{{labels}}}[$__rate_interval]))", part


ROWS: dict[str, tuple[Panel, ...]] = {
    "Health (the console)": (
        Panel("Health score", "none", (('kavka_health_score{cluster=~"$cluster"}', "{{cluster}}"),)),
        Panel(
            "Checks that fail",
            "none",
            (('kavka_health_check_failed{cluster=~"$cluster"} > 0', "{{cluster}} {{check}}"),),
        ),
        Panel("Lag of groups", "none", (('kafka_consumergroup_lag_sum{cluster=~"$cluster"}', "{{consumergroup}}"),)),
        Panel(
            "Lag of groups in time",
            "s",
            (('kafka_consumergroup_lag_seconds{cluster=~"$cluster"}', "{{consumergroup}}"),),
        ),
        Panel(
            "Partitions of the cluster",
            "none",
            (
                ('kavka_cluster_partitions_under_replicated{cluster=~"$cluster"}', "under-replicated"),
                ('kavka_cluster_partitions_under_min_isr{cluster=~"$cluster"}', "below min ISR"),
                ('kavka_cluster_partitions_offline{cluster=~"$cluster"}', "offline"),
            ),
        ),
        Panel("Brokers alive", "none", (('kavka_cluster_brokers_alive{cluster=~"$cluster"}', "{{cluster}}"),)),
    ),
    "Throughput": (
        Panel(
            "Bytes in by topic",
            "Bps",
            ((rate("kafka_server_brokertopicmetrics_bytesinpersec_total", f"{BROKER},{TOPIC}", "topic"), "{{topic}}"),),
        ),
        Panel(
            "Bytes out by topic",
            "Bps",
            (
                (
                    rate("kafka_server_brokertopicmetrics_bytesoutpersec_total", f"{BROKER},{TOPIC}", "topic"),
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Messages in by topic",
            "cps",
            (
                (
                    rate("kafka_server_brokertopicmetrics_messagesinpersec_total", f"{BROKER},{TOPIC}", "topic"),
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Replication out by broker",
            "Bps",
            (
                (
                    rate("kafka_server_brokertopicmetrics_replicationbytesoutpersec_total", BROKER, "instance"),
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Requests by API",
            "reqps",
            ((rate("kafka_network_requestmetrics_requestspersec_total", BROKER, "request"), "{{request}}"),),
        ),
        Panel(
            "Refused partitions of requests",
            "cps",
            (
                (
                    rate("kafka_server_brokertopicmetrics_failedproducerequestspersec_total", BROKER, "instance"),
                    "produce {{instance}}",
                ),
                (
                    rate("kafka_server_brokertopicmetrics_failedfetchrequestspersec_total", BROKER, "instance"),
                    "fetch {{instance}}",
                ),
            ),
        ),
    ),
    "Requests": (
        Panel(
            "Where the time of $request goes (mean)",
            "ms",
            tuple(map(request_time, ("requestqueue", "local", "remote", "responsequeue", "responsesend"))),
        ),
        Panel(
            "99th percentile by API",
            "ms",
            (
                (
                    f'max by (request) (kafka_network_requestmetrics_totaltimems{{{BROKER},quantile="0.99"}})',
                    "{{request}}",
                ),
            ),
        ),
        Panel(
            "Idle",
            "percentunit",
            (
                (
                    f"kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent{{{BROKER}}}",
                    "handlers {{instance}}",
                ),
                (f"kafka_network_socketserver_networkprocessoravgidlepercent{{{BROKER}}}", "network {{instance}}"),
            ),
        ),
        Panel(
            "Queues and purgatories",
            "none",
            (
                (f"kafka_network_requestchannel_requestqueuesize{{{BROKER}}}", "requests {{instance}}"),
                (
                    f"kafka_server_delayedoperationpurgatory_purgatorysize{{{BROKER}}}",
                    "{{delayedoperation}} {{instance}}",
                ),
            ),
        ),
        Panel(
            "Connections",
            "none",
            ((f"kafka_server_socket_server_metrics_connection_count{{{BROKER}}}", "{{instance}}"),),
        ),
    ),
    "Replication and controller": (
        Panel(
            "ISR changes",
            "cps",
            (
                (
                    rate("kafka_server_replicamanager_isrshrinkspersec_total", BROKER, "instance"),
                    "shrinks {{instance}}",
                ),
                (
                    rate("kafka_server_replicamanager_isrexpandspersec_total", BROKER, "instance"),
                    "expands {{instance}}",
                ),
            ),
        ),
        Panel(
            "Partitions that need a look, by broker",
            "none",
            (
                (f"kafka_server_replicamanager_underreplicatedpartitions{{{BROKER}}}", "under-replicated {{instance}}"),
                (f"kafka_server_replicamanager_underminisrpartitioncount{{{BROKER}}}", "below min ISR {{instance}}"),
                (f"kafka_server_replicamanager_offlinereplicacount{{{BROKER}}}", "offline {{instance}}"),
            ),
        ),
        Panel(
            "Controller",
            "none",
            (
                (f"sum(kafka_controller_kafkacontroller_activecontrollercount{{{BROKER}}})", "controllers"),
                (f"sum(kafka_controller_kafkacontroller_offlinepartitionscount{{{BROKER}}})", "offline partitions"),
                (
                    f"sum(kafka_controller_kafkacontroller_preferredreplicaimbalancecount{{{BROKER}}})",
                    "not led by the preferred replica",
                ),
            ),
        ),
        Panel("Leaders", "none", ((f"kafka_server_replicamanager_leadercount{{{BROKER}}}", "{{instance}}"),)),
        Panel("Size of topics", "bytes", ((f"sum by (topic) (kafka_log_log_size{{{BROKER},{TOPIC}}})", "{{topic}}"),)),
        Panel(
            "Log directories offline",
            "none",
            ((f"kafka_log_logmanager_offlinelogdirectorycount{{{BROKER}}}", "{{instance}}"),),
        ),
    ),
}

VARIABLES = {
    "cluster": "label_values(kavka_health_score, cluster)",
    "broker": "label_values(kafka_server_replicamanager_partitioncount, instance)",
    "topic": "label_values(kafka_log_log_size, topic)",
    "request": "label_values(kafka_network_requestmetrics_totaltimems_count, request)",
}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """The whole file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                "panels": [],
            }
        )
        y += 1
        for number, panel in enumerate(row):
            place = {"x": WIDTH * (number % COLUMNS), "y": y + HEIGHT * (number // COLUMNS), "w": WIDTH, "h": HEIGHT}
            panels.append(_panel(len(panels) + 1, panel, place))
        y += HEIGHT * -(-len(row) // COLUMNS)
    return {
        "title": "kavka and Kafka",
        "uid": "kavka",
        "tags": ["kafka", "kavka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(name, query) for name, query in VARIABLES.items())]},
        "panels": panels,
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 8}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
