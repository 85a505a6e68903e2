"""`kavka zookeeper`: from options to a running ZooKeeper server.

Decides what is said when the server serves, and what to do next when it cannot start.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Json
from kavka.cli.output import Failure
from kavka.cli.start import DEFAULT_HOST, DEFAULT_LOG_LEVELS
from kavka.errors import AddressProblem, AddressUnavailable, KavkaError, LogDirectoryLocked, StorageError

app = CommandLine()


@app.command("zookeeper")
def zookeeper(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 2181,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = DEFAULT_HOST,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="DIRECTORY", help="Where its data is kept.")
    ] = "kavka-zookeeper",
    tick_ms: Annotated[
        int,
        typer.Option("--tick-time", min=1, metavar="MS", help="ZooKeeper's unit of time; sessions last 2 to 20 of it."),
    ] = 2000,
    words: Annotated[
        str,
        typer.Option(
            "--four-letter-words", metavar="WORD,...|*", help="The commands to answer, such as srvr and mntr."
        ),
    ] = "srvr",
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=0, metavar="N", help="Connections from one host; 0 for no limit.")
    ] = 60,
    log_level: LogLevel = DEFAULT_LOG_LEVELS["server"],
    as_json: Json = False,
) -> None:
    """Start a ZooKeeper server.

    It serves Kafka's brokers and any other client of ZooKeeper. Ctrl-C stops it.

    [bold]Example[/bold]

    kavka zookeeper --port 2181 --data /data/zookeeper --four-letter-words ruok,srvr,mntr
    """
    from kavka.runtime.log_output import configure
    from kavka.runtime.zookeeper_server import ZooKeeperProcess, ZooKeeperServerSettings, run
    from kavka.zookeeper.decide.four_letter_words import whitelist

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
        status = run(ZooKeeperProcess(data, host, port, settings), on_started=tell)
    except KavkaError as problem:
        raise Failure(str(problem), _next_step(problem)) from problem
    raise typer.Exit(status)


def _next_step(problem: KavkaError) -> str:
    if isinstance(problem, LogDirectoryLocked):
        return "another server runs there: stop it, or choose another directory with --data"
    if isinstance(problem, StorageError):
        return "choose a directory that can be written, with --data, or make room on its disk"
    if isinstance(problem, AddressUnavailable) and problem.problem is AddressProblem.TAKEN:
        return "stop that program, or choose another port with --port"
    return "choose another address with --host or --port"
