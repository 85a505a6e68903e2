"""The way of one record, told from what brokers, the log and groups know of it: steps in order, and what is not known.

Pure: findings in, steps out. A step of a trace is exact to the microsecond on its broker's clock; one of a flight
recording is a millisecond's; a group's commit shows only that it had read the record by then.

    I1  a step stands on one finding, which it names; nothing is guessed from two
    I2  what no finding shows is said (`Way.unknown`), with what would make it known
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from kavka.cli.output import printable
from kavka.decisions import Decision
from kavka.flight.record_way import RecordedWay, Sighting
from kavka.model import TopicPartition
from kavka.traces import RequestTrace, TracedPartition, Verdict, verdict

US: Final = 1000
OWN_CLIENT_ID: Final = "kavka-cli"
"""Of this very command, which reads the record, too."""


class FoundRecord(NamedTuple):
    """The record in the log. `timestamp_ms` is its own, by the producer's clock unless `by_broker`."""

    timestamp_ms: int
    by_broker: bool
    leader_epoch: int


class Commit(NamedTuple):
    """A group's earliest commit behind the record that is still kept."""

    group: str
    at_ms: int
    offset: int


class ShareState(NamedTuple):
    """What a share group has done with the record, as it stands now. `state`: `passed` where the group's first record
    that is not done is behind it, `not delivered`, or as the record's leader has it: available, acquired, acknowledged,
    archived. `start` is that first record; `deliveries` and `member` are those of a record that is in flight."""

    group: str
    state: str
    start: int
    deliveries: int = 0
    member: str | None = None

    def __str__(self) -> str:
        times = f"delivered {self.deliveries} time{'' if self.deliveries == 1 else 's'}"
        match self.state:
            case "passed":
                return (
                    f"group {self.group} has passed it, its first record that is not done is {self.start}: it was "
                    f"accepted or archived, or lies before where the group began"
                )
            case "not delivered":
                return f"group {self.group} was not given it yet"
            case "acquired":
                return f"group {self.group}: member {self.member} has it now, {times}"
            case "acknowledged":
                return f"group {self.group}: a member accepted it, {times}"
            case "archived":
                return f"group {self.group} does not get it again, {times}"
            case "available":
                return f"group {self.group} gets it again, {times}"
            case state:
                return f"group {self.group}: {state}"


class Findings(NamedTuple):
    """All that was found. `replicas` are the partition's, `unread` the brokers whose directories are elsewhere."""

    partition: TopicPartition
    offset: int
    record: FoundRecord | None = None
    record_missing: str = ""
    """Why there is no record, in words."""
    leader: int = -1
    replicas: Sequence[int] = ()
    unread: Sequence[int] = ()
    traces: Sequence[RequestTrace] = ()
    recordings: Sequence[RecordedWay] = ()
    slow: Sequence[Decision] = ()
    """Why-records of slow requests that begin with this record."""
    commits: Sequence[Commit] = ()
    commits_missing: str = ""
    shares: Sequence[ShareState] = ()
    """What share groups have done with it: they commit no offsets."""
    told_of_shares: Sequence[Decision] = ()
    """Why-records of share groups that were given it again, or no more."""
    shares_missing: str = ""


class Step(NamedTuple):
    """One step. `at_ms` is since 1970, with a fraction where it is known that well. `source` is what shows it."""

    at_ms: float
    what: str
    text: str
    source: str


class Way(NamedTuple):
    steps: Sequence[Step]
    unknown: Sequence[str]
    dominant: Verdict | None


def way_of(found: Findings) -> Way:
    """The steps in the order of time."""
    written = _writing(found)
    steps: list[Step] = []
    if written is not None:
        recorded: set[int] = {broker_id for recording in found.recordings for broker_id in recording.replicas}
        steps += _steps_of_trace(*written, recorded - _exact(written[0]))
    steps += _steps_of_recordings(found, written)
    if written is None and found.record is not None:
        clock = "the broker's" if found.record.by_broker else "the producer's"
        text = f"by {clock} clock, in leader epoch {found.record.leader_epoch}; by whom is not known"
        steps.append(Step(found.record.timestamp_ms, "written", text, "record's timestamp"))
    steps += [
        Step(decision.at_ms, "slow", decision.why, f"why-record of broker {decision.broker_id}")
        for decision in found.slow
        if written is None
    ]
    steps += _reads(found)
    steps += [
        Step(decision.at_ms, "share", decision.why, f"why-record of broker {decision.broker_id}")
        for decision in found.told_of_shares
    ]
    dominant = None if written is None else verdict(written[0])
    return Way(sorted(steps, key=lambda step: step.at_ms), list(_unknown(found, written)), dominant)


