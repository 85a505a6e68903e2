"""`kavka produce`: records from standard input and files into a topic.

Decides how input is cut into records, and when a record that fails ends the command: at once, after what was delivered
is counted. Must not know batches or brokers: the client batches.

I1. The exit status is 0 only if every record that was read was acknowledged (with --acks 0: sent).
I2. Memory is bounded: MAX_RECORD_BYTES of an unfinished record, READ_BYTES of input, and the producer's buffer.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json, Quiet, TopicHabit
from kavka.cli.output import Failure, Progress, counted, explain, note, show_json, usage
from kavka.cli.session import bootstrap_of, with_cluster
from kavka.cli.topics.line_format import (
    Header,
    InputRecord,
    MalformedLine,
    from_json,
    parse_headers,
    split_line,
    unescape,
)
from kavka.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.deliveries import BatchDelivery, PendingBatch, PendingDelivery
    from kavka.client.producer import Producer
    from kavka.client.settings import ProducerSettings
    from kavka.errors import KavkaError

app = CommandLine()


READ_BYTES = 256 * 1024
"""Bytes of input that are read at once."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Bound on one record of the input: a file without the delimiter must not fill the memory."""
MAX_WAITING = 256
"""Results that may be outstanding before some are looked at; of the fast way these are batches, else records."""
STANDARD_INPUT = "-"


Topic = Annotated[str | None, typer.Argument(metavar="TOPIC*", help="The topic.")]
Files = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Input; standard input by default.")]
Delimiter = Annotated[str, typer.Option("-D", "--delimiter", metavar="TEXT", help="What ends a record.")]
KeyDelimiter = Annotated[
    str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="What ends the key in a record.")
]
Key = Annotated[str | None, typer.Option("-k", "--key", metavar="TEXT", help="The key of records that have none.")]
Headers = Annotated[
    list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record; repeatable.")
]
Partition = Annotated[
    int | None,
    typer.Option("-p", "--partition", min=0, metavar="N", show_default="by key, or in turn", help="The partition."),
]
Codec = Annotated[str, typer.Option("-z", "--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")]
Acks = Annotated[
    str,
    typer.Option("-a", "--acks", metavar="all|1|0", help="Who must have a record: all in sync, the leader, nobody."),
]
JsonLines = Annotated[
    bool, typer.Option("-J", "--json-lines", help="Each line is a record in JSON, as consume --json writes it.")
]


class Input(NamedTuple):
    """How bytes become records."""

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    empty_is_null: bool = False
    is_json: bool = False
    whole_files: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of the records so far."""

    delivered: int = 0
    failed: int = 0
    failure: KavkaError | None = None
    respread: int = 0
    """Records whose JSON names a partition that the topic does not have: sent as if it named none."""
    partitions: dict[int, list[int]] = field(default_factory=dict)
    """Partition -> records delivered, first offset, last offset; offsets are -1 where the broker tells none."""

    def count(self, partition: int, offset: int, records: int) -> None:
        self.delivered += records
        seen = self.partitions.setdefault(partition, [0, offset, -1])
        seen[0] += records
        if offset >= 0:
            seen[1] = offset if seen[1] < 0 else min(seen[1], offset)
            seen[2] = max(seen[2], offset + records - 1)


@app.command("produce")
def produce(
    topic: Topic = None,
    files: Files = None,
    delimiter: Delimiter = "\\n",
    key_delimiter: KeyDelimiter = None,
    key: Key = None,
    headers: Headers = None,
    partition: Partition = None,
    codec: Codec = "none",
    acks: Acks = "all",
    empty_is_null: Annotated[bool, typer.Option("-Z", "--null", help="Empty keys and values are null.")] = False,
    json_lines: JsonLines = False,
    whole_files: Annotated[bool, typer.Option("--whole-files", help="Each file is one record.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    bootstrap: Bootstrap = None,
    habit: TopicHabit = None,
) -> None:
    r"""Send records from standard input or files.

    Each line is a record, unless an option says otherwise.

    [bold]Examples[/bold]

    echo hello | kavka produce greetings

    kavka produce orders orders.csv -K , -H source=csv -z zstd

    kavka consume orders -e --json | kavka produce copy -J
    """
    from kavka.client.settings import ProducerSettings
    from kavka.records.compression import Compression

    if habit:  # Then the first argument is a file.
        files = [*([topic] if topic is not None else []), *(files or [])]
        topic = habit[0]
    if topic is None:
        usage("no topic is named", "for example kavka produce orders")
    if acks not in ("all", "-1", "0", "1"):
        usage(f"-a {acks}: unknown number of acknowledgements", "choose all, 1 or 0")
    try:
        form = Input(
            unescape(delimiter),
            None if key_delimiter is None else unescape(key_delimiter),
            None if key is None else key.encode(),
            parse_headers(headers or []),
            empty_is_null,
            json_lines,
            whole_files,
        )
    except MalformedLine as problem:
        usage(str(problem))
    if not form.delimiter or form.key_delimiter == b"":
        usage("the delimiter must not be empty", "for example -D '\\n'")
    settings = ProducerSettings(
        acks=-1 if acks == "all" else int(acks), compression=Compression(compression_named(codec))
    )
    for file in files or []:
        _require_readable(file)
    send_all(bootstrap, Order(topic, files or [], form, partition), settings, quiet=quiet, as_json=as_json)


def _require_readable(path: str) -> None:
    """Raises Failure before anything is sent."""
    if path != STANDARD_INPUT and not os.access(path, os.R_OK):
        why = "permission denied" if os.path.exists(path) else "no such file"
        raise Failure(f"cannot read {path}: {why}", "name a file that you may read")


class Order(NamedTuple):
    """What to send, and where to. Without a partition each record's own, its key or turns choose one."""

    topic: str
    files: Sequence[str]
    form: Input
    partition: int | None = None


