"""The pages of Kafka Connect: all connectors of a cluster, and one with its tasks and settings.

Decides what is shown of them, and what is said where there are none. Must not know how Connect is asked
(sources/connectors.py) nor what a connector is told to do (actions/connectors.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.look.format import visible
from kavka.console.look.view import cut, links, search
from kavka.console.sources.connectors import Connector, Worker, read_connector, read_connectors, read_worker
from kavka.console.sources.rest_service import RestFailed, service_at

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

_ORDER = {"bad": 0, "warn": 1, "ok": 2}


def routes(console: Console) -> list[Route]:
    async def connectors(request: Request) -> Response:
        return await _connectors(console, request)

    async def connector(request: Request) -> Response:
        return await _connector(console, request)

    path = "/c/{cluster}/connect"
    return [Route(path, connectors, methods=["GET"]), Route(f"{path}/{{connector:path}}", connector, methods=["GET"])]


async def _connectors(console: Console, request: Request) -> Response:
    watch, wanted = console.cluster(request), search(request)
    found: list[Connector] = []
    worker, problem, address = Worker("", ""), "", ""
    if watch.settings.connect:
        service = service_at(watch.settings.connect)
        address = service.address
        try:
            worker = await read_worker(service)
            found = await read_connectors(service)
        except RestFailed as failed:
            problem = str(failed)
    chosen = [each for each in found if wanted.lower() in each.name.lower()]
    chosen.sort(key=lambda each: (_ORDER[each.level], each.name))
    return console.show(
        request,
        "connect.html",
        section="connect",
        connectors=cut(chosen, request, size=50),
        total=len(found),
        failed=sum(each.level == "bad" for each in found),
        worker=worker,
        is_other=bool(worker.kafka_cluster_id and watch.cluster.cluster_id)
        and worker.kafka_cluster_id != watch.cluster.cluster_id,
        address=address,
        problem=visible(problem),
        q=wanted,
        link=links(request),
        live=False,
    )


async def _connector(console: Console, request: Request) -> Response:
    watch, name = console.cluster(request), request.path_params["connector"]
    if not watch.settings.connect:
        raise HTTPException(404, f"There is no connector {name!r}: the settings name no Kafka Connect.")
    service = service_at(watch.settings.connect)
    try:
        found = await read_connector(service, name)
    except ValueError as wrong:
        raise HTTPException(404, f"There is no connector {name!r}.") from wrong
    except RestFailed as failed:
        if failed.status == 404:
            raise HTTPException(404, f"There is no connector {name!r}.") from failed
        raise
    return console.show(
        request, "connector.html", section="connect", connector=found, address=service.address, live=False
    )
