"""Charts as SVG: curves over time, who was in an ISR and when, one time split into its parts.

Decides form only: scale, ticks, marks, words. Each chart has a title, its unit, axes with times of the reader's zone, a
list of what its lines are with their latest values, and the same figures as a table. Colours and dashes are
static/console.css's (by class: pages forbid styles in elements).

    I1  nothing is drawn that is not in the table, and a gap in what was measured is a gap in the line
    I2  every text is escaped; the same values give the same bytes
    I3  bounds: MAX_SERIES lines, MAX_POINTS points of each (the largest of each stretch stays), MAX_ROWS rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from markupsafe import Markup

from kavka.console.look.format import duration, short, size, zone_name

if TYPE_CHECKING:
    from kavka.console.look.i18n import Translator

WIDTH: Final = 560
LEFT: Final = 80
RIGHT: Final = 14
TOP: Final = 10
PLOT: Final = 150
BOTTOM: Final = 26
INNER: Final = WIDTH - LEFT - RIGHT
MAX_SERIES: Final = 6
MAX_POINTS: Final = 180
MAX_ROWS: Final = 60
ROW: Final = 22
LONGEST_LABEL: Final = 28
LABEL_PX: Final = 9
"""Of a letter before a bar, at most."""
GAP_FACTOR: Final = 4
"""Two samples further apart than so many usual steps have a gap between them."""
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800)

_QUARTERS_MS: Final = (
    *(each / 100 for each in (1, 5, 10, 50)),
    *(1, 2, 5, 10, 20, 50, 100, 250, 500),
    *(each * 1_000 for each in (1, 2, 5, 10, 15, 30)),
    *(each * 60_000 for each in (1, 2, 5, 10, 15, 30)),
    *(each * 3_600_000 for each in (1, 2, 3, 6, 12, 24, 48, 168)),
)
"""A quarter of the axis: times are not counted in tens."""

_Scale: TypeAlias = Callable[[float], float]


class Series(NamedTuple):
    """A line: (at_ms, value) in order of time; None is "not known then"."""

    name: str
    points: Sequence[tuple[int, float | None]]


class Span(NamedTuple):
    """A stretch of a row: `kind` is a class of the style sheet (led, in, out, none), `what` its words."""

    from_ms: int
    until_ms: int
    kind: str
    what: str


class Look(NamedTuple):
    """How the reader reads."""

    translate: Translator
    zone: tzinfo


def lines(
    title: str,
    series: Sequence[Series],
    look: Look,
    *,
    unit: str,
    limit: tuple[float, str] | None = None,
    marks: Sequence[tuple[int, str]] = (),
) -> Markup:
    """Lines over time. `unit` is "B", "B/s", "ms", or any word; `marks` are moments with what happened then."""
    _ = look.translate
    left_out = len(series) - MAX_SERIES
    drawn = [Series(each.name, _thinned(each.points)) for each in series[:MAX_SERIES]]
    times = [at for each in drawn for at, _value in each.points]
    known = [value for each in drawn for _at, value in each.points if value is not None]
    if len(set(times)) < 2 or not known:
        why = _("Not enough measurements yet. A line begins some seconds after the first traffic.")
        return _figure(title, _unit_word(unit, _), _empty(why))
    first, last = min(times), max(times)
    top = _ceiling(max([*known, limit[0] if limit and limit[0] <= 4 * max(known) else 0]), unit)
    x_of, y_of = _scales(first, last, top)
    shown = _shown(unit)
    parts = [_y_axis(top, y_of, _tick(unit)), _x_axis(first, last, x_of, look.zone)]
    parts += [_mark(x_of(at), f"{_clock(at, look.zone)} {what}") for at, what in marks if first <= at <= last]
    if limit is not None and limit[0] <= top:
        parts.append(_limit(y_of(limit[0]), limit[1]))
    parts += [_curve(each.points, number, x_of, y_of) for number, each in enumerate(drawn)]
    parts.append(_probes(drawn, x_of, shown, look))
    described = _(
        "{title}, {first} to {last}", title=title, first=_clock(first, look.zone), last=_clock(last, look.zone)
    )
    body = _svg(TOP + PLOT + BOTTOM, described, Markup("").join(parts))
    legend = Markup("").join(_legend_entry(number, each, last, shown, look) for number, each in enumerate(drawn))
    more = Markup("")
    if left_out > 0:
        more = Markup("<li>{}</li>").format(_("and {n} more not drawn", n=left_out))
    table = _time_table(drawn, shown, look)
    told = Markup('{}<ul class="legend">{}{}</ul>{}').format(body, legend, more, table)
    return _figure(title, _caption(_unit_word(unit, _), _zone_of(last, look)), told)


def membership(
    title: str, rows: Sequence[tuple[str, Sequence[Span]]], look: Look, *, from_ms: int, until_ms: int
) -> Markup:
    """A row for each replica, with what it was and when: led, in sync, out of sync, not known."""
    _ = look.translate
    shown = rows[:MAX_ROWS]
    if not shown or until_ms <= from_ms:
        return _figure(title, "", _empty(_("Nothing is known about this time.")))
    height = TOP + ROW * len(shown) + BOTTOM
    x_of, _y_of = _scales(from_ms, until_ms, 1)
    parts = [_x_axis(from_ms, until_ms, x_of, look.zone, bottom=TOP + ROW * len(shown))]
    for number, (name, spans) in enumerate(shown):
        y = TOP + ROW * number
        parts.append(_row_name(name, LEFT, y))
        for span in spans:
            left, right = x_of(max(span.from_ms, from_ms)), x_of(min(span.until_ms, until_ms))
            # What is out of sync is thinner as well, so that nobody needs the colours.
            inset = {"led": 3, "in": 5, "out": 8, "none": 10}.get(span.kind, 5)
            parts.append(
                Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    span.kind,
                    f"{left:.1f}",
                    y + inset,
                    f"{max(right - left, 1):.1f}",
                    ROW - 2 * inset,
                    f"{name}: {span.what}, {_clock(span.from_ms, look.zone)} – {_clock(span.until_ms, look.zone)}",
                )
            )
    kinds = (("led", _("leads")), ("in", _("in sync")), ("out", _("out of sync")), ("none", _("not known")))
    legend = Markup("").join(
        Markup(
            '<li><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="{}" width="26" height="10"/></svg>{}</li>'
        ).format(kind, word)
        for kind, word in kinds
    )
    cells = [
        (name, _clock(span.from_ms, look.zone), duration(span.until_ms - span.from_ms), span.what)
        for name, spans in shown
        for span in spans
    ]
    table = _table((_("replica"), _("from"), _("for"), _("state")), cells[:MAX_POINTS], look)
    body = _svg(height, title, Markup("").join(parts))
    told = Markup('{}<ul class="legend">{}</ul>{}').format(body, legend, table)
    return _figure(title, _zone_of(until_ms, look), told)


def split(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], look: Look, *, unit: str) -> Markup:
    """A bar for each row, of parts laid end to end; every row has the same parts in the same order."""
    _ = look.translate
    shown = rows[:MAX_ROWS]
    if not shown:
        return _figure(title, _unit_word(unit, _), _empty(_("Nothing was measured yet.")))
    said = _shown(unit)
    left = LABEL_PX * min(max(_letters(row) for row, _parts in shown), LONGEST_LABEL) + 12
    top = _ceiling(max(sum(value for _name, value in parts) for _row, parts in shown), unit)
    scale = (WIDTH - left - 70) / top
    drawn = []
    for number, (row, parts) in enumerate(shown):
        y = TOP + ROW * number
        drawn.append(_row_name(row if len(row) <= LONGEST_LABEL else f"{row[: LONGEST_LABEL - 1]}…", left, y))
        drawn += _laid_end_to_end(row, parts, left, y, scale, said)
    names = [name for name, _value in shown[0][1]]
    legend = Markup("").join(
        Markup(
            '<li><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="f{}" width="26" height="10"/></svg>{}</li>'
        ).format(index % MAX_SERIES, name)
        for index, name in enumerate(names)
    )
    cells = [(row, *(said(value) for _name, value in parts)) for row, parts in shown]
    body = _svg(TOP + ROW * len(shown) + 6, title, Markup("").join(drawn))
    table = _table(("", *names), cells, look)
    told = Markup('{}<ul class="legend">{}</ul>{}').format(body, legend, table)
    return _figure(title, _unit_word(unit, _), told)


def _letters(text: str) -> int:
    """How wide it is: Chinese takes two places."""
    return len(text) + sum(each >= "\u2e80" for each in text)


def spark(title: str, points: Sequence[tuple[int, float | None]]) -> Markup:
    """A line without axes, for a card that has its figure beside it."""
    thin = [(at, value) for at, value in _thinned(points) if value is not None]
    if len(thin) < 2:
        return Markup("")
    first, last = thin[0][0], max(thin[-1][0], thin[0][0] + 1)
    top = max(max(value for _at, value in thin), 1e-9)
    path = " ".join(f"{200 * (at - first) / (last - first):.1f},{38 - 34 * value / top:.1f}" for at, value in thin)
    return Markup(
        '<svg class="spark" viewBox="0 0 200 40" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<polyline class="curve s0" points="{}"/></svg>'
    ).format(title, path)


# -- parts


def _figure(title: str, unit: str, body: Markup) -> Markup:
    return Markup('<figure class="chart"><figcaption>{} <small>{}</small></figcaption>{}</figure>').format(
        title, unit, body
    )


def _caption(*words: str) -> str:
    return ", ".join(filter(None, words))


def _svg(height: float, title: str, body: Markup) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, f"{height:.0f}", title, body
    )


def _row_name(name: str, left: float, y: float) -> Markup:
    return Markup('<text class="label" x="{}" y="{}" text-anchor="end">{}</text>').format(left - 6, y + 15, name)


def _laid_end_to_end(
    row: str, parts: Sequence[tuple[str, float]], left: float, y: float, scale: float, said: Callable[[float], str]
) -> list[Markup]:
    """The parts of a bar from `left` on, and what they come to behind it."""
    drawn, x = [], float(left)
    for index, (name, value) in enumerate(parts):
        drawn.append(
            Markup('<rect class="f{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                index % MAX_SERIES,
                f"{x:.1f}",
                y + 4,
                f"{value * scale:.1f}",
                ROW - 8,
                f"{row}: {name} {said(value)}",
            )
        )
        x += value * scale
    total = said(sum(value for _name, value in parts))
    return [*drawn, Markup('<text x="{}" y="{}">{}</text>').format(f"{x + 5:.1f}", y + 15, total)]


def _mark(x: float, what: str) -> Markup:
    """A moment, with what happened then."""
    return Markup('<line class="mark" x1="{0}" x2="{0}" y1="{1}" y2="{2}"><title>{3}</title></line>').format(
        f"{x:.1f}", TOP, TOP + PLOT, what
    )


def _limit(y: float, what: str) -> Markup:
    """A value that is not to be passed."""
    return Markup('<line class="limit" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}">{}</text>').format(
        LEFT, WIDTH - RIGHT, f"{y:.1f}", f"{y:.1f}", LEFT + 4, f"{y - 4:.1f}", what
    )


def _empty(text: str) -> Markup:
    return Markup('<p class="empty">{}</p>').format(text)


def _scales(first: int, last: int, top: float) -> tuple[Callable[[float], float], Callable[[float], float]]:
    span = max(last - first, 1)
    return (lambda at: LEFT + INNER * (at - first) / span), (lambda value: TOP + PLOT * (1 - value / top))


def _y_axis(top: float, y_of: Callable[[float], float], shown: Callable[[float], str]) -> Markup:
    parts = []
    for step in range(5):
        value = top * step / 4
        if step % 2 and top <= 2 and float(top).is_integer() and value != int(value):
            continue  # half a partition is none
        y = y_of(value)
        parts.append(
            Markup(
                '<line class="grid-line" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text x="{}" y="{}" text-anchor="end">{}</text>'
            ).format(LEFT, WIDTH - RIGHT, f"{y:.1f}", f"{y:.1f}", LEFT - 6, f"{y + 4:.1f}", shown(value))
        )
    return Markup("").join(parts)


def _x_axis(
    first: int, last: int, x_of: Callable[[float], float], zone: tzinfo, *, bottom: float = TOP + PLOT
) -> Markup:
    """Ticks at round times of the reader's zone, five at most; every other is spared where there is little room."""
    span_s = (last - first) / 1000
    step = next((each for each in _STEPS_S if span_s / each <= 5), _STEPS_S[-1])
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%m-%d"
    offset = datetime.fromtimestamp(first / 1000, zone).utcoffset()
    shift = int(offset.total_seconds()) if offset is not None else 0
    at_s = (ceil((first / 1000 + shift) / step)) * step - shift
    parts = list[Markup]()
    while at_s * 1000 <= last:
        x = x_of(at_s * 1000)
        moment = datetime.fromtimestamp(at_s, zone)
        spare = Markup(' class="spare"') if len(parts) % 2 else ""
        anchor = "middle" if LEFT + 24 < x < WIDTH - 60 else ("start" if x <= LEFT + 24 else "end")
        parts.append(
            Markup(
                '<line class="grid-line" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
                '<text x="{0}" y="{3}" text-anchor="{4}"{6}>{5}</text>'
            ).format(f"{x:.1f}", bottom, bottom + 4, bottom + 20, anchor, moment.strftime(form), spare)
        )
        at_s += step
    return Markup("").join(parts)


