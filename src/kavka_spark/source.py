"""`format("kavka")`: topics as a table, and the entry to their stream and to the sink.

Decides what a batch query reads: the bounds in offsets, less what the query's filters rule out. It must not know how a
range is read (`reader`), nor how a stream goes on (`stream_source`).

Invariants
  I1  A filter counts as taken over only where no row that it refuses can come: on partition and offset. One on the
      timestamp moves the start, because all records before an offset that the broker finds for a time are older, and
      Spark applies it again to the rest.
  I2  This module is imported in every Python process that looks for formats: it imports nothing heavy.

Source: pyspark.sql.datasource (Spark 4.2 and 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)

from kavka.errors import ConfigError
from kavka_spark.filter_bounds import Bounds
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.plain_errors import or_refused, with_plain_errors
from kavka_spark.push_down import filters_may_come

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kavka.model import TopicPartition
    from kavka_spark.connections import WorkerConnection
    from kavka_spark.read_tasks import OffsetRange
    from kavka_spark.source_options import SourceOptions

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
"""The columns of Spark's "kafka" source, with its types; headers only with includeHeaders."""


@with_plain_errors
class KavkaSource(DataSource):
    """Kafka's topics as Spark sees them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): text for name, text in options.items()}

    @classmethod
    def name(cls) -> str:
        return "kavka"

    def schema(self) -> str:
        """The requested columns, or all."""
        from kavka_spark.options import boolean

        headers = boolean(self._options, "includeheaders", default=False)
        columns = [name for name in COLUMNS if headers or name != "headers"]
        chosen = self._options.get("columns")
        if chosen is not None:
            spelled = {name.lower(): name for name in COLUMNS}
            asked = [part.strip() for part in chosen.split(",") if part.strip()]
            unknown = [name for name in asked if name.lower() not in spelled]
            if unknown or not asked:
                raise ConfigError(f"option 'columns' is {chosen!r}, expected one or more of {', '.join(COLUMNS)}")
            columns = list(dict.fromkeys(spelled[name.lower()] for name in asked))
        return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from kavka_spark.source_options import source_options

        options = source_options(self._options, streaming=False)
        columns = checked_columns(schema)
        return FilteredReader(options, columns) if filters_may_come() else KavkaReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from kavka_spark.source_options import source_options
        from kavka_spark.stream_source import KavkaStreamReader

        return or_refused(
            lambda: KavkaStreamReader(source_options(self._options, streaming=True), checked_columns(schema))
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kavka_spark import sink

        return sink.writer(schema, self._options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from kavka_spark import sink

        return sink.stream_writer(schema, self._options, overwrite)


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """The column names of a schema, which may be the caller's own: some of the columns, with their types.

    Raises `ConfigError`.
    """
    columns = []
    for field in schema.fields:
        expected = COLUMNS.get(field.name)
        if expected is None:
            raise ConfigError(f"there is no column {field.name!r}; kavka has {', '.join(COLUMNS)}")
        found = field.dataType.simpleString()
        if found.replace("bigint", "long").replace(":", ": ").replace(",", ", ") != expected:
            raise ConfigError(
                f"column {field.name!r} is {expected}, not {found}: read it as it is, and cast it in the query"
            )
        columns.append(field.name)
    return tuple(columns)


@with_plain_errors
class KavkaReader(Acknowledging, DataSourceReader):
    """A batch query: bounds are resolved once, in `partitions`."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        from kavka_spark.connections import connection
        from kavka_spark.cores import task_slots
        from kavka_spark.read_tasks import as_tasks

        options, cores = self._options, task_slots()
        opened = connection(options.connection, begins=True)
        spans = opened.run(_spans(opened, options, self._bounds))
        sizes = {} if options.min_partitions is not None else opened.run(_offset_bytes(opened, options, spans, cores))
        return list(
            as_tasks(
                spans,
                cores=cores,
                min_partitions=options.min_partitions,
                max_records=options.max_records_per_partition,
                offset_bytes=sizes,
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)


@with_plain_errors
class FilteredReader(KavkaReader):
    """A reader that takes filters. Spark refuses such a reader if filter push-down is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Applies filters on partition and offset, and uses those on the timestamp. Returns the filters that Spark
        must apply."""
        return [condition for condition in filters if not self._bounds.take(condition)]


def read_task(options: SourceOptions, columns: tuple[str, ...], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in a Python worker."""
    from kavka_spark.connections import connection
    from kavka_spark.read_tasks import ReadTask
    from kavka_spark.reader import read_ranges

    assert isinstance(partition, ReadTask)
    if not partition.spans:
        return iter(())
    return read_ranges(connection(options.connection), options, partition.spans, columns)


async def _offset_bytes(
    opened: WorkerConnection, options: SourceOptions, spans: list[OffsetRange], cores: int
) -> dict[tuple[str, int], float]:
    """About how many bytes an offset takes, of the ranges that may share a task: few offsets may be large records.

    A stream does not ask: that would delay each micro-batch.
    """
    from kavka_spark.read_tasks import may_share
    from kavka_spark.trigger_limits import HEAD_BYTES, sample_ranges

    samples = await sample_ranges(opened, options, may_share(spans, cores), sample_bytes=HEAD_BYTES)
    return {name: sample.size_bytes / sample.offsets for name, sample in samples.items()}


async def _spans(opened: WorkerConnection, options: SourceOptions, bounds: Bounds) -> list[OffsetRange]:
    """The ranges of a batch query. Raises `DataLossError`, `SubscriptionError`."""
    import asyncio

    from kavka_spark.errors import SubscriptionError
    from kavka_spark.offsets import begins_at_earliest, edges, find_partitions, offsets_at, resolve
    from kavka_spark.read_tasks import NO_TOPIC_ID, OffsetRange

    cluster, committed = opened.cluster, options.read_committed
    found = await find_partitions(cluster, options.topics)
    if found.missing:
        raise SubscriptionError(f"there is no topic {', '.join(map(repr, found.missing))}")
    within = await edges(cluster, found.partitions, read_committed=committed)
    starts, ends = await asyncio.gather(
        resolve(
            cluster,
            options.starting,
            within,
            side="starting",
            read_committed=committed,
            latest_where_no_timestamp=options.latest_where_no_timestamp,
        ),
        resolve(cluster, options.ending, within, side="ending", read_committed=committed),
    )
    chosen = [partition for partition in found.partitions if bounds.has(partition.partition)]
    since: dict[TopicPartition, int] = {}
    if bounds.first_timestamp_ms is not None:
        since = await offsets_at(cluster, dict.fromkeys(chosen, bounds.first_timestamp_ms), read_committed=committed)
    spans = []
    for name in chosen:
        start, end = _held(options, name, starts[name], ends[name], within.earliest[name], within.latest[name])
        if name in since:
            start = max(start, since[name]) if since[name] >= 0 else end
        start, end = int(max(start, bounds.first_offset)), int(min(end, bounds.end_offset))
        topic_id = found.topic_ids.get(name.topic, NO_TOPIC_ID)
        at_earliest = begins_at_earliest(options.starting, name) and start == within.earliest[name]
        spans.append(OffsetRange(name.topic, name.partition, start, end, topic_id, at_earliest))
    return spans


def _held(
    options: SourceOptions, name: TopicPartition, start: int, end: int, earliest: int, latest: int
) -> tuple[int, int]:
    """The part of a range that the log holds. Raises `DataLossError` if that is not all of it, and `SubscriptionError`
    where it begins behind its end."""
    from kavka_spark.errors import DataLossError, SubscriptionError
    from kavka_spark.source_options import Edge

    if options.fail_on_data_loss:
        if start < min(earliest, end):
            reason = "retention or a deletion of records has removed it"
            raise DataLossError(name.topic, name.partition, start, earliest, latest, reason)
        if max(start, end) > latest:
            reason = "the log ends before it"
            raise DataLossError(name.topic, name.partition, max(start, end - 1), earliest, latest, reason)
    if end < start <= latest and not isinstance(options.starting, Edge) and not isinstance(options.ending, Edge):
        raise SubscriptionError(
            f"the options begin {name} at {start}, behind its end at {end}: there is nothing to read"
        )
    return max(start, earliest), min(end, latest)
