"""Creation of topics for tests, by kavka's own client: a test should not need a client only to have a topic."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.settings import ClientSettings
from kavka.runtime.loop import run
from kavka.runtime.network import SocketNetwork

PATIENCE_MS = 30_000


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    replicas: int,
    settings: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None,
) -> None:
    """Returns when the controller has created it. Raises KavkaError."""
    topic = NewTopic(name, partitions, replicas, settings) if assignment is None else None
    topic = topic or NewTopic(name, configs=settings, assignments=assignment or ())

    async def create() -> None:
        client = ClientSettings(client_id="kavka-testing", api_timeout_ms=PATIENCE_MS)
        async with Cluster(SocketNetwork(), parse_bootstrap(bootstrap), client) as cluster:
            for failure in (await Admin(cluster).create_topics([topic])).values():
                raise failure

    # In a thread of its own: the caller's may have a running event loop.
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run(create())
        except BaseException as failure:  # noqa: BLE001  # raised again in the caller's thread
            failures.append(failure)

    thread = threading.Thread(target=work, name="kavka-create-topic")
    thread.start()
    thread.join()
    for failure in failures:
        raise failure
