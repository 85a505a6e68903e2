"""Times and durations, as people write them on a command line.

Decides what 10:42, 2026-01-31T12:00 and 90s mean. Must not know which command asks.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kavka.cli.output import usage

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000, "w": 7 * 24 * 3_600_000}
_CLOCKS = {(1, False): "%H:%M", (2, False): "%H:%M:%S", (2, True): "%H:%M:%S.%f"}


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of a number of them, or of an ISO 8601 time (UTC where it names no zone)."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        usage(f"{text!r} is not a time", "write ms since 1970, or for example 2026-01-31T12:00:00Z")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def moment_ms(text: str, now_ms: int, *, option: str = "--at") -> int:
    """Milliseconds since 1970 of `10:42`, `10:42:07` (today; yesterday where that is nearer), an ISO 8601 time (local
    where it names no zone), or of a number of them. Raises Failure for a time that lies in the future."""
    at_ms = _moment_ms(text, now_ms, option)
    if at_ms > now_ms:
        usage(f"{option} {text} lies in the future", "another day's: write for example 2026-01-31T10:42:00")
    return at_ms


def _moment_ms(text: str, now_ms: int, option: str) -> int:
    if text.isdecimal() and len(text) > 6:
        return int(text)
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", text):
            today = datetime.fromtimestamp(now_ms / 1000).astimezone()
            clock = datetime.strptime(text, _CLOCKS[text.count(":"), "." in text])
            moment = today.replace(
                hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=clock.microsecond
            )
            if moment > today + timedelta(hours=12):
                moment -= timedelta(days=1)
        else:
            moment = datetime.fromisoformat(text).astimezone()
    except ValueError:
        usage(f"{option} {text} is not a time", "write 10:42, 10:42:07 or 2026-01-31T10:42:00")
    return int(moment.timestamp() * 1000)


def parse_duration(text: str, option: str = "--since") -> int:
    """Milliseconds of `90s`, `10m`, `2h`, `7d`, `1w` or `250ms`. `option` names the option in a Failure."""
    match = re.fullmatch(r"(\d+)(ms|[smhdw])", text)
    if match is None:
        usage(f"{option} {text} is not a duration", "write for example 90s, 10m, 2h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]


def parse_iso_duration(text: str, option: str) -> int:
    """90s, 10m, 2h, 7d, or ISO 8601's P1DT2H3M4S as Kafka's tool takes it."""
    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.upper())
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    return parse_duration(text, option)
