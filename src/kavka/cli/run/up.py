"""`kavka up` and `kavka server`: options and help.

Decides names, options and help only. What a start does is start.py's, which must not import this module: a plain
command line starts without typer (main.py).
"""

from __future__ import annotations

from typing import Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Json
from kavka.cli.run.start import (
    DEFAULT_DATA,
    DEFAULT_HOST,
    DEFAULT_LOG_LEVELS,
    DEFAULT_PORT,
    MOST_BROKERS,
    Start,
    start,
)

app = CommandLine()

Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Advertise = Annotated[
    str | None, typer.Option("--advertise", metavar="HOST[:PORT]", help="Address that clients connect to.")
]
Data = Annotated[str, typer.Option("--data", "-d", metavar="DIRECTORY", help="Directory for all data.")]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers",
        "-n",
        min=1,
        max=MOST_BROKERS,
        metavar="N",
        show_default="as many as DIRECTORY has, or 1",
        help="Brokers, on ports from --port on.",
    ),
]
Processes = Annotated[bool, typer.Option("--processes", help="Run each broker in its own process.")]
ZooKeeperPort = Annotated[
    int | None,
    typer.Option(
        "--zookeeper-port",
        min=0,
        max=65535,
        metavar="PORT",
        help="Open the embedded ZooKeeper to others; 0 for a free port.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=1,
        max=65535,
        metavar="PORT",
        help="Serve metrics for Prometheus; several brokers use the ports from here on.",
    ),
]
ConsolePort = Annotated[
    int | None,
    typer.Option(
        "--console-port",
        min=0,
        max=65535,
        metavar="PORT",
        show_default="8090, or a free one",
        help="The console's port.",
    ),
]
Secure = Annotated[bool, typer.Option("--secure", help="TLS, a password for admin, and access control.")]
Mtls = Annotated[bool, typer.Option("--mtls", help="With --secure: certificates, no passwords.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Listen without TLS where other machines reach it.")]
NoConsole = Annotated[bool, typer.Option("--no-console", help="Do not start the console.")]
SchemaRegistry = Annotated[
    bool, typer.Option("--schema-registry", help="Start a schema registry: port 8081 or a free one.")
]
StopWithStdin = Annotated[bool, typer.Option("--stop-with-stdin", help="Stop when standard input ends.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A broker setting, as in server.properties; repeatable."),
]


@app.command("up")
def up(
    port: Port = DEFAULT_PORT,
    host: Host = DEFAULT_HOST,
    advertise: Advertise = None,
    data: Data = DEFAULT_DATA,
    brokers: Brokers = None,
    processes: Processes = False,
    zookeeper_port: ZooKeeperPort = None,
    metrics_port: MetricsPort = None,
    console_port: ConsolePort = None,
    no_console: NoConsole = False,
    schema_registry: SchemaRegistry = False,
    secure: Secure = False,
    mtls: Mtls = False,
    insecure: Insecure = False,
    stop_with_stdin: StopWithStdin = False,
    settings: Settings = None,
    log_level: LogLevel = DEFAULT_LOG_LEVELS["up"],
    as_json: Json = False,
) -> None:
    """Start a broker, or several, on this machine.

    All data is in one directory, and a later start goes on with it. Ctrl-C stops the brokers.

    [bold]Examples[/bold]

    kavka up

    kavka up --brokers 3

    kavka up --port 19092 --data /tmp/kafka --set num.partitions=6 --set log.retention.hours=1

    kavka up --secure --host 0.0.0.0 --advertise kafka.example.com
    """
    plan = Start(
        port=port,
        host=host,
        advertise=advertise,
        data=data,
        settings=tuple(settings or ()),
        log_level=log_level,
        as_json=as_json,
        brokers=brokers or 0,
        processes=processes,
        zookeeper_port=zookeeper_port,
        metrics_port=metrics_port,
        console_port=console_port,
        no_console=no_console,
        schema_registry=schema_registry,
        secure=secure,
        mtls=mtls,
        insecure=insecure,
        stop_with_stdin=stop_with_stdin,
    )
    raise typer.Exit(start(plan))


@app.command("server")
def server(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file such as Kafka's server.properties.")],
    settings: Settings = None,
    log_level: LogLevel = DEFAULT_LOG_LEVELS["server"],
    as_json: Json = False,
) -> None:
    """Start a broker with the settings of a file.

    The settings have Kafka's names and defaults. Ctrl-C stops the broker.

    [bold]Example[/bold]

    kavka server /etc/kafka/server.properties --set log.dirs=/data/kafka
    """
    raise typer.Exit(start(Start(file=file, settings=tuple(settings or ()), log_level=log_level, as_json=as_json)))