def _writing(found: Findings) -> tuple[RequestTrace, TracedPartition] | None:
    """The Produce that wrote it: the last one, should a producer have sent it twice. One whose end is not known counts
    only if it began with this very record."""
    for trace in sorted(found.traces, key=lambda each: -each.at_ms):
        for partition in trace.partitions:
            if trace.api == "Produce" and partition.has(found.partition, found.offset):
                return trace, partition
    return None


def _exact(trace: RequestTrace) -> set[int]:
    """The followers of which the trace has the very fetch that showed the records: all of a sampled request's; of a
    slow one that of the last follower, which ended its wait."""
    reached = [step for step in trace.followers if step.reached]
    if trace.sampled or not reached:
        return {step.broker_id for step in reached}
    return {max(reached, key=lambda step: step.fetched_us).broker_id}


def _steps_of_trace(trace: RequestTrace, partition: TracedPartition, better: set[int]) -> Iterator[Step]:
    """All but the fetches of followers in `better`, which a recording knows more exactly."""
    source = f"trace {trace.trace_id}"
    own = trace.broker_id
    client = f"client {trace.client_id or 'without a name'} at {trace.client_host} ({trace.principal})"
    span = f"offset {partition.first_offset}"
    if partition.end_offset > partition.first_offset + 1:
        span = f"offsets {partition.first_offset} to {partition.end_offset - 1}"
    yield Step(trace.at_ms, "received", f"by broker {own} from {client}: {trace.api}, {span}", source)
    if partition.appended_us >= 0:
        yield Step(
            trace.at_ms + partition.appended_us / US, "appended", f"to the log of broker {own}, the leader", source
        )
    for step in trace.followers:
        at_ms = trace.at_ms + max(step.fetched_us, 0) / US
        if (step.topic, step.partition) != found_place(partition):
            continue
        if not step.reached:
            left = "" if step.in_sync else ", and left the ISR"
            yield Step(at_ms, "missing", f"broker {step.broker_id} fetched for the last time, without it{left}", source)
        elif step.broker_id not in better:
            bound = "" if step.broker_id in _exact(trace) else " (at the latest)"
            yield Step(at_ms, "replicated", f"broker {step.broker_id} has it, as its fetch shows{bound}", source)
    if trace.flush_us:
        yield Step(trace.at_ms, "flush", f"the answer waited {trace.flush_us / US:.0f} ms for the disk", source)
    if trace.committed_us >= 0:
        yield Step(trace.at_ms + trace.committed_us / US, "committed", "the high watermark has passed it", source)
    stages = trace.stages
    answered_us = stages.request_queue + stages.local + stages.remote
    with_error = f"with {partition.error}" if partition.error else "as written"
    yield Step(
        trace.at_ms + answered_us / US,
        "answered",
        f"{with_error}; the answer took {stages.response_send} us to leave",
        source,
    )
    if stages.throttle:
        yield Step(
            trace.at_ms + answered_us / US,
            "throttled",
            f"its client is not read from for {stages.throttle / US:.0f} ms",
            source,
        )


