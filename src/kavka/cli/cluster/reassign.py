"""`kavka reassign`: plan, execute, watch and cancel moves of partitions to other brokers.

Decides what is refused as nonsense before anything is sent. Must not know how a plan is made
(`client.reassignment_plan`), what a throttle is (`replication_throttle`), how far a move is (`move_status`), nor how
partitions move.

Source: kafka-reassign-partitions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.cluster.move_status import (
    MoveStatus,
    Replicas,
    current_partitions,
    facts_of,
    ids,
    partition_of,
    progress,
    read_status,
    show_status,
)
from kavka.cli.cluster.replication_throttle import clear_throttle, origin_of, set_throttle
from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, DryRun, Json, OfTopic, OnePartition
from kavka.cli.output import Failure, counted, note, show_json, usage, write_file
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import Admin, Reassignment
    from kavka.client.cluster import Cluster
    from kavka.client.reassignment_plan import Plan, PlannedBroker
    from kavka.errors import RequestError
    from kavka.model import TopicPartition

app = CommandLine(name="reassign", help="Move partitions to other brokers.")

Throttle = Annotated[
    int | None,
    typer.Option("--throttle", metavar="BYTES", min=1, help="Copy at most this many bytes per second and broker."),
]
ReplicaCount = Annotated[
    int | None,
    typer.Option(
        "--replicas", "-r", min=1, metavar="N", show_default="as many as now", help="Replicas of each partition."
    ),
]


LOOK_AGAIN_S = 1.0
"""How often `status --wait` looks."""


@app.command("plan")
def plan(
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", show_default="all", help="Only these topics.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="ID,ID,...", show_default="all live brokers", help="Where replicas may be."),
    ] = None,
    replicas: ReplicaCount = None,
    internal: Annotated[bool, typer.Option("--internal", "-a", help="Include internal topics.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the plan to this file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="No effect: a plan is always JSON.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Plan where replicas should be, as JSON, and show what that copies. Nothing moves.

    Replicas are spread evenly over the brokers, and over racks where every broker has one, with as little copied as
    that takes. Without --topic all topics are planned together. The JSON is that of kafka-reassign-partitions.

    [bold]Examples[/bold]

    kavka reassign plan --brokers 1,2,3,4 --output move.json

    kavka reassign plan --topic orders --replicas 3 | kavka reassign execute -
    """
    wanted = _broker_ids(brokers)
    from kavka.client.reassignment_plan import plan as make_plan
    from kavka.client.reassignment_plan import to_json

    async def work(cluster: Cluster) -> Plan:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        allowed = await _allowed(admin, wanted)
        found = await (admin.describe_topics(topics) if topics else admin.list_topics(include_internal=internal))
        current = {partition_of(topic.name, each): each.replicas for topic in found for each in topic.partitions}
        try:
            return make_plan(current, allowed, await _sizes(admin), replication_factor=replicas)
        except ValueError as problem:
            raise Failure(str(problem), "name more brokers, or fewer replicas with --replicas") from problem

    made = with_cluster(bootstrap, work)
    if output is None:
        print(to_json(made.moves))
    else:
        write_file(output, [to_json(made.moves), "\n"])
    if not made.moves:
        note("Nothing to move: the replicas are on these brokers already, and evenly spread.")
        return
    note(_summary(made))
    note(
        f"Next: `kavka reassign execute {output or 'FILE'}`" + ("." if output else ", with this output saved as FILE.")
    )


