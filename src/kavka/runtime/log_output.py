"""How log lines look: one line per event on standard error, time first, then level, event and keys.

Decides form and level only. structlog is imported with the first line; see kavka/logger.py.
"""

from __future__ import annotations

import logging
import sys

from kavka.logger import on_first_line, set_level

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Sets the form of all lines of this process. `level` is one of `LEVELS`."""
    set_level(level)
    on_first_line(lambda: _apply(LEVELS[level], as_json=as_json))


def _apply(level: int, *, as_json: bool) -> None:
    import structlog

    renderer: structlog.typing.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(pad_event_to=0)
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
