"""A client of the cluster that a command talks to, for as long as the command runs.

Decides how long a command waits for a cluster, and that every failure of the client becomes a `Failure` with a next
step. Must not know what the commands do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from kavka.cli.login import Way, way_to
from kavka.cli.output import INTERRUPTED, Failure, explain, note, plain_words, usage

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster

Result = TypeVar("Result")

BOOTSTRAP_NEXT = "write it as host:port,host:port"
CLIENT_CONFIG_NEXT = (
    "--client-config names a file with a client's settings, as Kafka's tools take it (docs/security.md)"
)
PATIENCE_MS = 10_000
"""How long a command looks for the cluster, and tries an operation again, before it fails."""
WAIT_IN_SILENCE_S = 1.0
LOOK_S = 0.25
CONNECT_MS = 3_000
"""How long one broker may take to answer a command that has others to ask."""


def found_way(bootstrap: str | None) -> Way:
    """How to get to the cluster. Raises Failure."""
    from kavka.errors import ConfigError

    try:
        way = way_to(bootstrap)
    except ConfigError as problem:
        usage(str(problem), CLIENT_CONFIG_NEXT)
    except OSError as problem:
        usage(f"cannot read {problem.filename}: {problem.strerror}", CLIENT_CONFIG_NEXT)
    require_plain(way.addresses)
    return way


def bootstrap_of(option: str | None) -> str:
    """The brokers to ask first. Raises Failure."""
    return found_way(option).addresses


def require_plain(addresses: str) -> None:
    """Raises Failure for addresses that are written like listeners or URLs: PLAINTEXT://host:9092."""
    schemes = sorted(set(re.findall(r"[A-Za-z_]+://", addresses)))
    if schemes:
        plain = re.sub(r"[A-Za-z_]+://([^/,]*)[^,]*", r"\1", addresses)
        usage(f"-b {addresses}: an address is HOST:PORT, without {' or '.join(schemes)}", f"write -b {plain}")


def with_cluster(
    bootstrap: str | None,
    work: Callable[[Cluster], Awaitable[Result]],
    *,
    patience_ms: int = PATIENCE_MS,
    quiet: bool = False,
) -> Result:
    """Runs `work` with a connected cluster and returns what it returns. Raises Failure.

    Where nobody listens, or the name is unknown, it fails at once. What it waits for, it says after a second, unless
    `quiet`.
    """
    from kavka.client.cluster import Cluster, parse_bootstrap
    from kavka.client.settings import ClientSettings
    from kavka.errors import ConfigError, KavkaError
    from kavka.runtime.loop import run
    from kavka.runtime.network.client_network import client_network

    way = found_way(bootstrap)
    addresses = way.addresses
    try:
        hosts = parse_bootstrap(addresses)
    except ValueError as problem:
        usage(f"-b {addresses}: {problem}", BOOTSTRAP_NEXT)

    async def session() -> Result:
        settings = ClientSettings(
            client_id="kavka-cli",
            api_timeout_ms=patience_ms,
            connect_timeout_ms=CONNECT_MS,
            gives_up_early=True,
            sasl=way.login.sasl,
        )
        cluster = Cluster(client_network(way.login.tls), hosts, settings)
        return await _carried_out(work, cluster, addresses, quiet=quiet)

    try:
        return run(session())
    except ConfigError as problem:
        usage(str(problem))
    except KavkaError as problem:
        raise explain(problem, addresses) from problem
    except KeyboardInterrupt:
        raise Failure("", status=INTERRUPTED) from None


async def _carried_out(
    work: Callable[[Cluster], Awaitable[Result]], cluster: Cluster, addresses: str, *, quiet: bool
) -> Result:
    """The result of `work`, which goes on while somebody says what is waited for."""
    import asyncio

    from kavka.errors import RequestError

    waiting = asyncio.create_task(_say_what_is_waited_for(cluster, addresses, quiet=quiet))
    try:
        async with cluster:
            try:
                return await work(cluster)
            except RequestError as refused:
                from kavka.cli.missing_names import topic_meant  # late: what goes well needs none

                raise explain(refused, addresses, meant=await topic_meant(cluster, refused)) from refused
    finally:
        waiting.cancel()


async def _say_what_is_waited_for(cluster: Cluster, addresses: str, *, quiet: bool) -> None:
    """A line on standard error when a broker has not been reached for a second, and one when it is again."""
    import asyncio

    began_s = asyncio.get_running_loop().time()
    waits = False
    while not quiet:
        await asyncio.sleep(LOOK_S)
        why = cluster.trouble(longer_than_s=WAIT_IN_SILENCE_S, seen_within_s=CONNECT_MS / 1000)
        if not why and not cluster.brokers and asyncio.get_running_loop().time() - began_s > WAIT_IN_SILENCE_S:
            why = f"no answer from {addresses}"
        if why and not waits:
            note(f"Waiting: {plain_words(why)}")
        elif waits and not why:
            note("Connected.")
        waits = bool(why)
