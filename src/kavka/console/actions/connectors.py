"""What a connector is told to do: restart, restart what failed of it, pause, resume, stop; or restart one task.

Decides what is asked of Kafka Connect and what its preview says. Must not know pages.

Connect answers when it has taken the request down; its workers do it a moment later. So `committed` means that Connect
will do it, and the page of the connector shows whether it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.console.actions.action import (
    Action,
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    quoted,
    text,
    whole,
)
from kavka.console.sources.connectors import Connector, command, command_request, read_connector
from kavka.console.sources.rest_service import RestFailed, RestService, service_at
from kavka.errors import ErrorCode, RequestError
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

RESTART, RESTART_FAILED, PAUSE, RESUME, STOP = "restart", "restart-failed", "pause", "resume", "stop"
COMMANDS: Final = (RESTART, RESTART_FAILED, PAUSE, RESUME, STOP)
_DOES: Final = {
    RESTART: "The connector and all of its tasks are restarted.",
    RESTART_FAILED: "Whatever has failed is restarted: the connector, or some of its tasks.",
    PAUSE: "The connector and its tasks pause. They stay where they are, and keep their resources.",
    RESUME: "The connector and its tasks go on.",
    STOP: "The connector stops: its tasks end. Its settings and offsets stay.",
}
_AFTER: Final = {RESTART: "RUNNING", RESTART_FAILED: "RUNNING", PAUSE: "PAUSED", RESUME: "RUNNING", STOP: "STOPPED"}


class CommandConnector(Action):
    name, title, role, section = "connector", "Tell a connector what to do", "operator", "connect"

    def topics(self, values: Values) -> Sequence[str] | None:
        return None  # A connector may read and write any topic.

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        name = text(values, "connector", "the connector")
        task = Field("task", "", "hidden", values.get("task", ""))
        choices = (RESTART,) if values.get("task") else COMMANDS
        return (
            Field("connector", "", "hidden", name),
            Field("note", "", "note", f"connector {name}" + (f", task {values['task']}" if values.get("task") else "")),
            task,
            Field("what", "What it does", "choice", values.get("what", RESTART), "", choices),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        service, what, task = service_of(watch), _what(values), _task(values)
        found = await _found(service, values)
        warnings = []
        if what in (PAUSE, STOP) and found.topics:
            said = "Nothing moves until somebody resumes this connector: {topics}."
            warnings.append(Warned("warn", Statement(said, {"topics": found.topics})))
        if task is not None:
            chosen = next((each for each in found.tasks if each.number == task), None)
            if chosen is None:
                raise ActionRefused(f"connector {found.name} has no task {task}")
            rows = [Change(f"task {task}", chosen.state, _AFTER[what])]
            said = "One task of the connector is restarted."
        else:
            is_only_failed = what == RESTART_FAILED
            failed = "FAILED"
            rows = [] if is_only_failed and found.state != failed else [Change("connector", found.state, _AFTER[what])]
            rows += [
                Change(f"task {each.number}", each.state, "" if what == STOP else _AFTER[what])
                for each in found.tasks
                if not is_only_failed or each.state == failed
            ]
            said = _DOES[what]
            if not rows:
                raise ActionRefused(f"nothing of connector {found.name} has failed")
        return Preview(
            f"connector {found.name}",
            Statement(said),
            tuple(rows),
            tuple(warnings),
            (_curl(service, found.name, what, task),),
            before="\n".join(f"{each.what}: {each.before}" for each in rows),
            wanted=what if task is None else f"{what} task {task}",
            button="Do it",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        try:
            await command(service_of(watch), values["connector"], _what(values), _task(values))
        except RestFailed as failed:
            if failed.status == 0 or failed.status >= 500:
                raise  # A worker, or a proxy before it, that fails may have passed it on: nobody knows.
            # It refused: it was not done.
            raise RequestError(ErrorCode.INVALID_REQUEST, str(failed)) from failed

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        found = await read_connector(service_of(watch), values["connector"])
        return "\n".join([f"connector: {found.state}", *(f"task {each.number}: {each.state}" for each in found.tasks)])

    def link(self, base: str, values: Values) -> str:
        from urllib.parse import quote

        return f"{base}/connect/{quote(values.get('connector', ''), safe='')}"


def service_of(watch: ClusterWatch) -> RestService:
    """Raises ActionRefused where the cluster's settings name no Kafka Connect."""
    if not watch.settings.connect:
        raise ActionRefused("the settings of this cluster name no Kafka Connect")
    return service_at(watch.settings.connect)


async def _found(service: RestService, values: Values) -> Connector:
    name = text(values, "connector", "the connector")
    try:
        return await read_connector(service, name)
    except ValueError as wrong:
        raise ActionRefused(str(wrong)) from wrong
    except RestFailed as failed:
        if failed.status != 404:
            raise
        raise ActionRefused(f"there is no connector {name[:250]}") from failed


def _what(values: Values) -> str:
    what = values.get("what", "")
    if what not in COMMANDS or (values.get("task") and what != RESTART):
        raise ActionRefused(f"{what[:40]!r} is not an action of a connector")
    return what


def _task(values: Values) -> int | None:
    return whole(values, "task", "the task") if values.get("task") else None


def _curl(service: RestService, name: str, what: str, task: int | None) -> str:
    method, path = command_request(name, what, task)
    return f"curl -X {method} {quoted(service.address + path)}"