def send_all(bootstrap: str | None, order: Order, settings: ProducerSettings, *, quiet: bool, as_json: bool) -> None:
    """Sends all of the input. Raises Failure for the first record that was not taken."""
    topic = order.topic
    sources = list(order.files) or [STANDARD_INPUT]
    progress = Progress("Sent", _total_bytes(sources), quiet=quiet)
    if sources == [STANDARD_INPUT] and sys.stdin.isatty() and not quiet:
        note(f"Each line becomes a record of {topic}; Ctrl-D ends the input.")

    async def work(cluster: Cluster) -> Outcome:
        from kavka.client.producer import Producer

        async with Producer(cluster, settings) as producer:
            return await _Sending(cluster, producer, topic, order.form, order.partition, progress).run(sources)

    try:
        outcome = with_cluster(bootstrap, work, quiet=quiet)
    finally:
        progress.end()
    _tell(bootstrap, topic, outcome, progress.seconds, quiet=quiet, as_json=as_json)


class _Sending:
    """One run: reads, sends, and follows what becomes of the records."""

    def __init__(
        self,
        cluster: Cluster,
        producer: Producer,
        topic: str,
        form: Input,
        partition: int | None,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._topic = topic
        self._form = form
        self._partition = partition
        self._progress = progress
        self._waiting: list[PendingBatch | PendingDelivery] = []
        self._outcome = Outcome()
        self._read_records = 0
        self._read_bytes = 0
        self._only_values = not (
            form.key_delimiter or form.key is not None or form.headers or form.is_json or form.empty_is_null
        )

    async def run(self, sources: Sequence[str]) -> Outcome:
        for source in sources:
            pieces = _whole(source) if self._form.whole_files else _pieces(source, self._form.delimiter)
            async for values, size_bytes in pieces:
                await self._send(values)
                self._read_records += len(values)
                self._read_bytes += size_bytes
                self._progress.at(self._read_records, self._read_bytes)
                if len(self._waiting) > MAX_WAITING:
                    await self._settle(finished_only=True)
                if self._outcome.failure is not None:
                    break
            if self._outcome.failure is not None:
                break
        await self._producer.flush()
        await self._settle(finished_only=False)
        self._outcome.failed = self._producer.failed_records
        return self._outcome

    async def _send(self, values: Sequence[bytes]) -> None:
        if self._only_values:
            self._follow(await self._producer.send_values(self._topic, values, partition=self._partition))
            return
        records = [self._record(value) for value in values]
        if not self._form.is_json:
            fields = ((record.key, record.value, record.headers) for record in records)
            self._follow(await self._producer.send_records(self._topic, fields, partition=self._partition))
            return
        for record in records:
            pending = await self._producer.send(
                self._topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=await self._partition_of(record) if self._partition is None else self._partition,
                timestamp_ms=record.timestamp_ms,
            )
            self._waiting.append(pending)

    async def _partition_of(self, record: InputRecord) -> int | None:
        """The partition that the record names, if the topic has it: it may come from a topic that has more."""
        if record.partition is None:
            return None
        topic = await self._cluster.topic(self._topic, may_create=True)
        if record.partition < len(topic.partitions):
            return record.partition
        self._outcome.respread += 1
        return None

    def _record(self, value: bytes) -> InputRecord:
        form = self._form
        if form.is_json:
            try:
                return from_json(value)
            except MalformedLine as problem:
                raise Failure(
                    f"{problem} in {value[:80]!r}", "correct the line; those before it were sent"
                ) from problem
        record = split_line(
            value, key_delimiter=form.key_delimiter, empty_is_null=form.empty_is_null, headers=form.headers
        )
        return record if form.key is None or record.key is not None else record._replace(key=form.key)

    def _follow(self, batches: Sequence[PendingBatch]) -> None:
        """A batch that takes more records comes again, so each is looked for among the last ones."""
        recent = {id(batch) for batch in self._waiting[-MAX_WAITING:]}
        self._waiting += [batch for batch in batches if id(batch) not in recent]

    async def _settle(self, *, finished_only: bool) -> None:
        """Counts what was delivered and keeps the first failure."""
        from kavka.errors import KavkaError

        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            if finished_only and not pending.done():
                self._waiting.append(pending)
                continue
            try:
                self._count(await pending)
            except KavkaError as failure:
                self._outcome.failure = self._outcome.failure or failure
        if finished_only and len(self._waiting) > MAX_WAITING:
            await asyncio.sleep(0)

    def _count(self, delivery: BatchDelivery | tuple[str, int, int, int]) -> None:
        from kavka.client.deliveries import BatchDelivery

        if isinstance(delivery, BatchDelivery):
            self._outcome.count(delivery.partition, delivery.base_offset, delivery.record_count)
        else:
            self._outcome.count(delivery[1], delivery[2], 1)


async def _pieces(source: str, delimiter: bytes) -> AsyncIterator[tuple[list[bytes], int]]:
    """What lies between the delimiters, in lists as it arrives, with the bytes read for each list."""
    rest = b""
    async for data in _read(source):
        whole = (rest + data if rest else data).split(delimiter)
        rest = whole.pop()
        if len(rest) > MAX_RECORD_BYTES:
            raise Failure(
                f"{source}: a record has more than {MAX_RECORD_BYTES} bytes",
                "give the delimiter with -D, or --whole-files",
            )
        yield whole, len(data)
    if rest:
        yield [rest], 0


async def _whole(source: str) -> AsyncIterator[tuple[list[bytes], int]]:
    """All of a file as one record."""
    parts: list[bytes] = []
    size_bytes = 0
    async for data in _read(source):
        parts.append(data)
        size_bytes += len(data)
        if size_bytes > MAX_RECORD_BYTES:
            raise Failure(
                f"{source}: it has more than the {MAX_RECORD_BYTES} bytes that a record may have",
                "leave --whole-files out",
            )
    yield [b"".join(parts)], size_bytes


async def _read(source: str) -> AsyncIterator[bytes]:
    """The bytes of a file or of standard input as they come; the loop goes on while a pipe or a terminal is silent."""
    try:
        descriptor = sys.stdin.fileno() if source == STANDARD_INPUT else os.open(source, os.O_RDONLY)
    except OSError as problem:
        raise Failure(f"cannot read {source}: {problem.strerror}", "name a file that you may read") from problem
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        while True:
            await (asyncio.sleep(0) if is_file else _readable(descriptor))
            data = os.read(descriptor, READ_BYTES)
            if not data:
                return
            yield data
    except OSError as problem:
        raise Failure(f"cannot read {source}: {problem.strerror}") from problem
    finally:
        if source != STANDARD_INPUT:
            os.close(descriptor)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _set, ready)
    except PermissionError:  # epoll takes no such file (/dev/null): it never makes anybody wait
        return
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _total_bytes(sources: Sequence[str]) -> int:
    """The size of all input, 0 where a part of it has none that is known."""
    total = 0
    for source in sources:
        try:
            status = os.fstat(sys.stdin.fileno()) if source == STANDARD_INPUT else os.stat(source)
        except (OSError, ValueError):
            return 0
        if not stat.S_ISREG(status.st_mode):
            return 0
        total += status.st_size
    return total


