"""`kavka records delete`: take the oldest records of a topic away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, Table, confirm, counted, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.model import TopicPartition

app = CommandLine(name="records", help="Delete the oldest records of topics.")


@app.command("delete")
def delete(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, metavar="N", help="Only this partition; may be repeated."),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", min=0, metavar="OFFSET", help="Records before this offset.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All records that are there now.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the oldest records of a topic.

    [bold]Examples[/bold]

    kavka records delete orders --all

    kavka records delete orders --partition 3 --before 1200 --yes
    """
    partitions = partitions or []
    if (before is None) == (not everything):
        usage("give exactly one of --before and --all", "for example kavka records delete orders --before 1200")
    which = "all records" if everything else f"all records before offset {before}"
    where = f"{'partition' if len(partitions) == 1 else 'partitions'} {', '.join(map(str, partitions))} of "
    confirm(f"delete {which} of {where if partitions else ''}{topic}", yes=yes)

    async def work(cluster: Cluster) -> Mapping[TopicPartition, int]:
        from kavka.client.admin import UP_TO_HIGH_WATERMARK, Admin
        from kavka.model import TopicPartition

        admin = Admin(cluster)
        (described,) = await admin.describe_topics([topic])
        has = [each.partition for each in described.partitions]
        missing = [number for number in partitions if number not in has]
        if missing:
            raise Failure(
                f"{topic} has no partition {missing[0]}: it has {counted(len(has), 'partition')}",
                f"`kavka topics describe {topic}` shows them",
            )
        numbers = list(partitions) or has
        offset = UP_TO_HIGH_WATERMARK if before is None else before
        return await admin.delete_records({TopicPartition(topic, number): offset for number in numbers})

    starts = with_cluster(bootstrap, work)
    if as_json:
        show_json([{"topic": name, "partition": number, "log_start": at} for (name, number), at in starts.items()])
        return
    table = Table(["partition", "begins now at"], ["begins now at"])
    for partition, start in sorted(starts.items()):
        table.add(partition, start)
    show(table)
    note("Records before that offset are no longer read. Their files are deleted with the next retention check.")