def _broker_ids(text: str | None) -> list[int]:
    """Broker ids, each once; all live brokers where there are none."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words) or (text is not None and not words):
        usage(f"--brokers {text}: broker ids are numbers", "for example --brokers 1,2,3")
    return sorted({int(word) for word in words})


async def _allowed(admin: Admin, wanted: Sequence[int]) -> list[PlannedBroker]:
    from kavka.client.reassignment_plan import PlannedBroker

    live = {broker.node_id: broker for broker in (await admin.describe_cluster()).brokers}
    missing = [node_id for node_id in wanted if node_id not in live]
    if missing:
        raise Failure(f"there is no live broker {ids(missing)}; live are {ids(sorted(live))}", "see `kavka brokers`")
    return [PlannedBroker(node_id, live[node_id].rack) for node_id in sorted(wanted or live)]


async def _sizes(admin: Admin) -> dict[TopicPartition, int]:
    """The largest replica of each partition, in bytes."""
    sizes: dict[TopicPartition, int] = {}
    for directories in (await admin.describe_log_dirs()).values():
        for directory in directories:
            for replica in directory.replicas:
                sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
    return sizes


class _Prepared(NamedTuple):
    """A plan as it was checked. `rollback` is the plan that undoes it."""

    plan: Plan
    rollback: str
    under_way: Mapping[TopicPartition, Reassignment]


@app.command("execute")
def execute(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A plan, as plan writes it; - for standard input.")],
    throttle: Throttle = None,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional", help="Start even if other partitions move; moves of the same partitions are replaced."
        ),
    ] = False,
    keep_factor: Annotated[
        bool, typer.Option("--keep-factor", help="Refuse to change the number of replicas (Kafka 4.1).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Allow fewer replicas than min.insync.replicas.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Start the moves of a plan, after printing the plan that undoes them.

    Clients can write and read throughout. Replicas are added and catch up; only then are others removed. The
    controller goes on after failures, its own included.

    [bold]Examples[/bold]

    kavka reassign execute move.json --throttle 50000000 > undo.json

    kavka reassign plan --brokers 1,2,3 | kavka reassign execute -
    """
    wanted = _read(file)

    async def work(cluster: Cluster) -> tuple[_Prepared, dict[TopicPartition, RequestError]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        prepared = await _prepare(admin, wanted, additional=additional, force=force)
        if dry_run or not prepared.plan.moves:
            return prepared, {}
        if throttle is not None:
            await set_throttle(admin, prepared.plan, prepared.under_way, throttle)
        failures = await admin.alter_partition_reassignments(
            prepared.plan.moves, allow_replication_factor_change=not keep_factor
        )
        return prepared, failures

    prepared, failures = with_cluster(bootstrap, work)
    begun = [] if dry_run else [partition for partition in prepared.plan.moves if partition not in failures]
    if as_json:
        failed = {str(partition): error.message for partition, error in failures.items()}
        facts = {"begun": list(map(str, begun)), "dry_run": dry_run, "failed": failed}
        show_json({**facts, "bytes_moved": prepared.plan.bytes_moved, "rollback": prepared.rollback})
    else:
        _show_begun(prepared, len(begun), file, throttle)
    for partition, error in failures.items():
        raise Failure(
            f"{partition}: {error.message}", f"moves that have begun: {len(begun)}; see `kavka reassign status`"
        )


def _show_begun(prepared: _Prepared, begun: int, file: str, throttle: int | None) -> None:
    if not prepared.plan.moves:
        note("Nothing to move: every partition of the plan is where it should be.")
        return
    note("The plan that undoes it, to save for `kavka reassign execute`:")
    print(prepared.rollback)
    note(_summary(prepared.plan))
    if not begun:
        note("Nothing was begun.")
        return
    note(f"{counted(begun, 'partition')} begun to move. Next: `kavka reassign status {file}`.")
    if throttle is not None:
        note(f"Throttled to {throttle:,} bytes per second for each broker, until `status --clear` lifts it.")


def _read(file: str) -> Replicas:
    from kavka.client.reassignment_plan import MalformedPlan, from_json

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as problem:
        raise Failure(f"cannot read {file}: {problem.strerror}", "`kavka reassign plan` makes a plan") from problem
    except UnicodeDecodeError as problem:
        raise Failure(f"{file} is not text: {problem}", "`kavka reassign plan` makes a plan") from problem
    try:
        return from_json(text)
    except MalformedPlan as problem:
        raise Failure(f"{file}: {problem}", "`kavka reassign plan` makes a plan") from problem


async def _prepare(admin: Admin, wanted: Replicas, *, additional: bool, force: bool) -> _Prepared:
    from kavka.client.reassignment_plan import compare, to_json

    under_way = await admin.list_partition_reassignments()
    if under_way and not additional:
        raise Failure(
            f"already moving: {_some(under_way)}",
            "wait (`kavka reassign status`), cancel them, or add --additional to begin more, or others for these",
        )
    await _allowed(admin, sorted({replica for replicas in wanted.values() for replica in replicas}))
    current = await current_partitions(admin, wanted)
    missing = [partition for partition in wanted if partition not in current]
    if missing:
        raise Failure(f"there is no partition {_some(missing)}", "see `kavka topics describe`")
    moves = {
        partition: replicas
        for partition, replicas in wanted.items()
        if replicas != (under_way[partition].target if partition in under_way else current[partition].replicas)
    }
    if not force:
        await _refuse_too_few(admin, moves)
    before = {
        partition: origin_of(under_way[partition]) if partition in under_way else current[partition].replicas
        for partition in moves
    }
    return _Prepared(compare(before, moves, await _sizes(admin)), to_json(before), under_way)


async def _refuse_too_few(admin: Admin, moves: Replicas) -> None:
    """Fewer replicas than min.insync.replicas: acknowledged records would be on fewer brokers than that asks for."""
    from kavka.client.admin import ConfigResource, ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted({each.topic for each in moves})]
    configs = await admin.describe_configs(resources) if resources else {}
    for partition, replicas in moves.items():
        entries = configs[ConfigResource(ResourceType.TOPIC, partition.topic)]
        least = next((int(entry.value) for entry in entries if entry.name == "min.insync.replicas" and entry.value), 1)
        if len(replicas) < least:
            raise Failure(
                f"{partition} would have {counted(len(replicas), 'replica')}, and min.insync.replicas is {least}",
                "name more brokers for it, lower min.insync.replicas, or add --force",
            )


