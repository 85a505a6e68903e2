"""The pages of `kavka lag-policy`: tables and drawings of what lag policies did, or would have done.

Decides which figures are shown together. Must not know how they came about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka.decisions import Decision, DecisionKind
from kavka.replication.decide.lag_policy import MESSAGES
from kavka.studies import plots
from kavka.studies.isr_history import IsrHistory, Judgement, Removal
from kavka.studies.lag_advice import Advice
from kavka.studies.lag_outcome import Choice, Outcome
from kavka.studies.lag_policy import SAMPLES

HEADINGS: Final = (
    "policy",
    "shrinks",
    "false alarms",
    "found",
    "detection",
    "refused",
    "stalled",
    "commit p99",
    "ISR updates",
)
MAX_ROWS: Final = 40
"""Followers that are drawn: those of the first removals."""
TOLD: Final = 3
"""Shrinks of one run that are described in words."""
LEGEND: Final = (
    "False alarms: a healthy follower was thrown out. Found, detection: followers that lagged for longer than 10 s, "
    "and how long the slowest of them was not noticed. Refused: time in which acks=all got NOT_ENOUGH_REPLICAS "
    "(min.insync.replicas=2); stalled: time in which an accepted write waited longer than a second for a follower in "
    "the ISR. In the drawings, the broad stripe is the time in which a follower ails; the bars below show when it is "
    "out of the ISR."
)


def row_of(outcome: Outcome) -> list[str]:
    """A row of the table, the workload first."""
    found = f"{len(outcome.detection_ms)}/{outcome.to_be_found}" if outcome.to_be_found else ""
    worst_ms = outcome.worst_detection_ms
    return [
        outcome.workload,
        str(outcome.choice),
        f"{outcome.shrinks:,}",
        f"{outcome.false_alarms:,}",
        found,
        ("never" if outcome.overlooked else "") if worst_ms is None else seconds(worst_ms),
        seconds(outcome.refused_ms),
        seconds(outcome.stalled_ms),
        f"{outcome.commit_p99_ms:,} ms",
        f"{outcome.isr_updates:,}",
    ]


def seconds(ms: int) -> str:
    return f"{ms / 1000:,.1f} s"


def comparison_page(outcomes: Sequence[Outcome], advice: Advice, about: Mapping[str, str], *, seed: int | None) -> str:
    """All workloads under all policies. `about` says of each workload what it is."""
    names = list(dict.fromkeys(outcome.workload for outcome in outcomes))
    parts = [
        plots.paragraph(f"Recommended: {advice.choice}."),
        plots.listing(advice.reasons),
        plots.paragraph(LEGEND, soft=True),
    ]
    if seed is not None:
        minutes = outcomes[0].duration_ms / 60_000
        parts.append(plots.paragraph(f"Seed {seed}, {minutes:g} virtual minutes for each workload.", soft=True))
    parts += _bars_of(outcomes, names)
    for name in names:
        parts.append(plots.heading(name))
        parts.append(plots.paragraph(about.get(name, "")))
        parts += _workload_parts([each for each in outcomes if each.workload == name])
    return plots.page("Lag policies compared", parts)


def _bars_of(outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    """Each figure of the policies side by side; how soon they noticed, only where there was something to notice."""
    grouped: dict[Choice, dict[str, Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.choice, {}).setdefault(outcome.workload, outcome)
    parts = []
    for title, value_of in _BARS:
        series = [(str(choice), [value_of(own[name]) for name in names]) for choice, own in grouped.items()]
        parts.append(plots.bars(title, names, series))
    sick = [name for name in names if any(each.to_be_found for each in outcomes if each.workload == name)]
    if sick:
        detections = [(str(choice), [_detection_s(own[name]) for name in sick]) for choice, own in grouped.items()]
        parts.append(plots.bars("Seconds until a lagging follower was out of the ISR", sick, detections, unit=" s"))
    return parts


_BARS: Final[tuple[tuple[str, Callable[[Outcome], float]], ...]] = (
    ("Healthy followers thrown out", lambda outcome: outcome.false_alarms),
    ("Seconds in which acks=all writes were blocked (refused or stalled)", lambda outcome: outcome.blocked_ms / 1000),
    ("ISR updates sent to ZooKeeper", lambda outcome: outcome.isr_updates),
)


def _detection_s(outcome: Outcome) -> float | None:
    worst_ms = outcome.worst_detection_ms
    return None if outcome.overlooked or worst_ms is None else worst_ms / 1000


def _workload_parts(outcomes: Sequence[Outcome]) -> list[str]:
    parts = [plots.table(HEADINGS, [row_of(outcome)[1:] for outcome in outcomes])]
    for outcome in outcomes:
        shrinks = [each for each in outcome.decisions if each.kind is DecisionKind.ISR_SHRUNK]
        if shrinks:
            parts.append(plots.paragraph(f"Why the ISR shrank under {outcome.choice}, in the leader's words:"))
            parts.append(plots.listing([_told(each) for each in shrinks[:TOLD]]))
    partitions = list(dict.fromkeys(key.rsplit(" broker ", 1)[0] for key in outcomes[0].lags))
    for partition in partitions:
        parts += [_lag_drawing(outcome, partition) for outcome in outcomes]
    return parts


def _told(decision: Decision) -> str:
    return f"{decision.at_ms / 1000:,.1f} s, {decision.partition}, ISR {decision.after['isr']}: {decision.why}"


def _lag_drawing(outcome: Outcome, partition: str) -> str:
    """How far each follower of a partition was behind, as its leader knew, and when it was out of the ISR."""
    curves = [
        plots.Curve(key.rsplit(" ", 2)[1] + " " + key.rsplit(" ", 1)[1], [(ms / 1000, lag) for ms, lag in points])
        for key, points in outcome.lags.items()
        if key.startswith(f"{partition} broker ")
    ]
    bands = [
        plots.Band(span.from_ms / 1000, span.until_ms / 1000)
        for span in outcome.ailing
        if str(span.partition) == partition
    ]
    bands += [
        plots.Band(span.from_ms / 1000, span.until_ms / 1000, f"{span.follower} out", span.follower - 2)
        for span in outcome.out_of_isr
        if str(span.partition) == partition
    ]
    limit = (float(outcome.choice.max_messages), "max.messages") if outcome.choice.name == MESSAGES else None
    step_s = outcome.duration_ms / SAMPLES / 1000
    return plots.lines(
        f"{partition} under {outcome.choice}: records behind, the most in each {step_s:g} s",
        curves,
        x_unit="s",
        y_unit="records",
        bands=bands,
        limit=limit,
    )


def history_page(history: IsrHistory, judgements: Sequence[Judgement], advice: Advice | None) -> str:
    """What a cluster recorded."""
    removals = history.removals()
    start_ms = history.changes[0].at_ms
    parts = []
    if advice is not None:
        parts += [plots.paragraph(f"Recommended: {advice.choice}."), plots.listing(advice.reasons)]
    rows = [
        [str(each.choice), str(each.out), str(each.needless), str(each.stays), str(each.late), str(each.unknown)]
        for each in judgements
    ]
    headings = ["policy", "out", "needlessly", "kept then", "of these long away", "cannot be told"]
    parts.append(plots.table(headings, rows))
    end_ms = history.changes[-1].at_ms
    thrown = [((removal.at_ms - start_ms) / 1000, float(number)) for number, removal in enumerate(removals, 1)]
    curve = plots.Curve(
        "followers thrown out, summed", [(0.0, 0.0), *thrown, ((end_ms - start_ms) / 1000, len(thrown))]
    )
    bands = _absences(removals, start_ms, end_ms)
    parts.append(plots.lines("Who was out of the ISR, and when", [curve], x_unit="s", y_unit="removals", bands=bands))
    return plots.page("What a cluster's ISRs did", parts)


def _absences(removals: Sequence[Removal], start_ms: int, end_ms: int) -> list[plots.Band]:
    """From each removal until the follower was back, a row for each follower of a partition."""
    rows_drawn = list(dict.fromkeys(_row(removal) for removal in removals))[:MAX_ROWS]
    return [
        plots.Band(
            (removal.at_ms - start_ms) / 1000,
            ((end_ms if removal.back_after_ms is None else removal.at_ms + removal.back_after_ms) - start_ms) / 1000,
            _row(removal),
            rows_drawn.index(_row(removal)),
        )
        for removal in removals
        if _row(removal) in rows_drawn
    ]


def _row(removal: Removal) -> str:
    return f"{removal.partition}: {removal.follower}"
