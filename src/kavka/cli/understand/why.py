"""`kavka why`: why a leader moved, an ISR shrank, a broker was fenced: the brokers' own decisions, told in order.

Decides where decisions are read: in the cluster's topic; where it has none, in the ring of the one broker that answers,
if its log directory is on this machine; with --data in the rings that the brokers left in their log directories (the
cluster may be down then).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.missing_names import LISTED_GROUPS, LISTED_TOPICS, next_step, require_topics
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, counted, note, usage
from kavka.cli.session import bootstrap_of
from kavka.cli.times import moment_ms, parse_duration
from kavka.cli.understand.decision_source import from_cluster, from_rings
from kavka.cli.understand.story import (
    NEAR_MS,
    Subject,
    dominant_stages,
    headline,
    parse_subject,
    select,
    standing,
    tell,
)

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.decisions import Decision, RecordedDecision

app = CommandLine()


DEFAULT_SINCE_MS = 24 * 3_600_000
NEW_CONTROLLER_S = 30
"""How long a topic that nobody knows is asked for while the cluster has no controller: longer than a session lasts."""

WORD_OF_A_TOPIC_S = 1
"""How long it is asked for once there is a controller, which tells every broker of all topics when it begins."""


@app.command("why")
def why(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT",
            help="TOPIC-PARTITION, TOPIC, broker [N], group G, controller, denied or slow; everything by default.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="How things stood then, and why: 10:42, or ISO 8601.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", show_default="24h", help="How far to look back: 90s, 10m, 2h, 7d."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="DIRECTORY", help="Read log directories instead of asking the cluster."),
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="PRINCIPAL", help="With denied: only alice's, or User:alice's.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="With denied, slow: only this topic.")
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="When and what only: one line for each decision.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Explain why leaders moved, ISRs shrank, and so on.

    It shows what the brokers decided, when, and on which evidence.

    [bold]Examples[/bold]

    kavka why orders-3

    kavka why orders-3 --at 10:42

    kavka why broker 2 --since 2h

    kavka why slow
    """
    subject = _subject(words or [], topic=topic, principal=principal)
    now_ms = time.time_ns() // 1_000_000
    at_ms = None if at is None else moment_ms(at, now_ms)
    since_ms = (now_ms if at_ms is None else at_ms) - (DEFAULT_SINCE_MS if since is None else parse_duration(since))
    decisions = from_rings(data, since_ms) if data else _from_cluster(bootstrap, since_ms)
    everything, decisions = decisions, _until(at_ms, decisions)
    told = select(decisions, subject, at_ms=at_ms)
    if _is_unheard_of(subject, decisions):
        found = _in_rings(subject, decisions) if data else _in_cluster(bootstrap, subject, is_known=bool(told))
        if found != subject or not told:
            if not data and at_ms is None:
                decisions = _from_cluster(bootstrap, since_ms)  # The topic may be younger than the first reading.
            subject, told = found, select(decisions, found, at_ms=at_ms)
    elif not told:
        _require(subject, bootstrap, in_rings=bool(data))
    _show_standing([] if as_json else everything, subject, at_ms)
    _show(decisions, told, subject, brief=brief, as_json=as_json)


def _until(at_ms: int | None, decisions: list[RecordedDecision]) -> list[RecordedDecision]:
    """Without those that came after a moment, and not near it."""
    if at_ms is None:
        return decisions
    return [each for each in decisions if each.decision.at_ms <= at_ms + NEAR_MS]


def _subject(words: Sequence[str], *, topic: str | None, principal: str | None) -> Subject:
    """What the command line is about; `topic` and `principal` narrow denials. Raises Failure."""
    try:
        subject = parse_subject(words)
    except ValueError as problem:
        usage(str(problem), "for example: kavka why orders-3, kavka why broker 2, kavka why controller")
    if subject.denied:
        from kavka.cli.security.denied import principal_named

        return subject._replace(topic=topic, principal=None if principal is None else principal_named(principal))
    if subject.slow and principal is None:
        return subject._replace(topic=topic)
    if principal is not None:
        usage("--principal belongs to `kavka why denied`", "for example: kavka why denied --principal User:alice")
    if topic is not None:
        usage(
            "--topic belongs to `kavka why denied` and `kavka why slow`",
            f"for example: kavka why slow --topic {topic}, or kavka why {topic}",
        )
    return subject


