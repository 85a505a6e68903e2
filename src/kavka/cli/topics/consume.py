"""`kavka consume`: records of topics to standard output.

Decides where reading starts and ends, and how records are written. Must not know fetches or groups: the client does.

    -o beginning | end | stored      where there is no offset of the group's, or no group
    -o N | -o -N                     an offset | the last N records of each partition
    -o s@TIME  -o e@TIME             from the first record at TIME on | up to it; ms since 1970 or ISO 8601
    --share GROUP                    as a member of a share group, which decides all of that itself (consume_share)

I1. With an end (-e, -c, e@) exactly the records before it are written, in each partition's order.
Source: kcat(1), consumer mode.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Quiet, TopicHabit
from kavka.cli.output import Failure, Progress, counted, note, usage
from kavka.cli.session import with_cluster
from kavka.cli.times import parse_time
from kavka.cli.topics.consume_share import Ack, ShareReading, print_share_records
from kavka.cli.topics.line_format import MalformedLine, Writer, compile_format, plain, unescape
from kavka.cli.topics.line_format import as_json as json_line

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.consumer import Consumer, ConsumerRecord
    from kavka.model import TopicPartition

app = CommandLine()


POLL_RECORDS = 10_000
"""Records that are written between two looks at the network."""
SHARE_ALONE = "--share does not go with -g, -p, -o or --read-committed"
POLL_MS = 1_000


Topics = Annotated[list[str] | None, typer.Argument(metavar="TOPIC*", help="Topics to read.")]
Partition = Annotated[int | None, typer.Option("-p", "--partition", min=0, metavar="N", help="Only this partition.")]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--offset",
        metavar="PLACE",
        show_default=False,
        help="From beginning (default), end, stored, N, -N (the last N), s@TIME; up to e@TIME.",
    ),
]
Count = Annotated[
    int | None, typer.Option("-c", "--count", "--max-messages", min=1, metavar="N", help="Stop after N records.")
]
UntilEnd = Annotated[bool, typer.Option("-e", "--exit", help="Stop at the end instead of waiting for more.")]
Format = Annotated[
    str | None,
    typer.Option(
        "-f",
        "--format",
        metavar="TEXT",
        help="%s value %k key %h headers %t topic %p partition %o offset %T time %S %K lengths",
    ),
]
KeyDelimiter = Annotated[
    str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="Print the key, then this.")
]
Group = Annotated[
    str | None, typer.Option("-g", "--group", "--group-id", metavar="GROUP", help="Read as a member of this group.")
]
Share = Annotated[str | None, typer.Option("--share", metavar="GROUP", help="Read as a member of this share group.")]
Acknowledge = Annotated[
    Ack | None,
    typer.Option("--ack", metavar="accept|reject|release|ask", help="With --share: what becomes of records."),
]
ReadCommitted = Annotated[bool, typer.Option("--read-committed", help="Skip records of open and aborted transactions.")]


@dataclass(frozen=True, slots=True)
class Where:
    """Where reading starts: a word, an offset (negative: so many before the end) or a time; and the time it ends at."""

    word: str = "beginning"
    offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read, and when it is enough."""

    topics: tuple[str, ...]
    partition: int | None = None
    where: Where = Where()
    group: str | None = None
    count: int | None = None
    until_end: bool = False
    read_committed: bool = False
    quiet: bool = False


def parse_where(texts: Sequence[str]) -> Where:
    """What the -o options say together. Raises Failure for wrong usage."""
    word, offset, start_ms, end_ms = "beginning", None, None, None
    for text in texts:
        if text in ("beginning", "end", "stored"):
            word = text
        elif text.startswith("s@"):
            start_ms = parse_time(text[2:])
        elif text.startswith("e@"):
            end_ms = parse_time(text[2:])
        elif text.lstrip("-").isdecimal() and text.count("-") <= 1:
            offset = int(text)
        else:
            usage(f"-o {text}: unknown place", "choose beginning, end, stored, N, -N, s@TIME or e@TIME")
    return Where(word, offset, start_ms, end_ms)


