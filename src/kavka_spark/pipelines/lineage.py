"""Lineage: which flow made which table or topic of what, told to an OpenLineage receiver by OpenLineage's client.

Decides which of a run's events become events of OpenLineage. A pipeline's run is a run of a job; each flow's is a run
of a job of its own with the pipeline's as parent. Expectations are assertions about what the flow reads.

I1  A receiver that is slow or away never holds up a run: events wait in a queue with a bound, and a thread sends them.
I2  Every run that was told of as begun is told of as completed, failed or aborted, unless the command is killed.

Source: OpenLineage's object model, facets ParentRun, ErrorMessage, OutputStatistics, DataQualityAssertions.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kavka import __version__
from kavka.installation import install_command
from kavka_spark.pipelines.spec import PipelineSpec, SpecError

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

NAMESPACE: Final = "kavka"
"""Of jobs, unless OPENLINEAGE_NAMESPACE names another."""
PRODUCER: Final = f"https://pypi.org/project/kavka/{__version__}"
MOST_WAITING: Final = 1_000
TIMEOUT_S: Final = 5.0
END_S: Final = 15.0
_DONE: Final = None


class Lineage:
    """From `with` to its end; `take` gets every event of the runner."""

    def __init__(self, spec: PipelineSpec, complain: Callable[[str], None]) -> None:
        """Raises SpecError where OpenLineage's client is not installed."""
        self._spec = spec
        self._complain = complain
        self._has_complained = False
        self._client = _client(spec.own.lineage)
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._send, name="kavka-pipeline-lineage", daemon=True)
        self._run: str | None = None
        self._flows: dict[str, str] = {}
        """The run of each flow that was told of as begun."""
        self._states: dict[str, tuple[str, str]] = {}
        self._figures: dict[str, Mapping[str, Any]] = {}
        self._datasets: dict[str, Mapping[str, Any]] = {}
        self._problem: Mapping[str, Any] = {}

    def __enter__(self) -> Lineage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            self._end(datetime.now(UTC), went_well=False)
        self._put(_DONE)
        self._thread.join(END_S)

    def take(self, event: Mapping[str, Any]) -> None:
        at = datetime.fromtimestamp(event.get("at", 0), UTC)
        match event["event"]:
            case "run began":
                self._begin(at)
            case "datasets":
                self._datasets = {each["flow"]: each for each in event["flows"]}
            case "flow":
                self._on_flow(event["flow"], event["state"], event.get("why", ""), at)
            case "progress":
                self._figures[event["flow"]] = event
            case "problem":
                self._problem = event
            case "run ended" if self._run is not None:
                self._end(at, went_well=event["outcome"] == "completed")

    def _begin(self, at: datetime) -> None:
        from openlineage.client.uuid import generate_new_uuid

        self._run = str(generate_new_uuid())
        self._flows, self._states, self._figures, self._problem = {}, {}, {}, {}
        self._tell("START", at, self._run, self._spec.name)

    def _on_flow(self, flow: str, state: str, why: str, at: datetime) -> None:
        from openlineage.client.uuid import generate_new_uuid

        if self._run is None or flow not in self._datasets:
            return
        self._states[flow] = state, why
        if state in ("starting", "running") and flow not in self._flows:
            self._flows[flow] = str(generate_new_uuid())
            self._tell_flow("START", at, flow)

    def _end(self, at: datetime, *, went_well: bool) -> None:
        for flow in self._flows:
            state, why = self._states[flow]
            if state == "failed" or self._problem.get("flow") == flow:
                self._tell_flow("FAIL", at, flow, why or str(self._problem.get("problem", "")))
            else:
                self._tell_flow("COMPLETE" if went_well or state == "completed" else "ABORT", at, flow)
        assert self._run is not None
        why = "" if went_well else str(self._problem.get("problem", "it ended without a message"))
        self._tell("COMPLETE" if went_well else "FAIL", at, self._run, self._spec.name, why=why)
        self._run = None

    def _tell_flow(self, state: str, at: datetime, flow: str, why: str = "") -> None:
        self._tell(state, at, self._flows[flow], f"{self._spec.name}.{flow}", flow=flow, why=why)

    def _tell(self, state: str, at: datetime, run: str, job: str, *, flow: str = "", why: str = "") -> None:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import RunFacet, error_message_run, job_type_job, parent_run

        facets: dict[str, RunFacet] = {}
        if flow:
            assert self._run is not None
            parent = parent_run.Job(namespace=_namespace(), name=self._spec.name)
            facets["parent"] = parent_run.ParentRunFacet(run=parent_run.Run(runId=self._run), job=parent)
        if why:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=why, programmingLanguage="PYTHON")
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="KAVKA", jobType="FLOW" if flow else "PIPELINE"
        )
        inputs, outputs = self._named(flow) if flow else ([], [])
        self._put(
            RunEvent(
                eventType=RunState[state],
                eventTime=at.isoformat(timespec="milliseconds"),
                run=Run(runId=run, facets=facets),
                job=Job(namespace=_namespace(), name=job, facets={"jobType": kind}),
                producer=PRODUCER,
                inputs=inputs,
                outputs=outputs,
            )
        )

    def _named(self, flow: str) -> tuple[list[InputDataset], list[OutputDataset]]:
        from openlineage.client.event_v2 import InputDataset, OutputDataset
        from openlineage.client.facet_v2 import (
            data_quality_assertions_dataset,
            output_statistics_output_dataset,
        )

        named, figures = self._datasets[flow], self._figures.get(flow, {})
        asserted = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=[
                data_quality_assertions_dataset.Assertion(assertion=each["expectation"], success=not each["broken"])
                for each in figures.get("expectations", ())
            ]
        )
        written = figures.get("rows_out")
        count = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=written)
        return (
            [
                InputDataset(
                    namespace, name, inputFacets={"dataQualityAssertions": asserted} if asserted.assertions else {}
                )
                for namespace, name in named["inputs"]
            ],
            [
                OutputDataset(namespace, name, outputFacets={} if written is None else {"outputStatistics": count})
                for namespace, name in named["outputs"]
            ],
        )

    # -- sending

    def _put(self, event: RunEvent | None) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._say("its receiver is too slow, and events were left out")

    def _send(self) -> None:
        while (event := self._waiting.get()) is not _DONE:
            try:
                self._client.emit(event)
            except Exception as error:  # noqa: BLE001  # whatever the transport raises, the run goes on (I1)
                self._say(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")

    def _say(self, why: str) -> None:
        if not self._has_complained:
            self._complain(f"Lineage was not told: {why}")
        self._has_complained = True


def _namespace() -> str:
    return os.environ.get("OPENLINEAGE_NAMESPACE", NAMESPACE)


def _client(where: str) -> OpenLineageClient:
    try:
        from openlineage.client import OpenLineageClient
    except ModuleNotFoundError:
        raise SpecError("kavka.lineage needs OpenLineage's client", install_command("lineage")) from None
    if where == "client":
        return OpenLineageClient()
    transport = {"type": "http", "url": where, "timeout": TIMEOUT_S, "retry": {"total": 1}}
    return OpenLineageClient(config={"transport": transport})