def _is_unheard_of(subject: Subject, decisions: Sequence[RecordedDecision]) -> bool:
    """Whether it is about a topic or partition that no decision names: is there one?"""
    return (
        subject.topic is not None
        and not subject.denied
        and not subject.slow
        and not any(subject.names(recorded.decision.partition) for recorded in decisions)
    )


def _in_rings(subject: Subject, decisions: Sequence[RecordedDecision]) -> Subject:
    """The subject, if any decision is about its topic; `a-1` may be the name of a topic, too. Raises Failure."""
    for each in (subject, Subject(topic=f"{subject.topic}-{subject.partition}")):
        if any(Subject(topic=each.topic).concerns(recorded.decision) for recorded in decisions):
            return each
    raise Failure(f"no decision in these directories names {subject}", "--since 7d looks further back")


def _in_cluster(bootstrap: str | None, subject: Subject, *, is_known: bool) -> Subject:
    """The subject, if there is such a topic or partition; `a-1` may be the name of a topic, too. Raises Failure.

    `is_known`: there were decisions about the topic, which may have been deleted since.
    """
    from kavka.cli.session import with_cluster

    whole = f"{subject.topic}-{subject.partition}"

    async def work(cluster: Cluster) -> dict[str, int]:
        import asyncio

        from kavka.client.admin import Admin

        deadline = time.monotonic() + NEW_CONTROLLER_S
        while True:
            listed = await Admin(cluster).list_topics(include_internal=True)
            topics = {each.name: len(each.partitions) for each in listed}
            of_the_controller = {} if is_known else await _topics_of_the_controller(cluster)
            topics |= of_the_controller or {}
            if is_known or topics.keys() & {subject.topic, whole} or time.monotonic() >= deadline:
                return topics
            # The controller that made the topic may have died with the word of it: the next one tells the others.
            if of_the_controller is not None:
                deadline = min(deadline, time.monotonic() + WORD_OF_A_TOPIC_S)
            await asyncio.sleep(0.2)

    topics = with_cluster(bootstrap, work)
    count = topics.get(subject.topic or "", 0)
    if (subject.partition or 0) < count:
        return subject
    if whole in topics:
        return Subject(topic=whole)
    if count:
        raise Failure(
            f"there is no partition {subject}: {subject.topic} has {counted(count, 'partition')}",
            f"for example kavka why {subject.topic}-0",
        )
    if is_known:
        return subject
    raise Failure(f"there is no topic {subject.topic}", next_step(subject.topic or "", topics, LISTED_TOPICS))


async def _topics_of_the_controller(cluster: Cluster) -> dict[str, int] | None:
    """Topics by name, with the number of partitions. The controller knows of them first. None if it cannot be reached:
    after a crash brokers name the dead one."""
    from kavka.errors import ConnectionFailed
    from kavka.protocol.api import ApiKey
    from kavka.protocol.messages.metadata_request import MetadataRequest
    from kavka.protocol.messages.metadata_response import MetadataResponse

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    try:
        await cluster.refresh([])
        answer = await cluster.ask(ApiKey.METADATA, request, MetadataResponse, to_controller=True)
    except ConnectionFailed:
        return None
    if cluster.controller_id not in cluster.brokers:
        return None
    return {each.name: len(each.partitions) for each in answer.topics if each.name is not None and not each.error_code}


def _require(subject: Subject, bootstrap: str | None, *, in_rings: bool) -> None:
    """Raises Failure for a subject that nothing was decided about, and that is not there."""
    if subject.broker is not None:
        _require_broker(subject.broker, None if in_rings else bootstrap_of(bootstrap))
    elif subject.group is not None:
        _require_group(subject.group, None if in_rings else bootstrap_of(bootstrap))
    elif subject.topic is not None and not subject.denied and not in_rings:
        # What was denied need not be there: a client asks for a topic by a wrong name.
        require_topics(bootstrap, [subject.topic])


