"""Acknowledged against stored against consumed, per topic and minute; and each record with which something is wrong."""

from functools import reduce
from operator import and_

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.active()

PLACE = ["topic", "partition", "offset"]
RECEIPT = "kind STRING, topic STRING, partition INT, offset BIGINT, id STRING, at_ms BIGINT"


def _stream(topics: str) -> DataFrame:
    return (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )


def _receipts(kind: str, *sums: Column) -> DataFrame:
    """One row for each record that receipts of a kind tell of. After an unclean election two have the same place."""
    said = spark.read.table("receipts").where(F.col("kind") == kind)
    return said.withColumn("id", F.nullif("id", F.lit(""))).groupBy(*PLACE, "id").agg(*sums)


def _same_record(one: str, other: str) -> Column:
    """Place and id; where one of them has no id, its place."""
    same_place = reduce(and_, (F.col(f"{one}.{name}") == F.col(f"{other}.{name}") for name in PLACE))
    ids = F.col(f"{one}.id"), F.col(f"{other}.id")
    return same_place & ((ids[0] == ids[1]) | ids[0].isNull() | ids[1].isNull())


def _either(one: str, other: str) -> list[Column]:
    return [F.coalesce(f"{one}.{name}", f"{other}.{name}").alias(name) for name in (*PLACE, "id")]


def _records() -> DataFrame:
    """One row for each record that anybody told of: whether it is stored, was acknowledged, and was read."""
    of_id = Window.partitionBy("topic", "id").orderBy("partition", "offset")
    stored = spark.read.table("stored").withColumn(
        "is_again", F.col("id").isNotNull() & (F.row_number().over(of_id) > 1)
    )
    acknowledged = _receipts("acknowledged", F.min("at_ms").alias("acknowledged_ms"))
    consumed = _receipts("consumed", F.min("at_ms").alias("consumed_ms"), F.count("*").alias("times_consumed"))
    known = (
        stored.alias("stored")
        .join(acknowledged.alias("acknowledged"), _same_record("stored", "acknowledged"), "fullouter")
        .select(*_either("stored", "acknowledged"), "stored_ms", "acknowledged_ms", "is_again")
    )
    # A receipt without an id tells of what is at the place now.
    is_one = _same_record("known", "consumed") & (F.col("consumed.id").isNotNull() | F.col("stored_ms").isNotNull())
    return (
        known.alias("known")
        .join(consumed.alias("consumed"), is_one, "fullouter")
        .select(
            *_either("known", "consumed"),
            F.timestamp_millis(F.coalesce("stored_ms", "acknowledged_ms", "consumed_ms")).alias("at"),
            F.col("stored_ms").isNotNull().alias("is_stored"),
            F.col("acknowledged_ms").isNotNull().alias("is_acknowledged"),
            F.col("consumed_ms").isNotNull().alias("is_consumed"),
            (F.col("acknowledged_ms").isNotNull() & F.col("stored_ms").isNull()).alias("is_lost"),
            F.coalesce("is_again", F.lit(False)).alias("is_stored_again"),
            (F.coalesce("times_consumed", F.lit(1)) - 1).alias("times_read_again"),
            (F.col("acknowledged_ms") - F.col("stored_ms")).alias("produce_ms"),
            (F.col("consumed_ms") - F.col("stored_ms")).alias("consume_ms"),
        )
    )


@dp.table(comment="Where each record is, without its value")
def stored() -> DataFrame:
    ids = F.filter("headers", lambda header: header["key"] == "audit-id")
    return _stream(spark.conf.get("audit.topics")).select(
        *PLACE,
        F.unix_millis("timestamp").alias("stored_ms"),
        F.get(F.transform(ids, lambda header: header["value"].cast("string")), F.lit(0)).alias("id"),
    )


@dp.table(comment="What producers and consumers said")
def receipts() -> DataFrame:
    said = F.from_json(F.col("value").cast("string"), RECEIPT)
    return _stream(spark.conf.get("audit.receipts")).select(said.alias("said")).select("said.*")


@dp.materialized_view(comment="Completeness, duplicates and latency per topic and minute")
def audit() -> DataFrame:
    return (
        _records()
        .groupBy("topic", F.date_trunc("minute", "at").alias("minute"))
        .agg(
            F.count_if("is_acknowledged").alias("acknowledged"),
            F.count_if("is_stored").alias("stored"),
            F.count_if("is_consumed").alias("consumed"),
            F.count_if("is_lost").alias("lost"),
            F.count_if(F.col("is_stored") & ~F.col("is_consumed")).alias("unread"),
            F.count_if("is_stored_again").alias("stored_again"),
            F.sum("times_read_again").alias("read_again"),
            F.percentile("produce_ms", 0.99).alias("produce_p99_ms"),
            F.percentile("consume_ms", 0.5).alias("consume_p50_ms"),
            F.percentile("consume_ms", 0.99).alias("consume_p99_ms"),
        )
    )


@dp.materialized_view(comment="Each record that is lost, there twice, or was read again")
def suspects() -> DataFrame:
    return (
        _records()
        .where("is_lost OR is_stored_again OR times_read_again > 0")
        .select(*PLACE, "id", "at", "is_lost", "is_stored_again", "times_read_again")
    )
