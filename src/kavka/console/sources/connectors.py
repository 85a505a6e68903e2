"""Connectors: what a Kafka Connect cluster says of its connectors and tasks, and what it is told to do with them.

Decides which of Connect's addresses are asked, what of an answer is taken, and which settings' values are kept back.
Must not know pages.

    GET /connectors?expand=status&expand=info        all of them (KIP-465)
    GET /connectors/NAME/status, GET /connectors/NAME     one
    POST /connectors/NAME/restart?includeTasks=..&onlyFailed=..    (KIP-745)
    POST /connectors/NAME/tasks/N/restart
    PUT /connectors/NAME/pause, resume, stop         (stop: KIP-875)

I1  An answer may be anything: of what is no text, number or list in its place nothing is taken, and all is bounded.
I2  Values of settings that may be secret are shown to nobody, nor lines of traces that quote one. Connect itself gives
    them to whoever asks it.

Source: Kafka Connect's REST interface, as Kafka 3.9 and 4.3 document it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kavka.console.sources.rest_service import RestFailed, RestService, part

MOST_CONNECTORS: Final = 2_000
MOST_TASKS: Final = 1_000
MOST_SETTINGS: Final = 500
LONGEST_TEXT: Final = 500
LONGEST_TRACE: Final = 20_000
RUNNING, FAILED = "RUNNING", "FAILED"
HIDDEN: Final = "***"
_SECRET_NAME: Final = re.compile(
    r"pass|pwd|secret|token|credential|jaas|auth|private|api.?key|access.?key|key\.?store|\bkey$|\.key$|sas",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"://[^/\s@:]*:[^/\s@]*@|(pass(word|wd)?|pwd|secret|token|api_?key|sig)\s*=|-----BEGIN"
    r"|\bbearer\s+[\w.~+/=-]{8}|authorization\s*[:=]",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[\w.-]+:[^}]*\}")
"""Of a ConfigProvider (KIP-297): it names a secret, and is none."""


class Task(NamedTuple):
    number: int
    state: str
    worker: str
    trace: str

    @property
    def cause(self) -> str:
        """Why it has failed, in one line; "" where nothing says it."""
        return cause_of(self.trace)


class Connector(NamedTuple):
    """kind: source, sink, or ''. config: without what may be secret."""

    name: str
    kind: str
    state: str
    worker: str
    trace: str
    tasks: tuple[Task, ...]
    config: Mapping[str, str]

    @property
    def failed_tasks(self) -> int:
        return sum(task.state == FAILED for task in self.tasks)

    @property
    def cause(self) -> str:
        """Why it or the first of its failed tasks has failed, in one line; "" where nothing says it."""
        return cause_of(self.trace) or next((task.cause for task in self.tasks if task.cause), "")

    @property
    def level(self) -> str:
        if self.state == FAILED or self.failed_tasks:
            return "bad"
        return "ok" if self.state == RUNNING else "warn"

    @property
    def topics(self) -> str:
        return self.config.get("topics") or self.config.get("topics.regex") or self.config.get("topic") or ""


_CAUSE: Final = "Caused by: "


class Worker(NamedTuple):
    """Who answered: its version of Kafka, and the id of the Kafka cluster that it works with."""

    version: str
    kafka_cluster_id: str


async def read_worker(service: RestService) -> Worker:
    """Raises RestFailed."""
    found = _object(await service.ask("GET", "/"))
    return Worker(_text(found.get("version")), _text(found.get("kafka_cluster_id")))


async def read_connectors(service: RestService) -> list[Connector]:
    """By name, MOST_CONNECTORS at most. Raises RestFailed."""
    found = await service.ask("GET", "/connectors?expand=status&expand=info")
    if isinstance(found, list):
        raise RestFailed(f"{service.address} is older than Kafka 2.3: it reports only the names of connectors")
    names = sorted(name for name in _object(found) if isinstance(name, str))[:MOST_CONNECTORS]
    return [connector_of(name, _object(found[name])) for name in names]


async def read_connector(service: RestService, name: str) -> Connector:
    """Raises RestFailed, whose status is 404 where there is none."""
    status = await service.ask("GET", f"/connectors/{part(name)}/status")
    info = await service.ask("GET", f"/connectors/{part(name)}")
    return connector_of(name, {"status": status, "info": info})


async def command(service: RestService, name: str, what: str, task: int | None = None) -> None:
    """Of one task restart alone. Raises RestFailed, ValueError."""
    await service.ask(*command_request(name, what, task))


def command_request(name: str, what: str, task: int | None = None) -> tuple[str, str]:
    """Method and path. what: restart, restart-failed, pause, resume, stop. Raises ValueError."""
    where = f"/connectors/{part(name)}"
    match what:
        case "restart" if task is not None:
            return "POST", f"{where}/tasks/{task}/restart"
        case "restart" | "restart-failed":
            only = str(what == "restart-failed").lower()
            return "POST", f"{where}/restart?includeTasks=true&onlyFailed={only}"
        case "pause" | "resume" | "stop":
            return "PUT", f"{where}/{what}"
        case _:
            raise ValueError(f"{what!r} is not an action of a connector")


def cause_of(trace: str) -> str:
    """The line of a Java stack trace that says what was wrong at first: that of the last cause.

    >>> cause_of("a.Stopped: it stopped\\n\\tat a.B\\nCaused by: a.Bad: y\\nCaused by: a.Small: x is too small")
    'a.Small: x is too small'
    """
    lines = trace.splitlines()
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return (causes[-1] if causes else lines[0] if lines else "").strip()[:LONGEST_TEXT]


def shown_settings(config: object) -> dict[str, str]:
    """The settings, by name, with HIDDEN for what may be secret.

    >>> shown_settings({"topics": "orders", "db.password": "x", "url": "jdbc:pg://u:p@db", "p.password": "${f:a:b}"})
    {'db.password': '***', 'p.password': '${f:a:b}', 'topics': 'orders', 'url': '***'}
    """
    return dict(_shown(_object(config)))


def _shown(config: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(filter(lambda each: isinstance(each, str), config))[:MOST_SETTINGS]:
        value = _text(config[name])
        is_reference = _REFERENCE.fullmatch(value) is not None
        if value and not is_reference and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)):
            value = HIDDEN
        yield name[:LONGEST_TEXT], value


def connector_of(name: str, found: Mapping[str, Any]) -> Connector:
    """A connector of {"status": ..., "info": ...}, as Connect answers it or anything else."""
    status, info = _object(found.get("status")), _object(found.get("info"))
    own = _object(status.get("connector"))
    tasks = status.get("tasks")
    return Connector(
        name,
        _text(info.get("type") or status.get("type")),
        _text(own.get("state")) or "UNKNOWN",
        _text(own.get("worker_id")),
        _trace(own),
        tuple(sorted(_tasks(tasks if isinstance(tasks, list) else []))),
        shown_settings(info.get("config")),
    )


def _tasks(found: list[Any]) -> Iterator[Task]:
    for each in map(_object, found[:MOST_TASKS]):
        number = each.get("id")
        if type(number) is int and 0 <= number < 2**31:
            yield Task(number, _text(each.get("state")), _text(each.get("worker_id")), _trace(each))


def _trace(found: Mapping[Any, Any]) -> str:
    """Without the lines that may have a secret: what fails to connect quotes the address, with its password."""
    lines = _text(found.get("trace"), LONGEST_TRACE).split("\n")
    return "\n".join(HIDDEN if _SECRET_VALUE.search(line) else line for line in lines)


def _object(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object, most: int = LONGEST_TEXT) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:most] if isinstance(value, (str, int, float)) else ""