def _require_group(group: str, bootstrap: str | None) -> None:
    """As `_require_broker`, for a group."""
    if bootstrap is None:
        raise Failure(f"no decision in these directories names group {group}", "--since 7d looks further back")
    from kavka.cli.session import with_cluster

    async def work(cluster: Cluster) -> list[str]:
        from kavka.client.group_admin import GroupAdmin

        return [each.group_id for each in await GroupAdmin(cluster).list_groups()]

    known = with_cluster(bootstrap, work)
    if group not in known:
        raise Failure(
            f"there is no group {group}, and no decision about one in that time",
            f"{next_step(group, known, LISTED_GROUPS)}; --since 7d looks further back",
        )


def _require_broker(broker: int, bootstrap: str | None) -> None:
    """Raises Failure for a broker that nothing was decided about, and that the cluster does not have; `bootstrap` is
    None where log directories are read."""
    if bootstrap is None:
        raise Failure(f"no decision in these directories names broker {broker}", "--since 7d looks further back")
    from kavka.cli.session import with_cluster

    async def work(cluster: Cluster) -> list[int]:
        from kavka.client.admin import Admin

        return [each.node_id for each in (await Admin(cluster).describe_cluster()).brokers]

    registered = with_cluster(bootstrap, work)
    if broker not in registered:
        raise Failure(
            f"there is no broker {broker}, and no decision about one in that time; registered are "
            f"{', '.join(map(str, registered)) or 'none'}",
            "see `kavka brokers`; --since 7d looks further back",
        )


def _show_standing(decisions: Sequence[RecordedDecision], subject: Subject, at_ms: int | None) -> None:
    """Who led then, and who was in sync; nothing where that is not asked, or not a question of partitions."""
    if at_ms is None or not decisions or subject.topic is None or subject.denied or subject.slow:
        return
    lines = list(standing(decisions, subject, at_ms))
    print(f"At {_clock(at_ms)}:")
    for line in lines or [f"{subject}: no change is recorded; `kavka topics describe {subject.topic}` shows it now"]:
        print(f"  {line}")
    print()


def _show(
    decisions: Sequence[RecordedDecision], told: Sequence[Decision], subject: Subject, *, brief: bool, as_json: bool
) -> None:
    if as_json:
        from kavka.decisions import encode_decision

        chosen = {id(decision) for decision in told}
        for recorded in decisions:
            if id(recorded.decision) in chosen:
                print(encode_decision(recorded).decode())
        return
    if not told and subject.slow:
        note(
            "No slow request was recorded in that time (kavka.slow.request.ms says what is slow); --since 7d looks "
            "further back."
        )
        return
    if not told and subject.denied:
        note(f"There were no {subject} in that time; --since 7d looks further back.")
        return
    if not told:
        note(f"Nothing was decided about {subject} in that time; --since 7d looks further back.")
        return
    if brief:
        for decision in told:
            print(f"{_clock(decision.at_ms)}  {headline(decision)}")
        return
    for line in tell(told, subject):
        print(line)
    if subject.slow:
        print("\nWhere most of their time went, and which broker was waited for:")
        for line in dominant_stages(told):
            print(line)
    if subject.denied:
        _show_remedies(told)


def _show_remedies(told: Sequence[Decision]) -> None:
    from kavka.cli.security.denied import allowing

    commands = list(allowing(told))
    if commands:
        print("\nIf they should be allowed:")
        for command in commands:
            print(f"  {command}")


def _from_cluster(bootstrap: str | None, since_ms: int) -> list[RecordedDecision]:
    from kavka.cli.session import with_cluster

    return with_cluster(bootstrap, lambda cluster: from_cluster(cluster, since_ms))


def _clock(at_ms: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
