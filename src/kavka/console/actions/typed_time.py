"""Typed times: what an operator types as a time, and the instant that it means.

Decides how a time is read: in the zone that its page shows times in, never in the server's because it happens to run
there. Must not know forms, nor what the time is for.

I1  An instant is shown with its zone before anything is done with it: `instant`.
I2  A time that a zone does not have, because its clocks are put forward then, is refused. One that it has twice is the
    first of the two; the zone that is shown with it says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from kavka.console.actions.action import ActionRefused
from kavka.console.look.format import zone_name
from kavka.decisions import YEAR_9000_MS


def time_ms(said: str, zone: tzinfo) -> int:
    """ISO 8601, in `zone` unless it names its own, or milliseconds since 1970. Raises ActionRefused.

    >>> time_ms("1970-01-01T00:00:01+00:00", UTC), time_ms("1970-01-01T00:00:01Z", UTC), time_ms("12345678", UTC)
    (1000, 1000, 12345678)
    >>> time_ms("1970-01-01T01:00", ZoneInfo("Europe/Berlin"))
    0
    """
    try:
        if said.isdecimal() and said.isascii() and len(said) < 16:
            found = int(said)
        else:
            typed = datetime.fromisoformat(said)
            moment = typed if typed.tzinfo is not None else _in_zone(typed, zone)
            found = int(moment.timestamp() * 1000)
    except ActionRefused:
        raise
    except (ValueError, OverflowError, OSError) as problem:
        raise ActionRefused(f"{said[:60]!r} is not a time: write it like 2026-11-21T10:00:00+00:00") from problem
    if not 0 <= found < YEAR_9000_MS:
        raise ActionRefused(f"{said[:60]!r} is not a time from 1970 to 8999")
    return found


def past_ms(said: str, zone: tzinfo, now_ms: int) -> int:
    """As `time_ms`; a time that is still to come is refused, too."""
    found = time_ms(said, zone)
    if found > now_ms:
        raise ActionRefused(
            f"{instant(found, zone)} is in the future: it is {instant(now_ms, zone)} now. Take the end of the log "
            "instead, if no record is to be read again"
        )
    return found


def zone_of_name(name: str) -> tzinfo:
    """The zone that a form names; '' is the console's own. Raises ActionRefused."""
    if not name:
        own = datetime.now().astimezone().tzinfo
        assert own is not None
        return own
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as problem:
        raise ActionRefused(f"there is no time zone {name[:60]!r}") from problem


def instant(at_ms: int, zone: tzinfo) -> str:
    """In the zone, and in UTC where that is another.

    >>> instant(0, ZoneInfo("Europe/Berlin")), instant(0, UTC)
    ('1970-01-01 01:00:00 CET (1970-01-01T00:00:00.000Z)', '1970-01-01 00:00:00 UTC')
    """
    there = datetime.fromtimestamp(at_ms / 1000, zone)
    shown = f"{there.strftime('%Y-%m-%d %H:%M:%S')} {zone_name(there)}"
    return shown if zone_name(there) == "UTC" else f"{shown} ({in_utc(at_ms)})"


def in_utc(at_ms: int) -> str:
    """As kavka's and Kafka's commands take it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _in_zone(typed: datetime, zone: tzinfo) -> datetime:
    moment = typed.replace(tzinfo=zone)
    if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != typed:
        raise ActionRefused(f"there is no {typed.isoformat()} in this zone: its clocks are put forward then")
    return moment
