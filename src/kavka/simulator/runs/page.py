"""The page of a run: one HTML file in which a browser steps through what happened, forwards and backwards.

Decides what of a trace goes into the page. Its looks and its steps are `page.html`'s, which is a whole page but for the
run's own values: they stand in it as JSON, and its script makes nothing but text of them.

    I1  self-contained: no script, style, font or picture from elsewhere; the page forbids itself to fetch any
    I2  whatever a text says, it is shown as text: no value ends its script element or becomes markup
    I3  bounds: the latest MAX_MOVES moves of offsets and MAX_NEWS other events; how many are left out is said

Source: none; Spaceviz and TLA+'s trace explorers show steps of one model, this shows a cluster's.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Protocol

from kavka.simulator.host.trace import MOVES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kavka.decisions import Decision
    from kavka.simulator.host.trace import Event, Trace
    from kavka.simulator.runs.recorded_run import Finding

MAX_MOVES: Final = 20_000
MAX_NEWS: Final = 20_000
"""Both together: a page of 5 MB."""


class Shown(Protocol):
    """What a page shows: a simulated run, or a live cluster's recording."""

    @property
    def trace(self) -> Trace: ...

    @property
    def mix(self) -> str: ...

    @property
    def finding(self) -> Finding | None: ...

    @property
    def title(self) -> str: ...

    @property
    def command(self) -> str:
        """What has the same again."""
        ...

    @property
    def told(self) -> str:
        """What came of it, in a sentence; empty for what the figures tell of a simulation."""
        ...

    @property
    def wall_start_ms(self) -> int:
        """What the brokers' clocks showed when the trace began."""
        ...

    def as_json(self) -> dict[str, object]: ...


def render(run: Shown) -> str:
    """The page of `run`."""
    template = files("kavka.simulator.runs").joinpath("page.html").read_text(encoding="utf-8")
    data = json.dumps(_values(run), ensure_ascii=False, separators=(",", ":"))
    # Within a script element only `<` can begin its end, or a comment. Two line ends are no line ends in JSON.
    for each, written in (("<", "\\u003c"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        data = data.replace(each, written)
    head, middle, tail = template.split("@@")
    return head + escape(run.title) + middle + data + tail


def _values(run: Shown) -> dict[str, object]:
    kept = list(run.trace.events())
    moves = [event.number for event in kept if event.kind in MOVES][-MAX_MOVES:]
    news = [event.number for event in kept if event.kind not in MOVES][-MAX_NEWS:]
    first_move, first_news = (numbers[0] if numbers else 0 for numbers in (moves, news))
    shown = [event for event in kept if event.number >= (first_move if event.kind in MOVES else first_news)]
    finding = run.finding
    return {
        "title": run.title,
        "command": run.command,
        "told": run.told,
        "figures": run.as_json(),
        "mix": run.mix,
        "finding": None if finding is None else {**finding.as_json(), "detail": finding.detail},
        "left_out": run.trace.recorded - len(shown),
        "moves": MOVES,
        "wall_start_ms": run.wall_start_ms,
        "events": [_event(event) for event in shown],
    }


def _event(event: Event) -> dict[str, object]:
    """Short names, and no field that says nothing: there are many of them."""
    fields: dict[str, object] = {"n": event.number, "t": event.at_ms, "w": event.node, "k": event.kind}
    if event.partition:
        fields["p"] = event.partition
    if event.leader_epoch >= 0:
        fields["e"] = event.leader_epoch
    if event.isr:
        fields["i"] = event.isr
    if event.log_end_offset >= 0:
        fields["l"], fields["h"] = event.log_end_offset, event.high_watermark
    if event.text:
        fields["x"] = event.text
    if event.decision is not None:
        fields["d"] = _decision(event.decision)
    return fields


def _decision(decision: Decision) -> Mapping[str, object]:
    told = {"subject": decision.subject, "why": decision.why}
    facts = {
        name: dict(values)
        for name, values in (
            ("before", decision.before),
            ("after", decision.after),
            ("evidence", decision.evidence),
        )
        if values
    }
    return {**told, **facts}
