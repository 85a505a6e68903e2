"""Plots: a self-contained HTML page with tables and SVG drawings, readable without a network and without scripts.

Decides form only: colours, axes, sizes. Must not know what is drawn.

    I1  the same values give the same bytes; every text is escaped
    I2  nothing is drawn that is not in a table or a curve that the caller gave
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, log10
from typing import Final, NamedTuple, TypeAlias

COLOURS: Final = ("#0b6e99", "#c2571a", "#4f7a28", "#8a4f9e", "#a3323b", "#5b6770")
WIDTH: Final = 900
_LEFT: Final = 130
_RIGHT: Final = 20
_TOP: Final = 28
_INNER: Final = WIDTH - _LEFT - _RIGHT
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #6a737b; --line: #d5dadd; --paper: #fff; --mark: #f3e3c3 }
@media (prefers-color-scheme: dark) {
 :root { --ink: #e6e9eb; --soft: #98a2aa; --line: #3a4147; --paper: #15191c; --mark: #4a3d1f } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 940px;
 margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } p.soft, figcaption { color: var(--soft) }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, th.text, td.text { text-align: left }
figure { margin: 1.2rem 0; overflow-x: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--ink) }
svg .soft { fill: var(--soft) } svg .grid { stroke: var(--line) } svg .mark { fill: var(--mark) }
"""


_Scale: TypeAlias = Callable[[float, float], tuple[float, float]]


class Curve(NamedTuple):
    """Points (x, y), x rising."""

    name: str
    points: Sequence[tuple[float, float]]


class Band(NamedTuple):
    """A stretch of x: behind the curves, or (`row` not empty) as a bar in a row of its own below them."""

    from_x: float
    until_x: float
    row: str = ""
    colour: int = 0