def _next_step(failure: KavkaError, topic: str, addresses: str) -> str:
    """By what kept the records from being delivered."""
    if isinstance(failure, RequestError) and failure.code is ErrorCode.REQUEST_TIMED_OUT:
        return f"`kavka topics describe {topic}` shows whether a leader is alive; then send the rest again"
    return explain(failure, addresses).next_step or f"`kavka topics describe {topic}`; then send the rest again"


def _tell(bootstrap: str | None, topic: str, outcome: Outcome, seconds: float, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "topic": topic,
                "delivered": outcome.delivered,
                "failed": outcome.failed,
                "respread": outcome.respread,
                "seconds": round(seconds, 3),
                "partitions": [
                    {"partition": partition, "records": records, "first_offset": first, "last_offset": last}
                    for partition, (records, first, last) in sorted(outcome.partitions.items())
                ],
            }
        )
    if outcome.failure is not None:
        raise Failure(
            f"{counted(outcome.failed, 'record')} not delivered to {topic}, {outcome.delivered:,} delivered: "
            f"{outcome.failure}",
            _next_step(outcome.failure, topic, bootstrap_of(bootstrap)),
        )
    if outcome.respread and not quiet:
        named = "record names a partition" if outcome.respread == 1 else "records name partitions"
        note(f"{outcome.respread:,} {named} that {topic} does not have; their keys, or turns, chose others.")
    if not quiet and not as_json:
        rate = f", {outcome.delivered / seconds:,.0f} records/s" if outcome.delivered > 1_000 else ""
        note(f"{counted(outcome.delivered, 'record')} delivered to {topic} in {seconds:.2f} s{rate}.")


def compression_named(name: str) -> int:
    """The codec called `name`. Raises Failure for wrong usage."""
    from kavka.records.compression import Compression

    try:
        return Compression.named(name)
    except ValueError as problem:
        usage(f"-z {name}: {problem}")
