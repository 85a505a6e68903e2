"""The pages of settings: all of a topic or a broker, beside those of another one, or beside a file that a team keeps.

Decides what is read for them. Must not know what a setting means (look/setting_rows.py), nor how one is changed
(actions/one_setting.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.client.admin import Admin, ConfigResource, ResourceType
from kavka.console.access.guard import MOST_FIELDS
from kavka.console.access.route_rights import check_topics, rights_of
from kavka.console.actions.action import LONGEST_FIELD
from kavka.console.actions.topics import own_source
from kavka.console.console import absent
from kavka.console.look.setting_rows import (
    LONGEST_FILE,
    Difference,
    SettingRow,
    compared,
    compared_with_file,
    matching,
    row_of,
    settings_of_file,
)
from kavka.console.look.view import cut, links, search
from kavka.console.rights import Role
from kavka.errors import ConfigError, ConnectionFailed

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

PAGE_SIZE: Final = 100
MOST_OFFERED: Final = 500
"""Topics in the list of those to compare with; more can be typed."""


def routes(console: Console) -> list[Route]:
    async def of_topic(request: Request) -> Response:
        return await _of_topic(console, request)

    async def with_file(request: Request) -> Response:
        return await _with_file(console, request)

    async def of_broker(request: Request) -> Response:
        return await _of_broker(console, request)

    topic = "/c/{cluster}/topics/{topic}/settings"
    return [
        Route(topic, of_topic, methods=["GET"]),
        Route(topic, with_file, methods=["POST"]),
        Route("/c/{cluster}/brokers/{broker:int}/settings", of_broker),
    ]


async def _of_topic(console: Console, request: Request) -> Response:
    watch, name = console.cluster(request), request.path_params["topic"]
    _check_topic(watch, name)
    other = request.query_params.get("with", "")
    if other:
        check_topics(request, Role.VIEWER, [other])
        _check_topic(watch, other)
    seen = rights_of(request)
    others = [each for each in watch.snapshot.topics if each != name and seen.on_topic(watch.name, each, Role.VIEWER)]
    rows = await _rows(watch, ConfigResource(ResourceType.TOPIC, name))
    theirs = await _rows(watch, ConfigResource(ResourceType.TOPIC, other)) if other else None
    return _show(console, request, _Whose("topics", name, None, others[:MOST_OFFERED]), rows, theirs)


async def _of_broker(console: Console, request: Request) -> Response:
    watch, broker = console.cluster(request), int(request.path_params["broker"])
    _check_broker(watch, broker)
    other = request.query_params.get("with", "")
    if other:
        if not other.isdecimal() or len(other) > 10:
            raise HTTPException(404, f"{other[:40]!r} is not a broker.")
        _check_broker(watch, int(other))
    others = [str(each.broker_id) for each in watch.snapshot.alive_brokers if each.broker_id != broker]
    rows = await _rows(watch, ConfigResource(ResourceType.BROKER, str(broker)))
    theirs = await _rows(watch, ConfigResource(ResourceType.BROKER, str(int(other)))) if other else None
    return _show(console, request, _Whose("brokers", "", broker, others), rows, theirs)


async def _with_file(console: Console, request: Request) -> Response:
    watch, name = console.cluster(request), request.path_params["topic"]
    _check_topic(watch, name)
    rows = await _rows(watch, ConfigResource(ResourceType.TOPIC, name))
    wanted: dict[str, str] = {}
    text = problem = ""
    differences: list[Difference] = []
    try:
        text = await _file(request)
        wanted = settings_of_file(text)
        differences = compared_with_file(rows, wanted)
    except ConfigError as wrong:
        problem = str(wrong)
    return console.show(
        request,
        "settings_file.html",
        section="topics",
        status_code=400 if problem else 200,
        topic=name,
        text=text,
        problem=problem,
        differences=differences,
        is_same=not problem and all(each.how == "same" for each in differences),
        lines="\n".join(f"{setting}={value}" for setting, value in wanted.items()),
        live=False,
    )


async def _file(request: Request) -> str:
    """What was chosen, else what was typed. Raises ConfigError where it is not a text."""
    async with request.form(max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD) as form:
        chosen, typed = form.get("chosen"), form.get("text", "")
        if isinstance(chosen, UploadFile) and chosen.size:
            try:
                return (await chosen.read(4 * LONGEST_FILE)).decode()
            except UnicodeDecodeError:
                raise ConfigError("the file is not a text in UTF-8") from None
        return typed if isinstance(typed, str) else ""


class _Whose(NamedTuple):
    """A topic or a broker, and with which others it may be compared."""

    section: str
    topic: str
    broker: int | None
    others: list[str]


def _show(
    console: Console, request: Request, whose: _Whose, rows: list[SettingRow], theirs: list[SettingRow] | None
) -> Response:
    wanted, only, other = search(request), request.query_params.get("only", ""), request.query_params.get("with", "")
    differences = compared(rows, theirs) if theirs is not None else []
    is_all = request.query_params.get("all") == "1"
    shown = [each for each in differences if is_all or each.how not in ("same", "hidden")]
    found = matching(rows, wanted, only)
    return console.show(
        request,
        "settings_compared.html" if other else "settings.html",
        **whose._asdict(),
        rows=cut(found, request, size=PAGE_SIZE),
        total=len(rows),
        changed=sum(not row.is_default for row in rows),
        q=wanted,
        only=only,
        other=other,
        differences=cut(shown, request, size=PAGE_SIZE),
        compared_count=len(differences),
        is_all=is_all,
        link=links(request),
        live=False,
    )


async def _rows(watch: ClusterWatch, resource: ConfigResource) -> list[SettingRow]:
    found = await Admin(watch.cluster).describe_configs([resource], include_synonyms=True, include_documentation=True)
    return [row_of(entry, own_source(resource)) for entry in found[resource]]


def _check_topic(watch: ClusterWatch, name: str) -> None:
    if name not in watch.snapshot.topics:
        raise absent(watch, f"There is no topic {name!r} in {watch.name}, or the console has not read it yet.")


def _check_broker(watch: ClusterWatch, broker: int) -> None:
    found = watch.snapshot.brokers.get(broker)
    if found is None:
        raise absent(watch, f"There is no broker {broker} in {watch.name}, and no replica is assigned to one.")
    if not found.is_alive:
        raise ConnectionFailed(f"broker {broker} is dead, and only the broker itself knows its settings")
