"""Console: what every page is given: the settings, the clusters, who is asking, and how a template becomes an answer.

Decides which cluster a request is about. Must not know the pages, nor how requests reach them (app.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from kavka.console.alerts.book import AlertBook
from kavka.console.alerts.keeper import AlertKeeper
from kavka.console.clusters import Clusters, ClusterWatch
from kavka.console.jobs.audit import close_entry
from kavka.console.jobs.runner import JobRunner
from kavka.console.jobs.store import JobStore
from kavka.console.look.templating import base_context, environment
from kavka.console.masks import TopicMask, mask_of
from kavka.console.messages.readers import Readers
from kavka.console.messages.saved import SavedSearches
from kavka.console.rights import Role
from kavka.errors import ConnectionFailed
from kavka.observe.snapshot import Part

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from kavka.client.cluster import Cluster
    from kavka.console.access.auth import User
    from kavka.console.access.guard import Guard
    from kavka.console.jobs.store import Job
    from kavka.console.settings import ConsoleSettings


class Console:
    """One console. `ledger` belongs to the event loop's thread; `start` and `stop` bound the life of the rest."""

    def __init__(self, settings: ConsoleSettings, ledger: sqlite3.Connection, guard: Guard) -> None:
        self.settings = settings
        self.guard = guard
        self.clusters = Clusters(settings)
        self.jobs = JobStore(ledger)
        self.runner = JobRunner(self.jobs, Path(settings.data_directory), self._client_of, self._on_job_change)
        self.readers = Readers()
        self.saved = SavedSearches(ledger)
        self.templates = environment()
        self.closing = asyncio.Event()
        """Set when the server is about to stop. Streams of events end then."""
        self.alerts = AlertKeeper(settings.alerts, AlertBook(ledger), self.clusters, guard.now_ms)
        self.on_start: list[Callable[[], Awaitable[None]]] = [self.runner.start, self.alerts.start]
        """Called in order when the clusters are watched, before the first request."""
        self.on_stop: list[Callable[[], Awaitable[None]]] = [self.runner.stop, self.alerts.stop]
        """Called in reverse order before the clusters are left."""

    async def start(self) -> None:
        await self.clusters.start()
        self._close_entries_of_jobs_that_are_over()
        for start in self.on_start:
            await start()

    async def stop(self) -> None:
        for stop in reversed(self.on_stop):
            await stop()
        await self.readers.close()
        await self.clusters.stop()

    def cluster(self, request: Request) -> ClusterWatch:
        """The cluster that the request's path names. Raises HTTPException 404."""
        name = request.path_params["cluster"]
        found = self.clusters.get(name)
        if found is None:
            raise HTTPException(404, f"There is no cluster {name!r} here.")
        return found

    def visible_to(self, request: Request) -> list[ClusterWatch]:
        """The clusters on which who asks has any right."""
        user: User | None = getattr(request.state, "user", None)
        return [] if user is None else [watch for watch in self.clusters if user.rights.on(watch.name, Role.VIEWER)]

    def mask_for(self, request: Request, cluster: str, topic: str) -> TopicMask | None:
        """What of a topic's messages is masked for who asks; None where nothing is."""
        user: User | None = getattr(request.state, "user", None)
        if user is not None and user.rights.reads_unmasked(cluster, topic):
            return None
        return mask_of(self.settings.masks, cluster, topic)

    def show(self, request: Request, template: str, /, *, section: str | None, **context: Any) -> Response:
        """A page of the cluster that the path names. Raises HTTPException 404 where there is none."""
        watch = self.cluster(request)
        return self.render(request, template, section=section, cluster=watch, **{"snapshot": watch.snapshot, **context})

    def render(
        self,
        request: Request,
        template: str,
        /,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        **context: Any,
    ) -> Response:
        """The page that `template` makes of `context`, and of what every page knows."""
        user = getattr(request.state, "user", None)
        known = {
            **base_context(request),
            "console": self,
            # Who has not come in yet is not told what there is.
            "clusters": self.visible_to(request),
            "user": user,
            **context,
        }
        text = self.templates.get_template(template).render(known)
        return HTMLResponse(text, status_code, headers=headers)

    def _client_of(self, name: str) -> Cluster | None:
        watch = self.clusters.get(name)
        return None if watch is None else watch.cluster

    def _on_job_change(self, job: Job) -> None:
        """Notifies open pages. Closes the audit log's entry of a job that is over."""
        watch = self.clusters.get(job.cluster)
        if watch is not None:
            watch.changes.publish(self.guard.now_ms(), watch.snapshot.state.value)
        if job.state.is_over:
            close_entry(self.guard.audit, job, self.jobs.moves(job.number), self.guard.now_ms())
            if watch is not None:
                watch.refresh()

    def _close_entries_of_jobs_that_are_over(self) -> None:
        """A job may end just before the console does: then its entry in the audit log is still open."""
        for watch in self.clusters:
            for job in self.jobs.of_cluster(watch.name):
                if job.state.is_over:
                    close_entry(self.guard.audit, job, self.jobs.moves(job.number), self.guard.now_ms())


def absent(watch: ClusterWatch, why: str) -> HTTPException | ConnectionFailed:
    """What to raise where a cluster has no such object; of one that was never reached nobody can say."""
    snapshot = watch.snapshot
    if not snapshot.reading(Part.METADATA).is_known:
        return ConnectionFailed(snapshot.why or "it was not reached yet")
    return HTTPException(404, why)
