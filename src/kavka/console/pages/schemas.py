"""The pages of a schema registry: all subjects, and one with its versions, their difference, and a schema to check.

Decides what is shown of them, and what is said where there is no registry. Must not know how a registry is asked
(sources/subjects.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.look.format import visible
from kavka.console.look.view import cut, judged, links, number, search
from kavka.console.pages.actions import form_values
from kavka.console.sources.rest_service import RestFailed, RestService, service_at
from kavka.console.sources.subjects import (
    KINDS,
    Level,
    Verdict,
    Version,
    check,
    difference,
    read_level,
    read_subjects,
    read_version,
    read_versions,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

SHOWN = 25
LONGEST_SCHEMA = 1_000_000


class SubjectRow(NamedTuple):
    """versions: None where the registry did not say them."""

    name: str
    versions: list[int] | None
    level: Level | None


def routes(console: Console) -> list[Route]:
    async def subjects(request: Request) -> Response:
        return await _subjects(console, request)

    async def subject(request: Request) -> Response:
        return await _subject(console, request)

    async def checked(request: Request) -> Response:
        values = await form_values(request)
        kind, text = values.get("kind", ""), values.get("schema", "")
        if kind not in KINDS:
            raise HTTPException(400, f"A schema is one of {', '.join(KINDS)}.")
        if not text.strip() or len(text) > LONGEST_SCHEMA:
            raise HTTPException(400, f"A schema to check has 1 to {LONGEST_SCHEMA:,} characters.")
        return await _subject(console, request, kind=kind, text=text)

    path = "/c/{cluster}/schemas"
    return [
        Route(path, subjects, methods=["GET"]),
        Route(f"{path}/{{subject:path}}", subject, methods=["GET"]),
        Route(f"{path}/{{subject:path}}", checked, methods=["POST"]),
    ]


async def _subjects(console: Console, request: Request) -> Response:
    watch, wanted = console.cluster(request), search(request)
    names: list[str] = []
    level, problem, address, told = Level("", is_own=True), "", "", {}
    if watch.settings.schema_registry:
        service = service_at(watch.settings.schema_registry)
        address = service.address
        try:
            level = await read_level(service)
            names = await read_subjects(service)
        except RestFailed as failed:
            problem = str(failed)
    page = cut([name for name in names if wanted.lower() in name.lower()], request, size=SHOWN)
    if page.items:
        rows = await asyncio.gather(*(_row(service, name) for name in page.items))
        told = {row.name: row for row in rows}
    return console.show(
        request,
        "schemas.html",
        section="schemas",
        subjects=judged(page, lambda name: told[name]),
        total=len(names),
        level=level,
        address=address,
        problem=visible(problem),
        q=wanted,
        link=links(request),
        live=False,
    )


async def _row(service: RestService, name: str) -> SubjectRow:
    try:
        return SubjectRow(name, await read_versions(service, name), await read_level(service, name))
    except (RestFailed, ValueError):
        return SubjectRow(name, None, None)


class _Subject(NamedTuple):
    """What a registry has of a subject: the version that is shown, and the one to compare it with, if any."""

    versions: list[int]
    shown: Version
    compared: Version | None
    level: Level


async def _read_subject(service: RestService, name: str, request: Request) -> _Subject:
    """Raises HTTPException where there is no such subject or version, and RestFailed."""
    try:
        versions = await read_versions(service, name)
        if not versions:
            raise HTTPException(404, f"There is no subject {name!r}.")
        chosen = number(request, "version", versions[-1])
        if chosen not in versions:
            raise HTTPException(404, f"Subject {name!r} has no version {chosen}.")
        other = number(request, "with", 0)
        shown = await read_version(service, name, chosen)
        compared = await read_version(service, name, other) if other in versions and other != chosen else None
        return _Subject(versions, shown, compared, await read_level(service, name))
    except ValueError as wrong:
        raise HTTPException(404, f"There is no subject {name!r}.") from wrong
    except RestFailed as failed:
        if failed.status == 404:
            raise HTTPException(404, f"There is no subject {name!r}.") from failed
        raise


async def _subject(console: Console, request: Request, *, kind: str = "", text: str = "") -> Response:
    watch, name = console.cluster(request), request.path_params["subject"]
    if not watch.settings.schema_registry:
        raise HTTPException(404, f"There is no subject {name!r}: the settings name no schema registry.")
    service = service_at(watch.settings.schema_registry)
    found = await _read_subject(service, name, request)
    shown, compared = found.shown, found.compared
    verdict: Verdict | None = None
    problem = ""
    if text:
        try:
            verdict = await check(service, name, kind, text)
        except RestFailed as failed:
            problem = str(failed)
    lines = None
    if compared is not None:
        lines = await asyncio.to_thread(difference, compared.text, shown.text)
    return console.show(
        request,
        "schema.html",
        section="schemas",
        subject=name,
        versions=found.versions,
        shown=shown,
        compared=compared,
        lines=lines,
        level=found.level,
        kinds=KINDS,
        kind=kind or (shown.kind if shown.kind in KINDS else KINDS[0]),
        typed=text,
        verdict=verdict,
        problem=visible(problem),
        address=service.address,
        live=False,
    )
