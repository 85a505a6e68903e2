"""Fsck: are the replicas of every partition what they should be? A Spark job over the log directories of all brokers.

Decides what is a finding. It must not know how files are read: `format("kavka-log")` gives a row per batch.

    from kavka_spark.pipelines.fsck import fsck
    fsck(spark, ["/copies/broker-1", "/copies/broker-2", "/copies/broker-3"]).show()

| severity | kind              | what was found                                                                       |
| error    | crc               | a batch whose CRC is not that of its bytes                                           |
| error    | damage            | bytes that are no batch, or an incomplete one in a segment that others follow         |
| error    | offsets           | a batch that starts at or before the end of what is before it                        |
| error    | gap               | offsets that no batch has, where compaction has not been                             |
| error    | epoch             | a leader epoch below that of the batch before                                        |
| error    | divergence        | below the high watermarks a batch that most of the other replicas have otherwise     |
| error    | short             | the log ends below its own high watermark                                            |
| warning  | torn tail         | the last segment ends in an incomplete batch, or in zeros                            |
| note     | behind            | the log ends below the high watermark of another replica                             |
| note     | no high watermark | no checkpoint says one, so that the replica was compared with no other               |

Invariants
  I1  A replica is compared with others only where it and they must agree: below the high watermark that each wrote
      down, from the latest of their log starts on, and not where compaction has been in any of them, because each
      broker compacts by itself.
  I2  A damaged place is one finding, not one for every batch behind it: a divergence is reported once for a replica,
  with the first offset and the number of batches.
  I3  The brokers need not run, and should not: if a log is written to meanwhile, it and its checkpoints are read at
  different times.

A batch is compared by offsets, leader epoch, size and CRC, which covers everything else in it.

Source: KIP-101 and KIP-279 for how logs part; Kafka's ReplicaVerificationTool asks the same of running brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kavka.log.decide.checkpoint import HIGH_WATERMARK_CHECKPOINT
from kavka_spark.pipelines.replica_directories import Replica, by_broker, replicas_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FINDINGS = (
    "severity string, kind string, topic string, partition int, broker string, offset bigint, batches bigint, "
    "file string, position bigint, detail string"
)
"""Columns of the answer: `offset` is where the finding begins, `batches` how many batches it concerns."""
_REPLICAS = (
    "broker string, topic string, partition int, high_watermark bigint, cleaned_to bigint, compared_from bigint, "
    "replicas array<struct<high_watermark: bigint, log_end: bigint>>"
)
"""What a batch is compared with: facts about its own replica, and about all replicas of the partition."""
_BATCH_COLUMNS = (
    "topic,partition,file,active,base_offset,last_offset,leader_epoch,crc,crc_ok,size_bytes,position,problem"
)
_Ended: TypeAlias = tuple[Replica, int]
"""A replica, and the offset after its last batch."""
_PARTITION = ["topic", "partition"]
_REPLICA = ["broker", "topic", "partition"]


def fsck(spark: SparkSession, directories: Sequence[str], *, topics: Sequence[str] = ()) -> DataFrame:
    """The findings in `directories`, worst first: the log directories of all brokers, as copies or in place.

    meta.properties shows the broker of a directory; several directories of one broker belong together. Spark's tasks
    must find them under the same paths. `topics` are names or patterns with * and ?; none means all. Raises
    `ConfigError` for a path that is not a log directory, `InconsistentMetadata` for a malformed checkpoint.
    """
    found = by_broker(directories)
    replicas = [
        replica
        for broker, owned in found.items()
        for directory in owned
        for replica in replicas_in(broker, directory, topics)
    ]
    if not replicas:
        return spark.createDataFrame([], FINDINGS)
    owned = [directory for of_broker in found.values() for directory in of_broker]
    reader = spark.read.format("kavka-log").options(rows="batches", columns=_BATCH_COLUMNS, topics=",".join(topics))
    return _findings(spark, reader.load(owned), replicas)


def _findings(spark: SparkSession, batches: DataFrame, replicas: Sequence[Replica]) -> DataFrame:
    from pyspark.sql import functions as f

    owners = spark.createDataFrame(
        [(replica.directory, replica.broker) for replica in replicas], "at string, broker string"
    )
    batches = (
        batches.join(f.broadcast(owners), f.regexp_replace("file", "/[^/]*$", "") == f.col("at")).drop("at").cache()
    )
    ends = {
        (row.broker, row.topic, row.partition): row.end
        for row in batches.groupBy(*_REPLICA).agg((f.max("last_offset") + 1).alias("end")).collect()
    }
    ended = [
        (replica, max(replica.last_segment, ends.get((replica.broker, replica.topic, replica.partition)) or 0))
        for replica in replicas
    ]
    known = f.broadcast(spark.createDataFrame(_judged_by(ended), _REPLICAS))
    judged = batches.where("base_offset is not null").join(known, _REPLICA)
    found = _damage(batches).unionByName(_out_of_order(judged)).unionByName(_divergence(judged))
    short = list(_too_short(ended))
    if short:
        found = found.unionByName(spark.createDataFrame(short, FINDINGS))
    rank = f.when(f.col("severity") == "error", 0).when(f.col("severity") == "warning", 1).otherwise(2)
    return found.coalesce(1).sortWithinPartitions(rank, *_PARTITION, "broker", "offset")


def _by_partition(ended: Sequence[_Ended]) -> dict[tuple[str, int], list[_Ended]]:
    found: dict[tuple[str, int], list[_Ended]] = {}
    for replica, log_end in ended:
        found.setdefault((replica.topic, replica.partition), []).append((replica, log_end))
    return found


def _judged_by(ended: Sequence[_Ended]) -> Iterator[tuple[object, ...]]:
    """The rows of _REPLICAS."""
    for (topic, partition), together in _by_partition(ended).items():
        start = max(replica.log_start_offset for replica, _ in together)
        cleaned = max(replica.cleaned_to or 0 for replica, _ in together)
        marks = [(replica.high_watermark, log_end) for replica, log_end in together]
        for replica, _ in together:
            own = (replica.high_watermark, replica.cleaned_to or 0, max(start, cleaned))
            yield (replica.broker, topic, partition, *own, marks)


def _too_short(ended: Sequence[_Ended]) -> Iterator[tuple[object, ...]]:
    """Findings about replicas that end below a high watermark, or that have none."""
    for (topic, partition), together in _by_partition(ended).items():
        highest = max(replica.high_watermark or 0 for replica, _ in together)
        for replica, log_end in together:
            own = replica.high_watermark
            if own is not None and log_end < own:
                found = ("error", "short", f"the log ends at {log_end}, its high watermark was {own}")
            elif log_end < highest:
                found = ("note", "behind", f"the log ends at {log_end}, another's high watermark is {highest}")
            elif own is None and log_end > replica.log_start_offset:
                detail = f"{HIGH_WATERMARK_CHECKPOINT} does not name it, so it was compared with no other replica"
                found = ("note", "no high watermark", detail)
            else:
                continue
            severity, kind, detail = found
            yield (severity, kind, topic, partition, replica.broker, log_end, 0, replica.directory, None, detail)


def _damage(batches: DataFrame) -> DataFrame:
    """Findings that the reader of a file has reported."""
    from pyspark.sql import functions as f

    kind = f.substring_index("problem", ": ", 1)
    unfinished = kind.isin("incomplete", "zeros")
    named = (
        f.when(unfinished & f.col("active"), "torn tail")
        .when(unfinished | (kind == "no batch") | (kind == "header"), "damage")
        .otherwise(kind)
    )
    bad = batches.where("problem is not null").withColumn("kind", named)
    severity = f.when(f.col("kind") == "torn tail", "warning").otherwise("error")
    return bad.select(*_finding(severity, f.col("kind"), f.col("base_offset"), f.lit(1), f.col("problem")))


def _out_of_order(judged: DataFrame) -> DataFrame:
    """Findings about gaps and falling epochs, from each batch to the next."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy(*_REPLICA).orderBy("file", "position")
    following = judged.withColumn("expected", f.lag("last_offset").over(in_order) + 1).withColumn(
        "epoch_before", f.lag("leader_epoch").over(in_order)
    )
    is_gap = f.col("base_offset") > f.greatest("expected", "cleaned_to")
    is_fall = f.col("leader_epoch") < f.col("epoch_before")
    gap = f.format_string("no batch has the offsets %d to %d", f.col("expected"), f.col("base_offset") - 1)
    fall = f.format_string("leader epoch %d behind one of epoch %d", f.col("leader_epoch"), f.col("epoch_before"))
    told = f.array_compact(
        f.array(
            f.when(is_gap, f.struct(f.lit("gap").alias("kind"), f.col("expected").alias("at"), gap.alias("detail"))),
            f.when(
                is_fall, f.struct(f.lit("epoch").alias("kind"), f.col("base_offset").alias("at"), fall.alias("detail"))
            ),
        )
    )
    odd = following.where(f.col("expected").isNotNull() & (is_gap | is_fall)).withColumn("told", f.explode(told))
    return odd.select(*_finding(f.lit("error"), f.col("told.kind"), f.col("told.at"), f.lit(1), f.col("told.detail")))


