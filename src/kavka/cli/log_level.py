"""--log-level, as every command that serves takes it."""

from __future__ import annotations

from typing import Annotated

import typer

from kavka.cli.output import usage
from kavka.cli.run.start import LOG_LEVELS


def _known(level: str) -> str:
    if level not in LOG_LEVELS:
        usage(f"--log-level: unknown level {level!r}", f"choose {', '.join(LOG_LEVELS[:-1])} or {LOG_LEVELS[-1]}")
    return level


LogLevel = Annotated[
    str,
    typer.Option(
        "--log-level", metavar="|".join(LOG_LEVELS), callback=_known, help="Log events of this severity and above."
    ),
]
