"""What a test asks of its cluster as a client, by kavka's own: a test should not need another one only to have a
topic."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.login import ClientLogin
from kavka.client.settings import ClientSettings
from kavka.runtime.loop import run
from kavka.runtime.network.client_network import client_network

PATIENCE_MS = 30_000


def create_topic(
    login: ClientLogin,
    name: str,
    partitions: int,
    replicas: int,
    settings: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None,
) -> None:
    """Returns when the controller has created it. Raises KavkaError."""
    topic = NewTopic(name, partitions, replicas, settings) if assignment is None else None
    topic = topic or NewTopic(name, configs=settings, assignments=assignment or ())

    async def create(client: Cluster) -> None:
        for failure in (await Admin(client).create_topics([topic])).values():
            raise failure

    as_client(login, create)


def as_client(login: ClientLogin, work: Callable[[Cluster], Awaitable[None]]) -> None:
    """Does some work with a client of its own, in a thread of its own: the caller's may have a running event loop.

    Raises what `work` raises, and KavkaError.
    """
    failures: list[BaseException] = []

    async def connected() -> None:
        settings = ClientSettings(client_id="kavka-testing", api_timeout_ms=PATIENCE_MS, sasl=login.sasl)
        network = client_network(login.tls)
        async with Cluster(network, parse_bootstrap(login.bootstrap or ""), settings) as client:
            await work(client)

    def carry_out() -> None:
        try:
            run(connected())
        except BaseException as failure:  # noqa: BLE001  # raised again in the caller's thread
            failures.append(failure)

    thread = threading.Thread(target=carry_out, name="kavka-test-client")
    thread.start()
    thread.join()
    for failure in failures:
        raise failure
