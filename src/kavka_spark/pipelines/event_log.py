"""EventLog: Spark's event log, followed while it is written, as figures of each flow.

A run of SDP starts its queries in sessions of its own, where no listener of ours hears them; the event log has all. It
is written into a folder of its own and read at once; what was read is deleted, so that a pipeline that is watched for
weeks does not fill a disk (I2).

I1  A line counts once. Torn lines wait for their rest.
I2  Of the log's files only the one that is written to is left.

Which task belongs to which flow: a query's jobs carry its id; a materialized view is written by the execution that
saves the table, whose plan names it, and its jobs carry that execution's id.

Source: Spark 4.3's SparkListenerEvent as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kavka_spark.pipelines.progress import USUAL_HOME, Figures, defined_name

_PREFIX: Final = "org.apache.spark.sql."
_QUERY: Final = f"{_PREFIX}streaming.StreamingQueryListener$Query"
_SAVED_TABLE: Final = re.compile(r"SaveAsV1TableCommand\s+Arguments: (`[^,]*`),")
MAX_FILE: Final = "16m"


def settings(folder: Path) -> dict[str, str]:
    """Settings with which Spark writes the log that is followed."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": MAX_FILE,
    }


class EventLog:
    """Follows the log below `folder`. `take` reads on; `figures` has the sums since `begin_run`."""

    def __init__(self, folder: Path, home: tuple[str, str] = USUAL_HOME) -> None:
        self._folder = folder
        self._home = home
        self._number = 1
        self._position = 0
        self._names: dict[str, str] = {}
        """Flows by the id of their query."""
        self._views: dict[str, str] = {}
        """Flows by the id of the execution that writes their table."""
        self._stages: dict[int, str] = {}
        """Whose stage it is."""
        self._running: set[str] = set()
        self.figures: dict[str, Figures] = {}
        self.failures: dict[str, str] = {}

    def begin_run(self) -> None:
        """Starts new figures."""
        self.take()
        self.figures.clear()
        self.failures.clear()
        self._stages.clear()
        self._views.clear()

    @property
    def is_settled(self) -> bool:
        """Whether every query that started was reported as ended."""
        return not self._running

    def take(self) -> set[str]:
        """Reads what is new. Returns the flows that it was about."""
        told: set[str] = set()
        while True:
            path = self._file(self._number)
            if path is None:
                return told
            told |= self._read(path)
            if self._file(self._number + 1) is None:
                return told
            told |= self._read(path)  # The rest of it: it is written to no more.
            path.unlink(missing_ok=True)
            self._number, self._position = self._number + 1, 0

    def _file(self, number: int) -> Path | None:
        return next(iter(self._folder.glob(f"eventlog_v2_*/events_{number}_*")), None)

    def _read(self, path: Path) -> set[str]:
        with path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        told = {self._on_event(json.loads(line)) for line in whole.splitlines() if line}
        return {flow for flow in told if flow}

    def _on_event(self, event: Mapping[str, Any]) -> str:
        match event["Event"]:
            case "SparkListenerJobStart":
                self._on_job(event)
            case "SparkListenerTaskEnd":
                return self._on_task(event)
            case name if name == f"{_PREFIX}execution.ui.SparkListenerSQLExecutionStart":
                saved = _SAVED_TABLE.search(event["physicalPlanDescription"])
                if saved is not None:
                    flow = defined_name(saved[1], self._home)
                    self._views[str(event["executionId"])] = flow
                    self._of(flow)
            case name if name == f"{_QUERY}StartedEvent":
                return self._on_query(event)
            case name if name == f"{_QUERY}ProgressEvent":
                progress = event["progress"]
                flow = self._names.get(progress["id"], defined_name(progress["name"] or progress["id"], self._home))
                self._of(flow).add_batch(progress)
                return flow
            case name if name == f"{_QUERY}TerminatedEvent":
                return self._on_end(event)
        return ""

    def _on_query(self, event: Mapping[str, Any]) -> str:
        flow = defined_name(event["name"] or event["id"], self._home)
        self._names[event["id"]] = flow
        self._running.add(event["runId"])
        self._of(flow)
        return flow

    def _on_end(self, event: Mapping[str, Any]) -> str:
        self._running.discard(event["runId"])
        flow = self._names.get(event["id"], "")
        if flow and event.get("exception"):
            self.failures[flow] = event["exception"]
        return flow

    def _on_job(self, event: Mapping[str, Any]) -> None:
        properties = event.get("Properties", {})
        query = properties.get("sql.streaming.queryId")
        flow = self._names.get(query) if query else self._views.get(properties.get("spark.sql.execution.root.id", ""))
        if flow is not None:
            self._stages.update(dict.fromkeys(event["Stage IDs"], flow))

    def _on_task(self, event: Mapping[str, Any]) -> str:
        flow = self._stages.get(event["Stage ID"], "")
        metrics = event.get("Task Metrics")
        if not flow or metrics is None or event.get("Task End Reason", {}).get("Reason") != "Success":
            return ""
        written = int(metrics["Output Metrics"]["Records Written"])
        if written:
            self._of(flow).add_written(written)
        if flow in self._views.values():
            self._of(flow).rows_in += int(metrics["Input Metrics"]["Records Read"])
            self._of(flow).seconds += int(metrics["Executor Run Time"]) / 1000
        return flow

    def _of(self, flow: str) -> Figures:
        return self.figures.setdefault(flow, Figures(flow))