def page(title: str, parts: Sequence[str]) -> str:
    """A whole document; `parts` are HTML that this module made."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, soft: bool = False) -> str:
    style = ' class="soft"' if soft else ""
    return f"<p{style}>{escape(text)}</p>"


def listing(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<figure><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></figure>"


def bars(
    title: str, groups: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]], *, unit: str = ""
) -> str:
    """Horizontal bars: for each group one of each series. None is drawn as a cross: never."""
    bar, gap = 13, 12
    block = bar * len(series) + gap
    height = _TOP + block * len(groups) + 34
    left = 150
    inner = WIDTH - left - 110
    top = _ceiling(max((value for _name, values in series for value in values if value is not None), default=0))
    drawn = []
    for index, group in enumerate(groups):
        y = _TOP + index * block
        drawn.append(f'<text x="{left - 8}" y="{y + block / 2 - 2:.0f}" text-anchor="end">{escape(group)}</text>')
        for number, (_name, values) in enumerate(series):
            value, bar_y = values[index], y + number * bar
            if value is None:
                drawn.append(f'<text x="{left + 4}" y="{bar_y + 10}" class="soft">✗ never</text>')
                continue
            width = inner * value / top
            drawn.append(
                f'<rect x="{left}" y="{bar_y + 1}" width="{max(width, 1):.1f}" height="{bar - 3}" '
                f'fill="{_colour(number)}"/>'
                f'<text x="{left + width + 5:.1f}" y="{bar_y + 10}" class="soft">{_short(value)}{escape(unit)}</text>'
            )
    legend = _legend([name for name, _values in series], height - 10)
    return _figure(title, height, "".join(drawn) + legend)


def lines(
    title: str,
    curves: Sequence[Curve],
    *,
    x_unit: str,
    y_unit: str,
    bands: Sequence[Band] = (),
    limit: tuple[float, str] | None = None,
) -> str:
    """Curves over x, with bands behind them, a horizontal limit, and rows of bars below."""
    rows = list(dict.fromkeys(band.row for band in bands if band.row))
    plot, row_height = 190, 16
    height = _TOP + plot + 26 + row_height * len(rows) + 24
    xs = [x for curve in curves for x, _y in curve.points] or [0.0]
    ys = [y for curve in curves for _x, y in curve.points]
    # A limit far above all curves would press them flat: it is named instead.
    highest = max(ys, default=0.0)
    if limit is not None and highest and limit[0] <= 4 * highest:
        highest = max(highest, limit[0])
    first_x, last_x, top = min(xs), max(max(xs), min(xs) + 1), _ceiling(highest)

    def at(x: float, y: float) -> tuple[float, float]:
        return _LEFT + _INNER * (x - first_x) / (last_x - first_x), _TOP + plot * (1 - y / top)

    drawn = []
    for band in bands:
        x0, x1 = (at(min(max(x, first_x), last_x), 0)[0] for x in (band.from_x, band.until_x))
        width = max(x1 - x0, 1.5)
        if not band.row:
            drawn.append(f'<rect class="mark" x="{x0:.1f}" y="{_TOP}" width="{width:.1f}" height="{plot}"/>')
            continue
        row_y = _TOP + plot + 26 + row_height * rows.index(band.row)
        drawn.append(
            f'<rect x="{x0:.1f}" y="{row_y}" width="{width:.1f}" height="{row_height - 5}" '
            f'fill="{_colour(band.colour)}"/>'
        )
    for row in rows:
        row_y = _TOP + plot + 26 + row_height * rows.index(row)
        drawn.append(f'<text x="{_LEFT - 6}" y="{row_y + 10}" text-anchor="end">{escape(row)}</text>')
    drawn += _axes(at, first_x, last_x, top, x_unit=x_unit, y_unit=y_unit)
    for number, curve in enumerate(curves):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in curve.points))
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="1.5"/>')
    if limit is not None and limit[0] <= top:
        y = at(first_x, limit[0])[1]
        drawn.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{COLOURS[4]}" '
            f'stroke-dasharray="5 4"/><text x="{WIDTH - _RIGHT}" y="{y - 4:.1f}" text-anchor="end" class="soft">'
            f"{escape(limit[1])}</text>"
        )
    return _figure(title, height, "".join(drawn) + _legend([curve.name for curve in curves], height - 8))


def _axes(at: _Scale, first_x: float, last_x: float, top: float, *, x_unit: str, y_unit: str) -> list[str]:
    drawn = []
    for step in range(5):
        x, y = at(first_x, top * step / 4)
        drawn.append(
            f'<line class="grid" x1="{x:.1f}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" class="soft">{_short(top * step / 4)}</text>'
        )
        x, y = at(first_x + (last_x - first_x) * step / 4, 0)
        number = _short(first_x + (last_x - first_x) * step / 4)
        drawn.append(f'<text x="{x:.1f}" y="{y + 15:.1f}" text-anchor="middle" class="soft">{number} {x_unit}</text>')
    drawn.append(f'<text x="{_LEFT - 6}" y="{_TOP - 10}" text-anchor="end" class="soft">{escape(y_unit)}</text>')
    return drawn


def _legend(names: Sequence[str], y: float) -> str:
    drawn, x = list[str](), float(_LEFT)
    for number, name in enumerate(names):
        drawn.append(
            f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{_colour(number)}"/>'
            f'<text x="{x + 14:.0f}" y="{y:.0f}">{escape(name)}</text>'
        )
        x += 34 + 6.3 * len(name)
    return "".join(drawn)


def _figure(title: str, height: float, drawn: str) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}">{drawn}</svg></figure>'
    )


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _ceiling(value: float) -> float:
    """The round number at or above `value`; 1 at least."""
    if value <= 1:
        return 1.0
    power = 10.0 ** int(log10(value))
    return ceil(value / power * 2) / 2 * power


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:,.4g}M"
    if value >= 10_000:
        return f"{value / 1_000:,.4g}k"
    return f"{value:,.4g}" if value < 1_000 else f"{value:,.0f}"
