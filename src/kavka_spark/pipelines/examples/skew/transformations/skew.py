"""Bytes, records and keys per partition and broker, and a plan that evens the brokers out."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kavka.model import TopicPartition
from kavka_spark.pipelines.skew_plan import SkewPlan, plan_by_bytes
from kavka_spark.pipelines.topology import brokers, placement_schema, placements

spark = SparkSession.active()

BOOTSTRAP = spark.conf.get("spark.kavka.bootstrap.servers")
TOPICS = spark.conf.get("skew.topics")
TOLERANCE = float(spark.conf.get("skew.tolerance"))
# The cluster is asked once, when this file is read.
PLACES = placements(BOOTSTRAP, [topic.strip() for topic in TOPICS.split(",")])
BROKERS = brokers(BOOTSTRAP)

EFFECT = (
    T.StructType()
    .add("broker", T.IntegerType())
    .add("bytes_before", T.LongType())
    .add("bytes_after", T.LongType())
    .add("led_bytes_before", T.LongType())
    .add("led_bytes_after", T.LongType())
    .add("bytes_moved_in_all", T.LongType())
)


def _records() -> DataFrame:
    records = (
        spark.read.format("kavka")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", TOPICS)
        .option("columns", "key,value,topic,partition,timestamp")
        .load()
    )
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return records.select("topic", "partition", "key", "timestamp", size.cast("bigint").alias("bytes"))


def _measured() -> DataFrame:
    """Where each partition is, and what was counted in it: all in one row, `partitions`, for one plan."""
    places = spark.createDataFrame(PLACES, placement_schema())
    sizes = spark.read.table("partitions").select("topic", "partition", "bytes")
    measured = places.join(sizes, ["topic", "partition"], "left")
    return measured.agg(F.collect_list(F.struct("topic", "partition", "replicas", "bytes")).alias("partitions"))


def _plan(partitions: list[Row]) -> SkewPlan:
    replicas = {TopicPartition(each.topic, each.partition): each.replicas for each in partitions}
    sizes = {TopicPartition(each.topic, each.partition): each.bytes or 0 for each in partitions}
    return plan_by_bytes(replicas, sizes, BROKERS, tolerance=TOLERANCE)


# applyInPandas would ask Spark for the columns of `partitions`, which a flow of a pipeline may not do; this does not.
@F.udf(T.ArrayType(EFFECT))
def _effects(partitions: list[Row]) -> list[tuple[int, ...]]:
    plan = _plan(partitions)
    return [(*effect, plan.bytes_moved) for effect in plan.effects]


@F.udf(T.ArrayType(T.StringType()))
def _json(partitions: list[Row]) -> list[str]:
    plan = _plan(partitions)
    return [plan.json] if plan.json else []


@dp.materialized_view(comment="Records, bytes and keys of each partition")
def partitions() -> DataFrame:
    counted = (
        _records()
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.sum("bytes").alias("bytes"),
            F.approx_count_distinct("key").alias("keys"),
            F.max("timestamp").alias("last"),
        )
    )
    of_topic = Window.partitionBy("topic")
    share = F.round(F.col("bytes") / F.sum("bytes").over(of_topic), 4)
    return counted.withColumn("share_of_topic", share)


@dp.materialized_view(comment="The keys with the most bytes, and what share of their partition they are")
def hot_keys() -> DataFrame:
    by_key = (
        _records()
        .where("key IS NOT NULL")
        .groupBy("topic", "partition", "key")
        .agg(F.sum("bytes").alias("bytes"), F.count("*").alias("records"))
    )
    of_topic = Window.partitionBy("topic").orderBy(F.desc("bytes"), "key")
    of_partition = Window.partitionBy("topic", "partition")
    ranked = by_key.select(
        "topic",
        "partition",
        F.col("key").cast("string").alias("key"),
        "records",
        "bytes",
        F.round(F.col("bytes") / F.sum("bytes").over(of_partition), 4).alias("share_of_partition"),
        F.row_number().over(of_topic).alias("rank"),
    )
    return ranked.where(F.col("rank") <= int(spark.conf.get("skew.hot_keys")))


@dp.materialized_view(comment="Bytes of each broker as they are, and as they would be")
def prediction() -> DataFrame:
    return _measured().select(F.inline(_effects("partitions")))


@dp.materialized_view(comment="The plan, one line of JSON for kafka-reassign-partitions", format="text")
def reassignment() -> DataFrame:
    return _measured().select(F.explode(_json("partitions")).alias("value"))