def _zone_of(at_ms: float, look: Look) -> str:
    return zone_name(datetime.fromtimestamp(at_ms / 1000, look.zone))


def _curve(
    points: Sequence[tuple[int, float | None]],
    number: int,
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
) -> Markup:
    """A polyline for each stretch without a gap; a lone point is a short dash."""
    usual = _usual_step(points)
    pieces: list[list[str]] = [[]]
    previous = None
    for at, value in points:
        if value is None or (previous is not None and at - previous > GAP_FACTOR * usual):
            pieces.append([])
        if value is not None:
            pieces[-1].append(f"{x_of(at):.1f},{y_of(value):.1f}")
        previous = at
    drawn = []
    for piece in filter(None, pieces):
        path = piece if len(piece) > 1 else [*piece, *piece]
        drawn.append(
            Markup('<polyline class="curve s{}" stroke-linecap="round" points="{}"/>').format(
                number % MAX_SERIES, " ".join(path)
            )
        )
    return Markup("").join(drawn)


def _usual_step(points: Sequence[tuple[int, float | None]]) -> float:
    steps = sorted(after[0] - before[0] for before, after in pairwise(points))
    return steps[len(steps) // 2] if steps else 1.0


def _probes(
    series: Sequence[Series], x_of: Callable[[float], float], shown: Callable[[float], str], look: Look
) -> Markup:
    """Invisible columns that show the figures of a time when the pointer is on them."""
    if not series:
        return Markup("")
    longest = max(series, key=lambda each: len(each.points)).points
    step = max(1, len(longest) // MAX_ROWS)
    by_time = [dict(each.points) for each in series]
    parts = []
    times = [at for at, _value in longest[::step]]
    for index, at in enumerate(times):
        left = x_of(at) if index == 0 else (x_of(times[index - 1]) + x_of(at)) / 2
        right = x_of(at) if index == len(times) - 1 else (x_of(times[index + 1]) + x_of(at)) / 2
        words = [_clock(at, look.zone)]
        for each, values in zip(series, by_time, strict=True):
            value = values.get(at)
            if value is not None:
                words.append(f"{each.name}: {shown(value)}")
        parts.append(
            Markup('<rect class="probe" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                f"{left:.1f}", TOP, f"{max(right - left, 2):.1f}", PLOT, "\n".join(words)
            )
        )
    return Markup("").join(parts)


def _legend_entry(number: int, series: Series, last: int, shown: Callable[[float], str], look: Look) -> Markup:
    """What a line is, with its latest value; that of a line which ended before the chart does is not known any more."""
    latest = series.points[-1][1] if series.points else None
    if series.points and last - series.points[-1][0] > GAP_FACTOR * _usual_step(series.points):
        latest = None
    value = shown(latest) if latest is not None else look.translate("unknown")
    return Markup(
        '<li><svg viewBox="0 0 26 10" aria-hidden="true"><line class="curve s{}" x1="0" x2="26" y1="5" y2="5"/></svg>'
        "{} <b>{}</b></li>"
    ).format(number % MAX_SERIES, series.name, value)


def _time_table(series: Sequence[Series], shown: Callable[[float], str], look: Look) -> Markup:
    by_time = [dict(each.points) for each in series]
    times = sorted({at for values in by_time for at in values}, reverse=True)
    step = max(1, ceil(len(times) / MAX_ROWS))
    rows = []
    for at in times[::step]:
        values = (values.get(at) for values in by_time)
        rows.append((_clock(at, look.zone), *("" if value is None else shown(value) for value in values)))
    return _table((look.translate("time"), *(each.name for each in series)), rows, look)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(each) for each in headings)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
        for row in rows
    )
    # A region that scrolls must be reachable by keyboard, and have a name.
    return Markup(
        '<details class="figures"><summary>{0}</summary><div class="table" tabindex="0" role="region" aria-label="{0}">'
        "<table><thead><tr>{1}</tr></thead><tbody>{2}</tbody></table></div></details>"
    ).format(look.translate("As a table"), head, body)


