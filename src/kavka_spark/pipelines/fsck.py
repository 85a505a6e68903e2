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
  I2  A damaged place is one finding, not one for every batch behind it: a divergence is told once for a replica, with
      the first offset and the number of batches.
  I3  The brokers need not run, and had better not: a log that is written to meanwhile is read to some point in it, and
      its checkpoints to another.

A batch is compared by offsets, leader epoch, size and CRC, which covers everything else in it.

Source: KIP-101 and KIP-279 for how logs part; Kafka's ReplicaVerificationTool asks the same of running brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka_spark.pipelines.replica_directories import Replica, by_broker, replicas_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FINDINGS = (
    "severity string, kind string, topic string, partition int, broker string, offset bigint, batches bigint, "
    "file string, position bigint, detail string"
)
"""Columns of the answer: `offset` is where it begins, `batches` how many it concerns."""
_REPLICAS = (
    "broker string, topic string, partition int, directory string, high_watermark bigint, cleaned_to bigint, "
    "log_start_offset bigint, last_segment bigint"
)
_BATCH_COLUMNS = (
    "topic,partition,file,active,base_offset,last_offset,leader_epoch,crc,crc_ok,size_bytes,position,problem"
)
_PARTITION = ["topic", "partition"]
_REPLICA = ["broker", "topic", "partition"]


def fsck(spark: SparkSession, directories: Sequence[str], *, topics: Sequence[str] = ()) -> DataFrame:
    """The findings in `directories`, worst first: the log directories of all brokers, as copies or in place.

    Whose a directory is stands in its meta.properties; several of one broker belong together. They have to be where
    Spark's tasks run, under the same paths as here. `topics`: names or patterns with * and ?; none are all. Raises
    `ConfigError` for a directory that is none, `InconsistentMetadata` for a checkpoint that is malformed.
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

    stated = spark.createDataFrame(replicas, _REPLICAS)
    batches = (
        batches.withColumn("directory", f.regexp_replace("file", "/[^/]*$", ""))
        .join(f.broadcast(stated.select("directory", "broker")), "directory")
        .drop("directory")
        .cache()
    )
    known = f.broadcast(_with_ends(stated, batches))
    found = _damage(batches)
    for part in (_out_of_order(batches, known), _too_short(known), _divergence(batches, known)):
        found = found.unionByName(part)
    rank = f.when(f.col("severity") == "error", 0).when(f.col("severity") == "warning", 1).otherwise(2)
    return found.orderBy(rank, *_PARTITION, "broker", "offset")


def _with_ends(replicas: DataFrame, batches: DataFrame) -> DataFrame:
    """Each replica with the offset behind its last batch, and what its partition's replicas have in common."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ends = batches.groupBy(*_REPLICA).agg((f.max("last_offset") + 1).alias("written_to"))
    together = Window.partitionBy(*_PARTITION)
    return (
        replicas.join(ends, _REPLICA, "left")
        .withColumn("log_end", f.greatest("written_to", "last_segment"))
        .withColumn("highest", f.max("high_watermark").over(together))
        .withColumn("compared_from", f.greatest(f.max("log_start_offset").over(together), _cleaned(together)))
    )


def _cleaned(window: object) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.max("cleaned_to").over(window), f.lit(0))  # type: ignore[arg-type]  # a WindowSpec


def _damage(batches: DataFrame) -> DataFrame:
    """What the reader of a file says of one place in it."""
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


