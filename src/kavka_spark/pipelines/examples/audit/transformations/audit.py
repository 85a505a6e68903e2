"""Acknowledged against stored against consumed, per topic and minute; and each record with which something is wrong."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, Window
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


def _places() -> DataFrame:
    """One row for each place in a topic that anybody told of: what is stored there, acknowledged and read."""
    receipts = spark.read.table("receipts")
    acknowledged = (
        receipts.where("kind = 'acknowledged'")
        .groupBy(*PLACE)
        .agg(F.min("at_ms").alias("acknowledged_ms"), F.max("id").alias("acknowledged_id"))
    )
    consumed = (
        receipts.where("kind = 'consumed'")
        .groupBy(*PLACE)
        .agg(F.min("at_ms").alias("consumed_ms"), F.count("*").alias("times_consumed"))
    )
    of_id = Window.partitionBy("topic", "id")
    stored = spark.read.table("stored").withColumn(
        "is_again", F.col("id").isNotNull() & (F.row_number().over(of_id.orderBy("partition", "offset")) > 1)
    )
    joined = stored.join(acknowledged, PLACE, "fullouter").join(consumed, PLACE, "fullouter")
    # Another record where an acknowledged one was: that one is lost too.
    is_another = F.coalesce(F.col("id") != F.col("acknowledged_id"), F.lit(False))
    is_there = F.col("stored_ms").isNotNull() & ~is_another
    return joined.select(
        *PLACE,
        F.coalesce("acknowledged_id", "id").alias("id"),
        F.timestamp_millis(F.coalesce("stored_ms", "acknowledged_ms", "consumed_ms")).alias("at"),
        F.col("stored_ms").isNotNull().alias("is_stored"),
        F.col("acknowledged_ms").isNotNull().alias("is_acknowledged"),
        F.col("consumed_ms").isNotNull().alias("is_consumed"),
        (F.col("acknowledged_ms").isNotNull() & ~is_there).alias("is_lost"),
        F.coalesce("is_again", F.lit(False)).alias("is_stored_again"),
        (F.coalesce("times_consumed", F.lit(1)) - 1).alias("times_read_again"),
        (F.col("acknowledged_ms") - F.col("stored_ms")).alias("produce_ms"),
        (F.col("consumed_ms") - F.col("stored_ms")).alias("consume_ms"),
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
        _places()
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
        _places()
        .where("is_lost OR is_stored_again OR times_read_again > 0")
        .select(*PLACE, "id", "at", "is_lost", "is_stored_again", "times_read_again")
    )