def _divergence(judged: DataFrame) -> DataFrame:
    """Batches below the high watermarks in which a replica differs from most of those that must have them.

    A batch is held against those of the other replicas that start at the same offset. Where a log parts from the
    others, its first other batch starts where theirs does; what follows may be cut otherwise, and is then held by one
    replica where most have nothing.
    """
    from pyspark.sql import functions as f

    content = ("last_offset", "leader_epoch", "crc", "size_bytes")
    copies = (
        judged.where("crc_ok and last_offset < high_watermark and base_offset >= compared_from")
        .groupBy(*_PARTITION, "base_offset")
        .agg(
            f.collect_list(f.struct("broker", "file", "position", f.struct(*content).alias("content"))).alias("copies"),
            f.first("replicas").alias("replicas"),
        )
        .withColumn("variants", f.expr("size(array_distinct(transform(copies, copy -> copy.content)))"))
        .where("variants > 1 or size(copies) < size(replicas)")
    )
    own = copies.select("*", f.explode("copies").alias("own")).withColumns(
        {
            "held": f.expr("size(filter(copies, copy -> copy.content = own.content))"),
            "must_have": f.expr(
                "size(filter(replicas, r -> "
                "r.high_watermark > own.content.last_offset and r.log_end > own.content.last_offset))"
            ),
            "is_tie": f.expr("held * 2 = must_have and variants > 1"),
        }
    )
    lonely = own.where("held * 2 < must_have or is_tie").withColumn("broker", f.col("own.broker"))
    first = lonely.groupBy(*_REPLICA).agg(
        f.min_by(f.struct("base_offset", "own", "held", "must_have", "is_tie"), "base_offset").alias("first"),
        f.count("*").alias("batches"),
    )
    detail = f.format_string(
        "offsets %d to %d of epoch %d are so in %d of %d replicas that have them below their high watermarks%s",
        f.col("first.base_offset"),
        f.col("first.own.content.last_offset"),
        f.col("first.own.content.leader_epoch"),
        f.col("first.held"),
        f.col("first.must_have"),
        f.when(f.col("first.is_tie"), ": it is unclear which one is right").otherwise(""),
    )
    placed = first.withColumn("file", f.col("first.own.file")).withColumn("position", f.col("first.own.position"))
    offset = f.col("first.base_offset")
    return placed.select(*_finding(f.lit("error"), f.lit("divergence"), offset, f.col("batches"), detail))


def _finding(severity: Column, kind: Column, offset: Column, batches: Column, detail: Column) -> list[Column]:
    """The columns of FINDINGS; the place is taken from columns of the same names."""
    from pyspark.sql import functions as f

    return [
        severity.alias("severity"),
        kind.alias("kind"),
        *(f.col(name) for name in (*_PARTITION, "broker")),
        offset.cast("bigint").alias("offset"),
        batches.cast("bigint").alias("batches"),
        *(f.col(name) for name in ("file", "position")),
        detail.alias("detail"),
    ]
