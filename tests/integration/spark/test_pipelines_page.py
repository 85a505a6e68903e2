"""The project that docs/pipelines.md shows, with addresses of this test: its tables hold what the topic has, and its
webhook is told of a run that failed and of the next one that did not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.integration.documentation.page import PROJECT, shown
from tests.kit.busy_spark import completed
from tests.kit.http_receiver import HttpReceiver
from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import PipelineProject, problem_of
from tests.kit.ports import free_port
from tests.kit.topic_contents import create, fill

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

ROWS = 10
PAGE = PROJECT / "docs" / "pipelines.md"


def test_the_pages_project_runs_and_its_webhook_is_told(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    create(kavka_broker.bootstrap, "orders", 1)
    fill(kavka_broker.bootstrap, "orders", 0, [b'{"id":%d,"amount":1.5}' % number for number in range(ROWS)])
    with HttpReceiver() as receiver:
        spec = yaml.safe_load(shown(PAGE, "name: orders"))
        spec["kavka"] |= yaml.safe_load(shown(PAGE, "kavka:\n  alerts:"))["kavka"]
        spec["kavka"]["alerts"]["webhook"] = f"{receiver.address}/hook"
        spec["kavka"] |= {"lineage": receiver.address, "metrics": f"127.0.0.1:{free_port()}", "master": "local[2]"}
        files = {
            "pipeline.yml": yaml.safe_dump(spec),
            "transformations/orders.py": shown(PAGE, "# transformations/orders.py"),
            "transformations/daily.sql": shown(PAGE, "-- transformations/daily.sql"),
        }
        project = PipelineProject.of_files(tmp_path / "orders", kavka_broker.bootstrap, files)
        completed(project)
        assert sorted(row["id"] for row in project.rows("orders")) == list(range(ROWS))
        assert project.rows("totals") == [{"orders": ROWS, "amount": 1.5 * ROWS}]
        assert "/hook" not in receiver.paths

        again = ("--from", '{"orders": {"0": 0}}', "--to", '{"orders": {"0": 5}}')  # The stream has read that itself.
        events = project.run("orders", *again, verb="backfill", status=1)
        completed(project)
        told = [body for path, body in zip(receiver.paths, receiver.bodies, strict=True) if path == "/hook"]
        assert [(alert["status"], alert["rule"], alert["pipeline"]) for alert in told] == [
            ("firing", "failed", "orders"),
            ("resolved", "failed", "orders"),
        ]
        keys = {"version", "status", "rule", "pipeline", "key", "severity", "text", "since"}
        assert all(keys <= alert.keys() for alert in told)
        assert problem_of(events)["problem"] in told[0]["text"]
