"""How log lines look: one line per event on standard error, time first, then level, event, keys and the logger's name.

Decides the form, and with which level the root begins. structlog is imported with the first line; see kavka/logger.py.

I1  A line is one line, and moves no cursor: names that clients chose may be in it. What cannot be printed is escaped.
    On a terminal a traceback has lines of its own, which are indented: none looks like another event.
    It is written with its end in one call: processes that share a file do not write into each other's lines.
I2  A failure nobody foresaw is shown with its type and where it was raised: its text alone may be empty. Values of
    variables are not shown: passwords are among them.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from kavka.logger import on_first_line, set_level

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Sets the form of all lines of this process, and the root's level: debug, info, warning or error."""
    set_level(level)
    on_first_line(lambda: _apply(as_json=as_json))


def _apply(*, as_json: bool) -> None:
    import structlog

    renderers: list[structlog.typing.Processor]
    if as_json:
        renderers = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    elif sys.stderr.isatty():
        console = structlog.dev.ConsoleRenderer(pad_event_to=0, exception_formatter=structlog.dev.plain_traceback)
        renderers = [structlog.processors.format_exc_info, _escape_texts, console]
    else:
        logfmt = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
        renderers = [
            structlog.processors.format_exc_info,
            lambda logger, method, keys: escaped(logfmt(logger, method, keys)),
        ]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        # Levels of loggers may change; `Logger` looks at them.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _escape_texts(logger: WrappedLogger, method: str, keys: EventDict) -> EventDict:
    shown = {key: escaped(value) if isinstance(value, str) else value for key, value in keys.items()}
    if "exception" in keys:
        shown["exception"] = "\n".join(f"    {escaped(line)}" for line in str(keys["exception"]).split("\n"))
    return shown


def escaped(text: str) -> str:
    r"""The text, with what cannot be printed as Python writes it.

    >>> print(escaped("a\0b\x1b[2Jc"))
    a\x00b\x1b[2Jc
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