def _thinned(points: Sequence[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    """At most MAX_POINTS of them: of each stretch the largest, since a peak is what somebody looks for."""
    if len(points) <= MAX_POINTS:
        return list(points)
    width = ceil(len(points) / MAX_POINTS)
    kept: list[tuple[int, float | None]] = []
    for start in range(0, len(points), width):
        stretch = points[start : start + width]
        kept.append(max(stretch, key=lambda point: float("-inf") if point[1] is None else point[1]))
    return kept


def _shown(unit: str) -> Callable[[float], str]:
    if unit.startswith("B"):
        return lambda value: size(value) + unit[1:]
    if unit == "ms":
        return duration
    if unit == "%":
        return lambda value: f"{value:.0f} %"
    return short


def _tick(unit: str) -> Callable[[float], str]:
    """As short as a tick must be: 8 KiB, where the caption says that it is a second's."""
    if unit.startswith("B"):
        return lambda value: size(value).replace(".0 ", " ")
    if unit == "ms":
        return _time_tick
    return _shown(unit)


def _time_tick(value: float) -> str:
    """One unit alone: 15 s, 1.5 min."""
    for limit, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if value >= limit:
            return f"{value / limit:g} {word}"
    return f"{value:g} ms" if value else "0"


def _unit_word(unit: str, translate: Translator) -> str:
    """Bytes and times carry their units in each figure."""
    if unit == "B/s":
        return str(translate("per second"))
    return "" if unit in ("B", "ms", "%", "") else str(translate.plain(unit))


def _ceiling(value: float, unit: str) -> float:
    """The round number at or above `value`, of the powers that its unit has."""
    if value <= 0:
        return 1.0
    if unit.startswith("B"):
        power = 1024.0 ** max(0, floor(log10(max(value, 1)) / log10(1024)))
        steps: Sequence[float] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    elif unit == "ms":
        return next((4.0 * each for each in _QUARTERS_MS if 4 * each >= value * 0.999), value)
    elif unit == "" and value > 2:
        # Counts: each of the four ticks is a whole number.
        power = 10.0 ** max(0, floor(log10(value / 4)))
        steps = (4, 8, 12, 16, 20, 40) if power == 1 else (4, 6, 8, 10, 12, 16, 20, 40)
    else:
        power = 10.0 ** floor(log10(value))
        steps = (1, 2, 4, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * 0.999)


def _clock(at_ms: float, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, zone)
    return f"{moment.strftime('%H:%M:%S')} {zone_name(moment)}"