def _out_of_order(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """Gaps and epochs that fall, from each batch to the one behind it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy(*_REPLICA).orderBy("file", "position")
    following = (
        batches.where("base_offset is not null")
        .withColumn("expected", f.lag("last_offset").over(in_order) + 1)
        .withColumn("epoch_before", f.lag("leader_epoch").over(in_order))
        .join(replicas.select(*_REPLICA, "cleaned_to"), _REPLICA)
    )
    missed_from = f.greatest(f.col("expected"), f.coalesce("cleaned_to", f.lit(0)))
    gaps = following.where(f.col("expected").isNotNull() & (f.col("base_offset") > missed_from)).select(
        *_finding(
            f.lit("error"),
            f.lit("gap"),
            f.col("expected"),
            f.lit(1),
            f.format_string("no batch has the offsets %d to %d", f.col("expected"), f.col("base_offset") - 1),
        )
    )
    falls = following.where("leader_epoch < epoch_before").select(
        *_finding(
            f.lit("error"),
            f.lit("epoch"),
            f.col("base_offset"),
            f.lit(1),
            f.format_string("leader epoch %d behind one of epoch %d", f.col("leader_epoch"), f.col("epoch_before")),
        )
    )
    return gaps.unionByName(falls)


def _too_short(replicas: DataFrame) -> DataFrame:
    """Replicas that end below a high watermark, or that tell none."""
    from pyspark.sql import functions as f

    short = f.col("log_end") < f.col("high_watermark")
    behind = f.col("log_end") < f.col("highest")
    unknown = f.col("high_watermark").isNull() & (f.col("log_end") > f.col("log_start_offset"))
    judged = replicas.withColumn(
        "kind", f.when(short, "short").when(behind, "behind").when(unknown, "no high watermark")
    ).where("kind is not null")
    severity = f.when(f.col("kind") == "short", "error").otherwise("note")
    detail = (
        f.when(
            short,
            f.format_string("the log ends at %d, its high watermark was %d", f.col("log_end"), f.col("high_watermark")),
        )
        .when(
            behind, f.format_string("the log ends at %d, another's high watermark is %d", f.col("log_end"), "highest")
        )
        .otherwise("replication-offset-checkpoint does not name it, so that it was compared with no other replica")
    )
    placed = judged.withColumn("file", f.col("directory")).withColumn("position", f.lit(None).cast("bigint"))
    return placed.select(*_finding(severity, f.col("kind"), f.col("log_end"), f.lit(0), detail))


def _divergence(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """Batches below the high watermarks that a replica has otherwise than most of those that must have them.

    Grouped by what a batch is: where all that should have it do, as nearly always, nothing is left to compare.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    sound = (
        batches.where("base_offset is not null and (crc_ok or crc_ok is null)")
        .join(replicas.select(*_REPLICA, "high_watermark", "compared_from"), _REPLICA)
        .where("last_offset < high_watermark and base_offset >= compared_from")
    )
    same = [*_PARTITION, "base_offset", "last_offset", "leader_epoch", "crc", "size_bytes"]
    holders = sound.groupBy(*same).agg(
        f.sort_array(f.collect_set("broker")).alias("holders"),
        f.min(f.struct("broker", "file", "position")).alias("place"),
    )
    expected = replicas.groupBy(*_PARTITION).agg(
        f.collect_list(f.struct("broker", "high_watermark", "log_end")).alias("replicas")
    )
    must_have = f.expr("size(filter(replicas, r -> r.high_watermark > last_offset and r.log_end > last_offset))")
    contested = (
        holders.join(f.broadcast(expected), _PARTITION)
        .withColumn("expected", must_have)
        .withColumn("held", f.size("holders"))
        .where("held < expected")
        .withColumn("variants", f.count("*").over(Window.partitionBy(*_PARTITION, "base_offset")))
        .withColumn("tie", f.expr("held * 2 = expected and variants > 1"))
        .where("held * 2 < expected or tie")
    )
    places = sound.select(*same, "broker", "file", "position")
    theirs = contested.select(*same, "tie", "expected", "held").join(places, same)
    first = theirs.groupBy(*_REPLICA).agg(
        f.min(
            f.struct("base_offset", "last_offset", "leader_epoch", "file", "position", "tie", "held", "expected")
        ).alias("first"),
        f.count("*").alias("batches"),
    )
    detail = f.format_string(
        "offsets %d to %d of epoch %d are so in %d of %d replicas that have them below their high watermarks%s",
        f.col("first.base_offset"),
        f.col("first.last_offset"),
        f.col("first.leader_epoch"),
        f.col("first.held"),
        f.col("first.expected"),
        f.when(f.col("first.tie"), ": which one is right cannot be told").otherwise(""),
    )
    placed = first.withColumn("file", f.col("first.file")).withColumn("position", f.col("first.position"))
    return placed.select(
        *_finding(f.lit("error"), f.lit("divergence"), f.col("first.base_offset"), f.col("batches"), detail)
    )


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
