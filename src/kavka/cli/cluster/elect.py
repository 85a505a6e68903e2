"""`kavka elect`: have preferred replicas lead again, or any replica where nobody leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json, OfTopic, OnePartition
from kavka.cli.output import Failure, confirm, note, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.errors import RequestError
    from kavka.model import TopicPartition

app = CommandLine()


@app.command("elect")
def elect(
    preferred: Annotated[
        bool,
        typer.Option("--preferred/--unclean", help="Elect the first replica, or any live one where nobody can lead."),
    ] = True,
    topic: OfTopic = None,
    partition: OnePartition = None,
    everything: Annotated[bool, typer.Option("--all", help="All partitions that need an election.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an unclean election.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Elect leaders: the preferred ones, or any live one.

    By default, preferred replicas lead again. With --unclean, any live replica may lead a partition that has no
    leader. An unclean election loses the records that the new leader does not have, and asks first.

    [bold]Examples[/bold]

    kavka elect --all

    kavka elect --unclean --topic orders --partition 3
    """
    unclean = not preferred
    if (topic is not None) == everything:
        usage("give exactly one of --topic and --all", "for example kavka elect --topic orders --partition 3")
    if partition is not None and topic is None:
        usage("--partition without --topic", "for example --topic orders --partition 3")
    if unclean:
        confirm("let replicas lead that are not in sync, which may lose acknowledged records", yes=yes)

    async def work(cluster: Cluster) -> dict[TopicPartition, RequestError | None]:
        from kavka.client.admin import Admin, ElectionType
        from kavka.model import TopicPartition

        admin = Admin(cluster)
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        if topic is None:
            return await admin.elect_leaders(kind)
        if partition is not None:
            return await admin.elect_leaders(kind, [TopicPartition(topic, partition)])
        (described,) = await admin.describe_topics([topic])
        return await admin.elect_leaders(kind, [TopicPartition(topic, each.partition) for each in described.partitions])

    _show(with_cluster(bootstrap, work), unclean=unclean, as_json=as_json)


def _show(outcomes: Mapping[TopicPartition, RequestError | None], *, unclean: bool, as_json: bool) -> None:
    """Raises Failure where a partition that needs a leader did not get one."""
    elected = [each for each, error in outcomes.items() if error is None]
    settled = [
        each for each, error in outcomes.items() if error is not None and error.code.name == "ELECTION_NOT_NEEDED"
    ]
    failed = {each: error for each, error in outcomes.items() if error is not None and each not in settled}
    if as_json:
        show_json(
            {
                "elected": list(map(str, elected)),
                "not_needed": list(map(str, settled)),
                "failed": {str(each): {"error": e.code.name, "message": e.message} for each, e in failed.items()},
            }
        )
    else:
        who = "a leader" if unclean else "its preferred leader"
        for each in elected:
            print(f"{each} has {who} again.")
        if not elected and not failed:
            note("No election was needed.")
    for each, error in failed.items():
        raise Failure(f"{each}: {error.message}", _next_step(error.code.name))


def _next_step(code: str) -> str:
    return {
        "PREFERRED_LEADER_NOT_AVAILABLE": "wait until the preferred replica is in sync: `kavka topics describe`",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE": "start a broker that has a replica: `kavka topics describe` names them",
        "UNKNOWN_TOPIC_OR_PARTITION": "see `kavka topics describe`",
    }.get(code, "")
