"""How log lines look: one line per event on standard error, time first, then level, event, keys and the logger's name.

Decides the form, and with which level the root begins. structlog is imported with the first line; see kavka/logger.py.
"""

from __future__ import annotations

import logging
import sys

from kavka.logger import on_first_line, set_level


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Sets the form of all lines of this process, and the root's level: debug, info, warning or error."""
    set_level(level)
    on_first_line(lambda: _apply(as_json=as_json))


def _apply(*, as_json: bool) -> None:
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
        # Levels of loggers may change; `Logger` looks at them.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
