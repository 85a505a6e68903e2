"""The tests of Go's clients: franz-go, and kafka-go, which wants its broker at localhost:9092."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.upstream.suite import Outcome, one_broker
from kavka_process import KavkaProcess

HERE: Final = Path(__file__).resolve().parent
TIMEOUT_S: Final = 1_500.0
OFFLINE: Final = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
"""For what was compiled when its sources were laid."""


def franz_go(directory: Path, _against: str) -> list[Outcome]:
    """kgo's tests, with fewer records than the million of its authors' machines."""
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place, KavkaProcess(Path(place) / "data") as broker:
        environment = {"KGO_SEEDS": broker.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
        return go_test(directory, ["-timeout", "20m", "./pkg/kgo"], environment)


def kafka_go(directory: Path, against: str) -> list[Outcome]:
    """With the environment of its authors' own runs against Kafka 3.7."""
    environment = {**OFFLINE, "KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": "3.7.0"}
    settings = {"message.max.bytes": "200000000"}
    with (
        tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place,
        one_broker(against, Path(place), port=9092, settings=settings),
    ):
        return go_test(directory, ["-timeout", "20m", "./..."], environment)


def go_test(directory: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> list[Outcome]:
    """Runs `go test` in a checkout and reads its events."""
    result = subprocess.run(
        ["go", "test", "-json", "-count=1", *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    outcomes: dict[str, Outcome] = {}
    said: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("Test") is None:
            continue
        folder = "/".join(event["Package"].split("/")[3:])
        name = f"{folder}.{event['Test']}" if folder else event["Test"]
        lines = said.setdefault(name, [])
        if event["Action"] == "output":
            lines.append(event["Output"].strip())
        elif event["Action"] in ("pass", "fail", "skip"):
            status = {"pass": "passed", "fail": "failed", "skip": "skipped"}[event["Action"]]
            outcomes[name] = Outcome(name, status, " | ".join(lines[-6:])[:400])
    unfinished = [Outcome(name, "failed", "began and did not end") for name in said if name not in outcomes]
    return [*outcomes.values(), *unfinished]
