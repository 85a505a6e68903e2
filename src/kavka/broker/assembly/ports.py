"""Ports: what the host gives a broker."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kavka.config.broker import BrokerConfig
from kavka.decisions import RecordDecision, forget
from kavka.errors import ConfigError, ConnectionFailed
from kavka.filesystem import FileSystem
from kavka.log.home_loader import RunAll, one_by_one
from kavka.network import Network
from kavka.zookeeper.port import ZooKeeper

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker
    from kavka.broker.telemetry.client_telemetry import Push
    from kavka.security.key_stores import StoreSettings
    from kavka.traces import RequestTrace


NOBODY: Final = "User:ANONYMOUS"
"""Who brokers are to each other where nobody proves who he is."""


Fetch: TypeAlias = Callable[[str, "StoreSettings"], Awaitable[bytes]]


async def no_documents(url: str, trust_store: StoreSettings) -> bytes:
    """For hosts that reach nothing but brokers."""
    raise ConnectionFailed(f"{url} cannot be reached from here")


class OwnTokens(Protocol):
    """Where this broker's own tokens come from (OAUTHBEARER)."""

    extensions: dict[str, str]

    def current(self) -> str:
        """A token that is good now. Blocks. Raises ConnectionFailed if a later try may succeed, RequestError where
        it cannot."""
        ...


def no_tokens(settings: Mapping[str, str]) -> OwnTokens:
    """For hosts that reach nothing but brokers."""
    raise ConfigError("brokers cannot get tokens here")


class Ports(NamedTuple):
    """What the host gives a broker.

    `wall_ms` is the time in milliseconds since 1970. `run_blocking` carries a call to a worker thread. `halt` ends the
    process: the broker cannot go on. `max_open_segments` is how many segments' files may be open. `on_config` is called
    with the broker's settings after they changed at run time, so that the host obeys those that are its own. `network`
    opens connections to the other brokers. `is_alone`: the ZooKeeper is embedded and serves no other broker, now or
    later, so that what lies in the log directories is all that the cluster has. `on_decision` is called with each
    decision when it is made, besides what the broker itself does with it. `place` is where no two processes can listen
    on one port (membership/incarnation.py), empty if that is not known. `on_client_metrics` is given the metrics
    that clients push, None if nobody takes them. `run_all` runs jobs that wait for the disk beside each other, while
    nothing else is done. `on_made` is given the broker when its logs are open and all its parts are made, before any
    part is started: for hosts that watch a start. `clock_ns` never goes back: by it is measured what requests cost.
    `on_rate_of_address` is told how many connections a second an address may make (None: any other address; None: as
    many as it likes). `secret_bytes` draws what nobody may guess: nonces and secrets. `control_network` opens the
    controller's connections to brokers, where they go to another listener than brokers' own (None: by `network`).
    `fetch` reads the document at an address, believing whom a trust store names (not set: whom the machine trusts); it
    raises ConnectionFailed. `own_principal` is who this broker is, by its certificate, to brokers that it calls;
    `clients_have_names`: on some listener clients may show certificates. `own_tokens` gives the source of tokens that
    settings of a client ask for; it raises ConfigError. `stalled` says for how many nanoseconds the event loop has
    stood still since a time of `clock_ns`, and in what. `on_request_trace` is given each trace of a request that the
    broker keeps, None if nobody takes them; it returns at once.
    """

    zookeeper: ZooKeeper
    filesystem: FileSystem
    random: random.Random
    wall_ms: Callable[[], int]
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    halt: Callable[[str], None]
    max_open_segments: int
    on_config: Callable[[BrokerConfig], None]
    network: Network
    is_alone: bool = True
    on_decision: RecordDecision = forget
    place: str = "here"
    on_client_metrics: Callable[[Push], None] | None = None
    run_all: RunAll = one_by_one
    on_made: Callable[[Broker], None] = lambda broker: None
    clock_ns: Callable[[], int] = time.perf_counter_ns
    on_rate_of_address: Callable[[str | None, int | None], None] = lambda address, rate: None
    secret_bytes: Callable[[int], bytes] = os.urandom
    control_network: Network | None = None
    own_principal: str = NOBODY
    clients_have_names: bool = False
    fetch: Fetch = no_documents
    own_tokens: Callable[[Mapping[str, str]], OwnTokens] = no_tokens
    stalled: Callable[[int], tuple[int, str]] = lambda since_ns: (0, "")
    on_request_trace: Callable[[RequestTrace], None] | None = None
