"""The typer commands of the console and of what it knows without pages: console, health, top.

Decides names, options and help only, as cli/app.py does.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kavka.cli.console_users import users_app
from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.start import LOG_LEVELS

console_app = CommandLine(
    help="Serve the console: pages about clusters, for a browser.", invoke_without_command=True, no_args_is_help=False
)
console_app.add_typer(users_app, name="user")

ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT,...", help="ZooKeeper servers to check, too.")
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="URL",
        help="Where Apache Kafka's brokers serve metrics, as http://{host}:7071/metrics; kavka's announce it.",
    ),
]


@console_app.callback()
def console(
    context: typer.Context,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="[NAME=]HOST:PORT,...",
            show_default="127.0.0.1:9092",
            help="A cluster; may be repeated.",
        ),
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="FILE", help="Clusters and settings, as TOML.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, metavar="PORT", show_default="8090", help="Port; 0 for a free one."
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            show_default="127.0.0.1",
            help="Address to listen on; beyond loopback, users must log in.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DIRECTORY",
            show_default="kavka-console",
            help="Where history, users and jobs are kept.",
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    login: Annotated[bool, typer.Option("--login", help="Require a login on loopback, too.")] = False,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="|".join(LOG_LEVELS), help="Least severe events to log.")
    ] = "info",
    as_json: Json = False,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve the console: pages about one cluster or several, kavka's and Apache Kafka's; Ctrl-C stops it.

    [bold]Examples[/bold]

    kavka console --bootstrap localhost:9092

    kavka console --settings console.toml --port 8090

    kavka console user add ada --role operator && kavka console --host 0.0.0.0
    """
    if context.invoked_subcommand is not None:
        return
    from kavka.cli.console import console as serve

    serve(
        bootstrap or [],
        file=settings,
        host=host,
        port=port,
        data=data,
        zookeeper=zookeeper,
        login=login,
        log_level=log_level,
        as_json=as_json,
        beside=beside,
    )


def health(
    fail_on: Annotated[
        str,
        typer.Option("--fail-on", metavar="warning|critical|never", help="Which failed checks make the exit status 1."),
    ] = "warning",
    every: Annotated[bool, typer.Option("--all", help="Include the checks that passed or are unknown.")] = False,
    zookeeper: ZooKeeper = None,
    metrics: Metrics = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Check a cluster: a score, what failed on which object, why, and what to do; exit status 1 where something did.

    [bold]Examples[/bold]

    kavka health

    kavka health --json --bootstrap broker-1:9092 | jq .score
    """
    from kavka.cli.health import health as check

    check(bootstrap, zookeeper=zookeeper, metrics=metrics, fail_on=fail_on, every=every, as_json=as_json)


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.25, max=60, metavar="SECONDS", help="Interval between two looks.")
    ] = 1.0,
    zookeeper: ZooKeeper = None,
    metrics: Metrics = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show brokers, the busiest topics and the groups that lag, as they are now; Ctrl-C ends it.

    [bold]Examples[/bold]

    kavka top

    kavka top --once
    """
    from kavka.cli.top import top as show

    show(bootstrap, zookeeper=zookeeper, metrics=metrics, once=once, every_s=every, as_json=as_json)
