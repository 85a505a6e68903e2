"""Options that commands of several modules take in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        envvar="KAVKA_BOOTSTRAP",
        show_default="127.0.0.1:9092",
        help="Brokers to ask first.",
    ),
]
ClientConfig = Annotated[
    str | None,
    typer.Option(
        "--client-config",
        "--command-config",
        metavar="FILE",
        envvar="KAVKA_CLIENT_CONFIG",
        show_default=False,
        help="Login and TLS, as Kafka's clients take them.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no remarks and no progress on standard error.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only ask whether it would be accepted; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OfTopic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="The partitions of this topic.")]
OnePartition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this partition of the topic.")
]
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
TraceFile = Annotated[
    str | None, typer.Option("--trace", metavar="FILE", help="Write what happened, one event per line.")
]
PlotFile = Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Write a page with charts.")]
StudySeed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same figures.")]

# What people type who know Kafka's own tools. It works, and help is silent on it.

HABITS = frozenset(
    {"--bootstrap-server", "--command-config", "--config", "--group-id", "--max-messages", "--replication-factor"}
)
TopicHabit = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", hidden=True)]
"""What is an argument here is an option of Kafka's tools."""
ListHabit = Annotated[bool, typer.Option("--list", hidden=True)]
BootstrapHabit = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", "--bootstrap-server", envvar="KAVKA_BOOTSTRAP", show_envvar=False, hidden=True),
]
