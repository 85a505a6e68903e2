"""The records of a share-partition as a band over their offsets: what is held, what waits, what is done.

Decides colours, and that a run of few records among many can still be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from kavka.client.share_group_admin import ShareRecords

WIDTH: Final = 1_000
LEAST: Final = 2.0
"""The width of the narrowest run."""
COLOURS: Final = {
    "acquired": "led",
    "available": "f1",
    "acknowledged": "in",
    "archiving": "out",
    "archived": "none",
}
"""Classes of the style sheet, by the state of a record."""


def band(records: ShareRecords, title: str) -> Markup:
    """Empty where nothing was delivered."""
    span = records.end - records.start
    if span <= 0:
        return Markup("")
    drawn = [
        Markup('<rect class="{}" x="{}" width="{}" height="10"/>').format(
            COLOURS.get(run.state, "none"),
            f"{WIDTH * (run.first - records.start) / span:.1f}",
            f"{max(WIDTH * (run.last - run.first + 1) / span, LEAST):.1f}",
        )
        for run in records.runs
    ]
    return Markup(
        '<svg class="band" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, title, Markup("").join(drawn))
