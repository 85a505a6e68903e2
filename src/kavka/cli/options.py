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
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HABITS = frozenset({"--bootstrap-server", "--config", "--group-id", "--max-messages", "--replication-factor"})
"""Other names of options, as Kafka's own tools have them. They work, and help is silent on them."""
TopicHabit = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", hidden=True)]
"""What is an argument here is an option of Kafka's tools."""