def found_place(partition: TracedPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _steps_of_recordings(found: Findings, written: tuple[RequestTrace, TracedPartition] | None) -> Iterator[Step]:
    """What traces do not tell more exactly."""
    told = set() if written is None else _exact(written[0])
    best: dict[int, tuple[Sighting, int]] = {}
    committed: list[tuple[Sighting, int]] = []
    for recording in found.recordings:
        if recording.in_leader is not None and (written is None or written[1].appended_us < 0):
            _keep(best, recording.broker_id, recording.in_leader, recording.broker_id)
        for broker_id, sighting in recording.replicas.items():
            if broker_id not in told:
                _keep(best, broker_id, sighting, recording.broker_id)
        if recording.committed is not None and (written is None or written[0].committed_us < 0):
            committed.append((recording.committed, recording.broker_id))
    for replica, (sighting, leader) in best.items():
        what = "appended" if replica == leader else "replicated"
        text = "in the leader's log" if replica == leader else "its fetch shows that it has it"
        yield Step(
            sighting.at_ms,
            what,
            f"broker {replica}: {text}{_bound(sighting)}",
            f"flight recording of broker {leader}",
        )
    if committed:
        sighting, leader = min(committed)
        text = f"the high watermark has passed it{_bound(sighting)}"
        yield Step(sighting.at_ms, "committed", text, f"flight recording of broker {leader}")


def _keep(best: dict[int, tuple[Sighting, int]], broker_id: int, sighting: Sighting, leader: int) -> None:
    known = best.get(broker_id)
    if known is None or sighting < known[0]:
        best[broker_id] = (sighting, leader)


def _bound(sighting: Sighting) -> str:
    return " (at the latest: the recording begins here)" if sighting.at_latest else ""


def _reads(found: Findings) -> Iterator[Step]:
    fetches = sorted(
        (trace.at_ms, trace, partition)
        for trace in found.traces
        for partition in trace.partitions
        if trace.api == "Fetch"
        and trace.client_id != OWN_CLIENT_ID
        and partition.topic_partition == found.partition
        and partition.first_offset == found.offset
    )
    for _, trace, partition in fetches[:1]:
        yield Step(
            trace.at_ms + trace.stages.total / US,
            "fetched",
            f"client {trace.client_id} at {trace.client_host} asked broker {trace.broker_id} from offset "
            f"{partition.first_offset} on, and got records",
            f"trace {trace.trace_id}",
        )
    for commit in found.commits:
        yield Step(
            commit.at_ms,
            "read",
            f"group {commit.group} committed offset {commit.offset}, and had read it by then",
            "commit",
        )


def _unknown(found: Findings, written: tuple[RequestTrace, TracedPartition] | None) -> Iterator[str]:
    if found.record_missing:
        yield found.record_missing
    perhaps = [
        trace.trace_id
        for trace in found.traces
        for partition in trace.partitions
        if trace.api == "Produce" and partition.has(found.partition, found.offset) is None
    ]
    if written is None and perhaps:
        yield f"who wrote it: perhaps the request of trace {perhaps[-1]}, whose last offset is not known"
    elif written is None:
        yield (
            "who wrote it, and its stages: no slow and no sampled request has it here "
            "(kavka.slow.request.ms, kavka.request.trace.sample)"
        )
    shown = _shown_replicas(found, written)
    for broker_id in found.replicas:
        if broker_id not in shown and broker_id != found.leader:
            yield f"when broker {broker_id} had it: no trace and no flight recording here shows it"
    if found.unread:
        brokers = ", ".join(map(str, found.unread))
        yield f"what brokers {brokers} keep in their log directories, which are not on this machine (copy them: --data)"
    if found.commits_missing:
        yield found.commits_missing
    elif not found.commits and not found.shares:
        yield "which group read it first: no kept commit is behind it; compaction leaves the last commits only"
    if found.shares_missing:
        yield found.shares_missing


def _shown_replicas(found: Findings, written: tuple[RequestTrace, TracedPartition] | None) -> set[int]:
    shown: set[int] = {broker_id for recording in found.recordings for broker_id in recording.replicas}
    shown |= {recording.broker_id for recording in found.recordings if recording.in_leader is not None}
    if written is not None:
        shown |= {step.broker_id for step in written[0].followers}
        shown.add(written[0].broker_id)
    return shown


def tell(found: Findings, way: Way) -> Iterator[str]:
    """The way as lines for people."""
    yield f"{printable(str(found.partition))}@{found.offset}"
    first_ms = way.steps[0].at_ms if way.steps else 0.0
    for step in way.steps:
        moment = datetime.fromtimestamp(step.at_ms / 1000).astimezone()
        clock = moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
        since = f"+{step.at_ms - first_ms:,.1f} ms"
        yield f"  {clock}  {since:>14}  {step.what:<10}  {printable(step.text)}  [{step.source}]"
    if way.dominant is not None:
        yield ""
        yield f"{way.dominant.share:.0%} of the request's time: {printable(way.dominant.why)}."
    if found.shares:
        yield ""
        yield "Share groups, as they stand now:"
        yield from (f"  {printable(str(share))}" for share in found.shares)
    if way.unknown:
        yield ""
        yield "Not known:"
        yield from (f"  {printable(text)}" for text in way.unknown)


def as_fields(found: Findings, way: Way) -> Mapping[str, object]:
    """The way as JSON."""
    fields: dict[str, object] = {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "offset": found.offset,
        "steps": [step._asdict() for step in way.steps],
        "share_groups": [share._asdict() for share in found.shares],
        "unknown": list(way.unknown),
    }
    if way.dominant is not None:
        stage, broker_id, why, share = way.dominant
        fields["dominant"] = {"stage": stage.value, "broker": broker_id, "why": why, "share": round(share, 3)}
    return fields


def earliest_ms(found: Findings) -> int:
    """From when on a group may have read it, as far as is known."""
    times: Iterable[float] = (
        *((trace.at_ms for trace, _ in [written]) if (written := _writing(found)) is not None else ()),
        *(way.committed.at_ms for way in found.recordings if way.committed is not None),
        *((found.record.timestamp_ms,) if found.record is not None and found.record.timestamp_ms >= 0 else ()),
    )
    return int(min(times, default=0))