@app.command("status")
def status(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A plan; everything that moves by default.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Lift the throttles once nothing moves.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Return when all moves are done.")] = False,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer than this.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the progress of moves.

    [bold]Examples[/bold]

    kavka reassign status

    kavka reassign status move.json --wait --clear
    """
    wanted = _read(file) if file is not None else None

    async def work(cluster: Cluster) -> tuple[list[MoveStatus], list[str]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        found = await (_wait(admin, wanted, timeout_s) if wait else read_status(admin, wanted))
        cleared: list[str] = []
        moves = any(each.state == "moving" for each in found)
        if clear and not moves and not await admin.list_partition_reassignments():
            names = {each.topic for each in wanted} if wanted is not None else None
            if names is None:
                names = {topic.name for topic in await admin.list_topics(include_internal=True)}
            cleared = await clear_throttle(admin, names)
        return found, cleared

    found, cleared = with_cluster(bootstrap, work)
    if as_json:
        show_json({"partitions": [facts_of(each) for each in found], "throttles_cleared": cleared})
        return
    show_status(found)
    if clear and any(each.state == "moving" for each in found):
        note("Throttles stay while partitions move.")
    elif clear:
        note(f"Throttles lifted: {', '.join(cleared) or 'there were none'}.")


async def _wait(admin: Admin, wanted: Replicas | None, timeout_s: float | None) -> list[MoveStatus]:
    """Looks again until nothing moves. Raises Failure after `timeout_s`."""
    import asyncio

    began = time.monotonic()
    while True:
        found = await read_status(admin, wanted)
        moving = [each for each in found if each.state == "moving"]
        if not moving:
            break
        if timeout_s is not None and time.monotonic() - began > timeout_s:
            raise Failure(
                f"{counted(len(moving), 'partition')} still moving after {timeout_s:g} s", "see `kavka reassign status`"
            )
        if sys.stderr.isatty():
            print(f"\r\x1b[K{progress(moving)}", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(LOOK_AGAIN_S)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return found


@app.command("cancel")
def cancel(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A plan: cancel the moves of its partitions.")
    ] = None,
    topic: OfTopic = None,
    partition: OnePartition = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel all moves.")] = False,
    keep_throttle: Annotated[bool, typer.Option("--keep-throttle", help="Keep the throttles.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Cancel moves: the replicas stay where they were, and what was copied is deleted.

    [bold]Example[/bold]

    kavka reassign cancel --topic orders --partition 3
    """
    if (file is not None) + (topic is not None) + everything != 1:
        usage("give exactly one of FILE, --topic and --all", "for example kavka reassign cancel --topic orders")
    if partition is not None and topic is None:
        usage("--partition without --topic", "for example --topic orders --partition 3")
    wanted = _read(file) if file is not None else None

    async def work(cluster: Cluster) -> tuple[list[TopicPartition], dict[TopicPartition, RequestError], list[str]]:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        under_way = await admin.list_partition_reassignments()
        chosen = [
            each
            for each in sorted(under_way)
            if everything
            or (wanted is not None and each in wanted)
            or (topic is not None and each.topic == topic and partition in (None, each.partition))
        ]
        failures = await admin.alter_partition_reassignments(dict.fromkeys(chosen)) if chosen else {}
        cleared: list[str] = []
        if not keep_throttle and not failures and not await admin.list_partition_reassignments():
            cleared = await clear_throttle(admin, {each.topic for each in chosen})
        return chosen, failures, cleared

    chosen, failures, cleared = with_cluster(bootstrap, work)
    cancelled = [each for each in chosen if each not in failures]
    if as_json:
        failed = {str(each): error.message for each, error in failures.items()}
        show_json({"cancelled": list(map(str, cancelled)), "failed": failed, "throttles_cleared": cleared})
    elif not chosen:
        note("None of these is moving.")
    else:
        for each in cancelled:
            print(f"{each} stays where it was.")
        if cleared:
            note(f"Throttles lifted: {', '.join(cleared)}.")
    for each, error in failures.items():
        raise Failure(f"{each}: {error.message}")


def _summary(plan: Plan) -> str:
    copies = sum(map(len, plan.copied.values()))
    moves = f"{counted(len(plan.moves), 'partition')} to change"
    if not copies:
        return f"{moves}, nothing to copy."
    return f"{moves}, {counted(copies, 'replica')} to copy: {plan.bytes_moved:,} bytes at present sizes."


def _some(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(map(str, partitions))
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
