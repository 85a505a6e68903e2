"""Numbers and times as a page shows them: short, with their unit, and every time with its zone and its age.

Decides form only. What is None is shown as unknown, never as 0. Ages are counted on by static/live.js, which finds them
by `data-at`.

    I1  what comes from a cluster is escaped, and its control characters are made visible
    I2  the same value gives the same text: the present is an argument
    I3  every number of milliseconds is a time that can be shown: a producer may write any, that of the year 292,278,994
        too (`is_dated`)
"""

from __future__ import annotations

import shlex
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from markupsafe import Markup, escape

from kavka.console.look.i18n import ENGLISH
from kavka.decisions import YEAR_9000_MS
from kavka.observe.snapshot import NOT_READ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jinja2.runtime import Context
    from starlette.requests import Request

    from kavka.console.look.i18n import Translator
    from kavka.observe.snapshot import ClusterSnapshot

ZONE_COOKIE: Final = "kavka_zone"
DAY_MS: Final = 86_400_000
_AGES: Final = (
    (1_000, 1_000, "{n} s"),
    (120_000, 60_000, "{n} min"),
    (2 * 3_600_000, 3_600_000, "{n} h"),
    (2 * DAY_MS, DAY_MS, "{n} days"),
)
"""From which duration on, its unit in ms, and how it is said. live.js has the same table."""


def zone_name_of(request: Request) -> str:
    """The name of `zone_of`, for a form to say in which zone its times are; '' for the console's own."""
    name = unquote(request.cookies.get(ZONE_COOKIE, ""))
    return name if isinstance(_zone(name), ZoneInfo) else ""


def zone_of(request: Request) -> tzinfo:
    """The browser's zone, which live.js keeps in a cookie; the console's own if there is none."""
    return _zone(unquote(request.cookies.get(ZONE_COOKIE, "")))


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if name:
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, LookupError):  # a cookie is whatever somebody sent
            pass
    own = datetime.now().astimezone().tzinfo
    assert own is not None
    return own


def count(value: float | None, digits: int = 0) -> str:
    """With thousands set apart."""
    return "" if value is None else f"{value:,.{digits}f}"


def short(value: float) -> str:
    """Three digits at most, with k, M or G: for axes and tight columns."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{_digits(value / (1e3 if unit == 'k' else limit))} {unit}"
    return _digits(value)


def _digits(value: float) -> str:
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"


def size(value: float | None) -> str:
    """Bytes, in units of 1024."""
    if value is None:
        return ""
    number, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(number) < 1024 or unit == "PiB":
            break
        number /= 1024
    return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"


def duration(ms: float | None) -> str:
    """A stretch of time in one unit or two: 0.4 ms, 31.2 s, 4 min 10 s, 3 h 5 min, 2 d 4 h."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{_digits(ms)} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    seconds = round(ms / 1_000)
    for big, small, names in ((86_400, 3_600, ("d", "h")), (3_600, 60, ("h", "min")), (60, 1, ("min", "s"))):
        if seconds >= big:
            rest = seconds % big // small
            return f"{seconds // big} {names[0]}" + (f" {rest} {names[1]}" if rest else "")
    return f"{seconds} s"


def age(at_ms: int, now_ms: int, translate: Translator) -> Markup:
    """How long ago, as a person says it."""
    passed = now_ms - at_ms
    if passed < 1_000:
        return translate("just now") if passed > -5_000 else translate("in {t}", t=duration(-passed))
    said = next((unit_ms, text) for limit, unit_ms, text in reversed(_AGES) if passed >= limit)
    return translate("{t} ago", t=translate(said[1], n=f"{passed // said[0]:,}"))


def is_dated(at_ms: float) -> bool:
    """Whether a calendar has the time in every zone."""
    return at_ms < YEAR_9000_MS


def clock(at_ms: float, zone: tzinfo, now_ms: float, *, millis: bool = False) -> str:
    """The time of day, with the date where that is another one than today's, and the zone."""
    if not is_dated(at_ms):
        return f"1970-01-01 UTC + {int(at_ms):,} ms"
    moment = datetime.fromtimestamp(at_ms / 1_000, zone)
    text = moment.strftime("%H:%M:%S")
    if millis:
        text += f".{moment.microsecond // 1_000:03d}"
    if moment.date() != datetime.fromtimestamp(now_ms / 1_000, zone).date():
        text = f"{moment.date().isoformat()} {text}"
    return f"{text} {zone_name(moment)}"


def zone_name(moment: datetime) -> str:
    """CET, UTC, or UTC+05:30 where a zone has no name of letters."""
    name = moment.tzname() or "UTC"
    return name if name[:1].isalpha() else f"UTC{name}"


@pass_context
def moment(context: Context, at_ms: int | None, *, millis: bool = False, aged: bool = True) -> Markup:
    """A time element: the time, its zone, and its age, which the page counts on. aged: False where the sentence says
    how old it is."""
    translate: Translator = context["_"]
    if at_ms is None or at_ms < 0:
        return unknown(context)
    if not aged:
        return Markup("<time>{}</time>").format(clock(at_ms, context["zone"], context["now_ms"], millis=millis))
    return time_element(at_ms, context["now_ms"], context["zone"], translate, millis=millis)