@app.command("consume")
def consume(
    topics: Topics = None,
    partition: Partition = None,
    places: Places = None,
    count: Count = None,
    until_end: UntilEnd = False,
    form: Format = None,
    key_delimiter: KeyDelimiter = None,
    delimiter: Annotated[str, typer.Option("-D", "--delimiter", metavar="TEXT", help="What ends a record.")] = "\\n",
    null: Annotated[str, typer.Option("-Z", "--null", metavar="TEXT", help="What to print for null.")] = "",
    group: Group = None,
    share: Share = None,
    ack: Acknowledge = None,
    read_committed: ReadCommitted = False,
    unbuffered: Annotated[bool, typer.Option("-u", "--unbuffered", help="Write without buffering.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="One line of JSON for each record.")] = False,
    quiet: Quiet = False,
    bootstrap: Bootstrap = None,
    habit: TopicHabit = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", hidden=True)] = False,
) -> None:
    r"""Print records of topics.

    Without options it prints all records, and then new ones as they come.

    [bold]Examples[/bold]

    kavka consume orders -e

    kavka consume orders -o -5 -e -f '%p/%o %T %k=%s [%h]\n'

    kavka consume orders -o s@2026-01-31T12:00 -o e@2026-01-31T13:00 --json

    kavka consume orders --share workers --ack release -f '%o, delivery %d: %s\n'
    """
    write = json_line if as_json else _text(form, key_delimiter, delimiter, null=null, delivered=share is not None)
    named = (*(topics or []), *(habit or []))
    if not named:
        usage("no topic is named", "for example kavka consume orders -e")
    if share is not None or ack is not None:
        if group is not None or partition is not None or places or from_beginning or read_committed:
            usage(SHARE_ALONE, "a share group decides that itself: see kavka configs describe --group GROUP")
        taking = share_reading(named, share, ack, count=count, until_end=until_end, quiet=quiet)
        print_share_records(bootstrap, taking, write)
        return
    where = parse_where([*(places or []), *(["beginning"] if from_beginning else [])])
    reading = Reading(named, partition, where, group, count, until_end, read_committed, quiet)
    if group is not None and (where.offset is not None or where.start_ms is not None or partition is not None):
        usage(
            "-g does not go with -p, -o N or -o s@TIME", "leave -g out: a group decides partitions and offsets itself"
        )
    if group is None and where.word == "stored":
        usage("-o stored needs the group whose offsets are stored", "add -g GROUP")
    print_records(bootstrap, reading, write, unbuffered=unbuffered)


def _text(form: str | None, key_delimiter: str | None, delimiter: str, *, null: str, delivered: bool) -> Writer:
    """How records are written as text. Raises Failure for wrong usage."""
    try:
        if form is not None:
            return compile_format(form, null=null.encode(), delivered=delivered)
        keys = None if key_delimiter is None else unescape(key_delimiter)
        return plain(keys, unescape(delimiter), null=null.encode())
    except MalformedLine as problem:
        usage(str(problem))


def share_reading(
    topics: tuple[str, ...], group: str | None, ack: Ack | None, *, count: int | None, until_end: bool, quiet: bool
) -> ShareReading:
    """What --share and --ack say. Raises Failure for wrong usage."""
    if group is None:
        usage("--ack needs the share group whose records are acknowledged", "add --share GROUP")
    return ShareReading(topics, group, ack or Ack.ACCEPT, count, until_end, quiet)


def print_records(bootstrap: str | None, reading: Reading, write: Writer, *, unbuffered: bool) -> None:
    """Writes records until the end that was asked for, or without end. Raises Failure, BrokenPipeError."""
    progress = Progress("Read", quiet=reading.quiet or sys.stdout.isatty())

    async def work(cluster: Cluster) -> int:
        from kavka.client.consumer import Consumer
        from kavka.client.settings import ConsumerSettings, OffsetReset

        at_end = reading.where.word == "end"
        settings = ConsumerSettings(
            group_id=reading.group,
            auto_offset_reset=OffsetReset.LATEST if at_end else OffsetReset.EARLIEST,
            read_committed=reading.read_committed,
        )
        async with Consumer(cluster, settings) as consumer:
            await _begin(cluster, consumer, reading)
            ends = await _ends(cluster, consumer, reading)
            return await _copy(consumer, reading, ends, write, progress, unbuffered=unbuffered)

    try:
        count = with_cluster(bootstrap, work, quiet=reading.quiet)
    finally:
        progress.end()
    if not reading.quiet and sys.stderr.isatty():
        note(f"{counted(count, 'record')} read.")


async def _begin(cluster: Cluster, consumer: Consumer, reading: Reading) -> None:
    """Assigns what is to be read, at the place where reading starts."""
    from kavka.model import TopicPartition

    if reading.group is not None:
        await consumer.subscribe(reading.topics)
        return
    partitions: list[TopicPartition] = []
    for topic in reading.topics:
        found = [each.partition for each in (await cluster.topic(topic)).partitions]
        if reading.partition is not None and reading.partition not in found:
            raise Failure(f"topic {topic} has no partition {reading.partition}", "see `kavka topics describe`")
        partitions += [TopicPartition(topic, p) for p in found if reading.partition in (None, p)]
    consumer.assign(partitions)
    where = reading.where
    if where.start_ms is not None:
        await consumer.seek_to_timestamp(where.start_ms)
    elif where.offset is not None:
        await _seek(cluster, consumer, partitions, where.offset, quiet=reading.quiet)
    elif where.word == "end":
        await consumer.seek_to_end()
    else:
        await consumer.seek_to_beginning()


async def _seek(
    cluster: Cluster, consumer: Consumer, partitions: Sequence[TopicPartition], offset: int, *, quiet: bool
) -> None:
    """Starts at an offset, or (negative) so many records before the end. A log that does not have the offset is read
    from its nearer end, and that is said: Kafka's console consumer logs it, and goes on at the end in both cases."""
    from kavka.client.offsets import earliest_offsets

    first = await earliest_offsets(cluster, partitions)
    for partition, end in (await consumer.end_offsets()).items():
        start, remark = start_of(offset, first[partition], end)
        consumer.seek(partition, start)
        if remark and not quiet:
            note(f"{partition.topic}-{partition.partition}: {remark}")


def start_of(offset: int, first: int, end: int) -> tuple[int, str]:
    """Where reading starts in a log from `first` to before `end`, and what is said of it, if anything is."""
    if offset < 0:
        return max(first, end + offset), ""
    if offset > end:
        return end, f"offset {offset} is beyond the end of the log, {end}. Only new records are read."
    if offset < first:
        return first, f"offset {offset} is gone: the log begins at {first}."
    return offset, ""


async def _ends(cluster: Cluster, consumer: Consumer, reading: Reading) -> dict[TopicPartition, int]:
    """Offset before which each partition's reading ends; none where it does not."""
    if reading.where.end_ms is None:
        return await consumer.end_offsets() if reading.until_end else {}
    from kavka.client.offsets import list_offsets

    found = await list_offsets(cluster, dict.fromkeys(consumer.assignment, reading.where.end_ms))
    ends = await consumer.end_offsets()
    return {partition: ends[partition] if at.offset < 0 else at.offset for partition, at in found.items()}


async def _copy(
    consumer: Consumer,
    reading: Reading,
    ends: dict[TopicPartition, int],
    write: Writer,
    progress: Progress,
    *,
    unbuffered: bool,
) -> int:
    """Writes records as they come; returns how many."""
    output = sys.stdout.buffer
    count = 0
    size_bytes = 0
    bounded = reading.until_end or reading.where.end_ms is not None
    while not (bounded and consumer.reached(ends)):
        left = POLL_RECORDS if reading.count is None else min(POLL_RECORDS, reading.count - count)
        if left <= 0:
            break
        records = await consumer.poll(max_records=left, timeout_ms=POLL_MS)
        wanted = [record for record in records if not ends or _is_before(record, ends)]
        if wanted:
            data = b"".join(map(write, wanted))
            output.write(data)
            count += len(wanted)
            size_bytes += len(data)
            progress.at(count, size_bytes)
        if unbuffered or len(records) < left:
            output.flush()
    output.flush()
    return count


def _is_before(record: ConsumerRecord, ends: dict[TopicPartition, int]) -> bool:
    end = ends.get((record.topic, record.partition))  # type: ignore[call-overload]  # a TopicPartition is this tuple
    return end is None or record.offset < end
