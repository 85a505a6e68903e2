"""Options that commands of several modules take in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="KAVKA_BOOTSTRAP",
        help="Brokers to ask first; 127.0.0.1:9092 without it.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