def time_element(at_ms: int, now_ms: int, zone: tzinfo, translate: Translator, *, millis: bool = False) -> Markup:
    shown = clock(at_ms, zone, now_ms, millis=millis)
    if not is_dated(at_ms):
        return Markup('<span class="undated">{}</span>').format(shown)
    exact = datetime.fromtimestamp(at_ms / 1_000, zone).isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{}">{} · <span class="age" data-at="{}">{}</span></time>').format(
        exact, exact, shown, at_ms, age(at_ms, now_ms, translate)
    )


@pass_context
def picked(context: Context, at_ms: int) -> str:
    """As a date and time field of a form takes it, in the zone of the page."""
    there = datetime.fromtimestamp(at_ms / 1_000, context["zone"]).replace(tzinfo=None)
    return there.isoformat(timespec="milliseconds" if at_ms % 1_000 else "seconds")


@pass_context
def age_of(context: Context, at_ms: int | None) -> Markup:
    """The age alone; the time stands in its title."""
    if at_ms is None or at_ms < 0:
        return unknown(context)
    zone, now_ms = context["zone"], context["now_ms"]
    if not is_dated(at_ms):
        return time_element(at_ms, now_ms, zone, context["_"])
    exact = datetime.fromtimestamp(at_ms / 1_000, zone).isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{}"><span class="age" data-at="{}">{}</span></time>').format(
        exact, clock(at_ms, zone, now_ms, millis=True), at_ms, age(at_ms, now_ms, context["_"])
    )


@pass_context
def unknown(context: Context, why: str = "") -> Markup:
    """What is not known, with the reason: this one, or that the cluster does not answer, or was not asked yet."""
    translate: Translator = context["_"]
    snapshot: ClusterSnapshot | None = context.get("snapshot")
    if not why and snapshot is not None and not snapshot.is_reachable:
        why = snapshot.why or "it was not reached yet"
    return Markup('<span class="unknown" title="{}">{}</span>').format(
        visible(translate.plain(why or NOT_READ)), translate("unknown")
    )


@pass_context
def not_known(context: Context, why: str) -> Markup:
    """The reason as a filter: what is not known because of it."""
    return unknown(context, why)


def _or_unknown(shown: Callable[[float], str]) -> Callable[[Context, float | None, str], Markup]:
    @pass_context
    def filtered(context: Context, value: float | None, why: str = "") -> Markup:
        return unknown(context, why) if value is None else escape(shown(value))

    return filtered


@pass_context
def rate(context: Context, value: float | None, unit: str = "", why: str = "") -> Markup:
    """A number in each second; `unit` is what is counted, with /s."""
    if value is None:
        return unknown(context, why or "a rate needs two readings")
    if unit.startswith("B"):
        return Markup("{}/s").format(size(value))
    return Markup("{} {}").format(short(value), context["_"](unit))


def visible(text: object) -> str:
    """Without control characters and without the marks that turn the direction of writing: each is shown by its code.

    A topic may not have them, but keys, values, client ids, znodes and messages of errors may.
    """
    return "".join(_visible(each) for each in str(text))


def _visible(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if code < 32 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF or code in _TURNING:
        return f"\\u{code:04x}"
    return character


_TURNING: Final = frozenset((0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))


def safe(text: object) -> Markup:
    """Text from a cluster, visible and escaped."""
    return escape(visible(text))


def ids(values: Iterable[int] | None) -> str:
    return "" if values is None else ", ".join(map(str, values))


def path_part(text: object) -> str:
    """One segment of a URL. Half a pair of UTF-16, which JSON may write, becomes what leads nowhere."""
    return quote(str(text), safe="", errors="replace")


@pass_context
def words(context: Context, text: str) -> Markup:
    """What came in English at run time: in the reader's language where it is known, else marked as English."""
    translate: Translator = context["_"]
    found = translate.plain(text)
    if found == text and translate.language != ENGLISH and " " in text:
        return Markup('<span lang="en">{}</span>').format(visible(text))
    return escape(visible(found))


def of_cluster(line: str, bootstrap: str) -> str:
    """A command of kavka, to the cluster that is there."""
    return f"{line} -b {shlex.quote(bootstrap)}"


def filters() -> Mapping[str, Callable[..., object]]:
    """What templates call by name."""
    return {
        "age": age_of,
        "bytes": _or_unknown(size),
        "count": _or_unknown(count),
        "duration": _or_unknown(duration),
        "ids": ids,
        "moment": moment,
        "path_part": path_part,
        "picked": picked,
        "rate": rate,
        "safe_text": safe,
        "not_known": not_known,
        "of_cluster": of_cluster,
        "shell_word": shlex.quote,
        "words": words,
        "short": _or_unknown(short),
    }
