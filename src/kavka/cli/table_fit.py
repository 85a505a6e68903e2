"""How a table fits the width of a terminal: which columns are shown, and how wide each is.

Decides from widths alone. Must not know what the columns mean, or how they are printed.

    tried in this order, until the whole table fits
    1  headings in one line, then in as few lines as they have words: a word is not broken
    2  columns that are empty in every row are left out
    3  one blank between columns, not two
    4  the widest columns are narrowed, down to the longest word of their headings: their cells take several lines

    I1  a column is as wide as its widest cell, unless nothing but 4 makes the table fit
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final, NamedTuple

WIDE_GAP: Final = 2
NARROW_GAP: Final = 1
"""Blanks between two columns."""


class Fit(NamedTuple):
    """`widths` in characters, by the place of the columns that are shown; `gap` blanks lie between two of them."""

    widths: dict[int, int]
    gap: int

    @property
    def width(self) -> int:
        return sum(self.widths.values()) + self.gap * max(len(self.widths) - 1, 0)


def fit_of(headings: Sequence[str], cells: Sequence[int], width: int) -> Fit:
    """`cells`: the width of each column's widest cell, 0 where all are empty. Narrower than `width`, where that can be.

    >>> fit_of(["Broker", "Address", "Rack", "Out of sync"], [1, 14, 0, 1], 40)
    Fit(widths={0: 6, 1: 14, 2: 4, 3: 6}, gap=2)
    >>> fit_of(["Broker", "Address", "Rack", "Out of sync"], [1, 14, 0, 1], 31)
    Fit(widths={0: 6, 1: 14, 3: 6}, gap=2)
    """
    everything = range(len(headings))
    filled = [place for place in everything if cells[place]] or list(everything)
    most_lines = max((len(heading.split()) for heading in headings), default=1)
    best = Fit({}, WIDE_GAP)
    for shown, gap in ((everything, WIDE_GAP), (filled, WIDE_GAP), (filled, NARROW_GAP)):
        for lines in range(1, most_lines + 1):
            best = Fit({place: max(cells[place], _width_in(headings[place], lines)) for place in shown}, gap)
            if best.width <= width:
                return best
    return _narrowed(best, {place: _width_in(headings[place], most_lines) for place in best.widths}, width)


def _width_in(heading: str, lines: int) -> int:
    """How wide a heading is that may take so many lines."""
    least = max(map(len, heading.split()), default=1)
    return next(
        (width for width in range(least, len(heading)) if len(wrap(heading, width)) <= lines), max(least, len(heading))
    )


def _narrowed(fit: Fit, least: dict[int, int], width: int) -> Fit:
    """Takes from the widest column that can spare something, until the table fits or none can."""
    widths = dict(fit.widths)
    excess = fit.width - width
    while excess > 0:
        spare = [place for place in widths if widths[place] > least[place]]
        if not spare:
            break
        widths[max(spare, key=widths.__getitem__)] -= 1
        excess -= 1
    return Fit(widths, fit.gap)
