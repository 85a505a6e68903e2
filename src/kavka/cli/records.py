"""`kavka records delete`: take the oldest records of a topic away."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure, Table, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.model import TopicPartition


def delete(
    bootstrap: str | None,
    topic: str,
    *,
    partitions: Sequence[int],
    before: int | None,
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Moves the log starts of partitions. Raises Failure where that is refused or not wanted after all."""
    if (before is None) == (not everything):
        usage("which records?", "give --before OFFSET, or --all for those that are there now")
    if not yes:
        if not sys.stdin.isatty():
            usage("records that are deleted are gone", "add --yes to say that you mean it")
        which = "All records" if everything else f"All records before offset {before}"
        answer = input(f"{which} of {topic} will be gone. Type yes: ")
        if answer.strip().lower() not in ("y", "yes"):
            raise Failure("nothing was deleted")

    async def work(cluster: Cluster) -> Mapping[TopicPartition, int]:
        from kavka.client.admin import UP_TO_HIGH_WATERMARK, Admin
        from kavka.model import TopicPartition

        admin = Admin(cluster)
        (described,) = await admin.describe_topics([topic])
        numbers = list(partitions) or [each.partition for each in described.partitions]
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
    note("What lies before that is not read any more; its files go with the next look at retention.")
