"""The pages of ZooKeeper: its servers with sessions, watches and latency, and the tree of znodes.

Only where the cluster's ZooKeeper is in the console's settings: a Kafka client cannot ask a broker for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.sources.znodes import Znode, ZnodeTrees
from kavka.errors import KavkaError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console


def routes(console: Console) -> list[Route]:
    trees = ZnodeTrees()
    console.on_stop.append(trees.stop)

    async def zookeeper(request: Request) -> Response:
        return await _zookeeper(console, trees, request)

    return [
        Route("/c/{cluster}/zookeeper", zookeeper),
        Route("/c/{cluster}/zookeeper/{path:path}", zookeeper),
    ]


async def _zookeeper(console: Console, trees: ZnodeTrees, request: Request) -> Response:
    watch = console.cluster(request)
    path = "/" + request.path_params.get("path", "").strip("/")
    address, node, problem = watch.settings.zookeeper, None, ""
    if address:
        try:
            node = await trees.read(address, path)
        except KavkaError as failed:
            problem = str(failed)
        if node is None and not problem:
            raise HTTPException(404, f"There is no znode {path} (any more).")
    return console.show(
        request,
        "zookeeper.html",
        section="zookeeper",
        address=address,
        node=node,
        problem=problem,
        znode_path=path,
        ancestors=_ancestors(path),
        below=_below(node),
    )


def _ancestors(path: str) -> list[tuple[str, str]]:
    """Names and paths from the root down to `path`, without the root."""
    parts = [part for part in path.split("/") if part]
    return [(part, "/" + "/".join(parts[: place + 1])) for place, part in enumerate(parts)]


def _below(node: Znode | None) -> list[tuple[str, str]]:
    if node is None:
        return []
    base = node.path.rstrip("/")
    return [(name, f"{base}/{name}") for name in node.children]
