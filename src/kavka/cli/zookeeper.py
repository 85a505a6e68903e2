"""`kavka zookeeper`: from options to a running ZooKeeper server.

Decides what is said when the server serves, and what to do next when it cannot start.
"""

from __future__ import annotations

import json

from kavka.cli.output import Failure
from kavka.errors import AddressProblem, AddressUnavailable, KavkaError, LogDirectoryLocked, StorageError
from kavka.runtime.log_output import configure
from kavka.runtime.zookeeper_server import ZooKeeperProcess, ZooKeeperServerSettings, run
from kavka.zookeeper.decide.four_letter_words import whitelist


def serve(
    *,
    host: str,
    port: int,
    data: str,
    tick_ms: int,
    words: str,
    max_connections: int,
    log_level: str,
    as_json: bool,
) -> int:
    """Runs the server until a signal ends it; returns the exit status. Raises Failure."""
    configure(log_level, as_json=as_json)
    settings = ZooKeeperServerSettings(
        tick_ms=tick_ms, whitelist=whitelist(words), max_connections_per_host=max_connections
    )

    def tell(host: str, port: int) -> None:
        if as_json:
            print(json.dumps({"event": "ready", "address": f"{host}:{port}", "data": data}), flush=True)
        else:
            print(f"ZooKeeper is ready on {host}:{port}, data in {data}", flush=True)

    try:
        return run(ZooKeeperProcess(data, host, port, settings), on_started=tell)
    except KavkaError as problem:
        raise Failure(str(problem), _next_step(problem)) from problem


def _next_step(problem: KavkaError) -> str:
    if isinstance(problem, LogDirectoryLocked):
        return "another server runs there: stop it, or choose another directory with --data"
    if isinstance(problem, StorageError):
        return "choose a directory that can be written, with --data, or make room on its disk"
    if isinstance(problem, AddressUnavailable) and problem.problem is AddressProblem.TAKEN:
        return "stop that program, or choose another port with --port"
    return "choose another address with --host or --port"
