"""The cluster in a page, and its lessons: the files of `make playground`, for readers without a network.

Behaviour: /play/, /learn/ and what both load from /cluster/, as the directory of the setting `playground` has them.
Without that setting they are not found. They are static files: a browser runs the cluster, and asks the console for
nothing but these files.

Not supported: the files are not in the wheel. Python for browsers alone is as large as all that the console needs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from kavka.errors import ConfigError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

ROOMS: Final = ("play", "learn", "cluster")
NEEDED: Final = ("play/index.html", "learn/index.html", "cluster/worker.js", "cluster/kavka.zip")
HEADERS: Final = {
    # As the console's own, and what a browser needs to compile WebAssembly.
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; "
        "style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "cache-control": "private, no-cache",  # Kept, and asked for again: an answer without the 17 MB then.
}


def routes(console: Console) -> list[Route]:
    """Raises ConfigError where the setting names a directory without a playground."""
    directory = console.settings.playground
    missing = [name for name in NEEDED if directory and not Path(directory, name).is_file()]
    if missing:
        raise ConfigError(
            f"playground is {directory!r}, which has no {missing[0]}: `make playground` builds build/site"
        )
    return [
        Route(f"/{room}/{{file:path}}", _page(Path(directory, room) if directory else None), methods=["GET"])
        for room in ROOMS
    ]


def _page(directory: Path | None) -> Callable[[Request], Awaitable[Response]]:
    files = None if directory is None else StaticFiles(directory=directory, html=True)

    async def page(request: Request) -> Response:
        if files is None:
            raise HTTPException(404, "This console was started without a playground: see docs/playground.md.")
        # Whatever leads out of the directory is no file of it (StaticFiles.lookup_path).
        answer = await files.get_response(posixpath.normpath(request.path_params["file"]), request.scope)
        answer.headers.update(HEADERS)
        return answer

    return page
