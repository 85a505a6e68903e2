"""The page of jobs: what is planned, under way and done on a cluster, and the moves that somebody else began.

Decides form only. A job's own page, and what may be done with it, are jobs_actions'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from kavka.console.look.view import cut, links

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

SHOWN_MOVES: Final = 100


def routes(console: Console) -> list[Route]:
    async def jobs(request: Request) -> Response:
        watch = console.cluster(request)
        moves = sorted(watch.snapshot.reassignments.items())
        return console.show(
            request,
            "jobs.html",
            section="jobs",
            jobs=cut(console.jobs.of_cluster(watch.name), request, size=50),
            moves=moves[:SHOWN_MOVES],
            more_moves=max(len(moves) - SHOWN_MOVES, 0),
            link=links(request),
        )

    return [Route("/c/{cluster}/jobs", jobs, methods=["GET"])]
