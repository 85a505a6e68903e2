"""Churn: why-records (docs/decisions.md) as changes, one row for each broker that left or joined an ISR or was elected,
and what changed in each window.

The controller writes down, too, what a leader proposed; that is the same change, and is left out. A record may stand in
the topic twice: its id tells.

The stream of finished windows reads the why-records itself and not the table `changes`: Spark 4.3 allows no watermark
on a table of the pipeline (withWatermark looks for it in the catalog at once).
"""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

DECISION = """
    id STRING, kind STRING, at_ms BIGINT, broker INT, why STRING, topic STRING, partition INT,
    before STRUCT<leader: INT, isr: ARRAY<INT>>, after STRUCT<leader: INT, isr: ARRAY<INT>>,
    evidence MAP<STRING, STRING>
"""
KINDS = ("isr shrunk", "isr expanded", "leader elected")


def _change(change: str, broker: Column) -> Column:
    return F.struct(F.lit(change).alias("change"), broker.cast("int").alias("broker"))


def _cause() -> Column:
    """Of a change; null where it is a follower's lag, of which there are two kinds."""
    election = F.col("evidence")["election"]
    unclean = F.when(F.col("evidence")["unclean"] == "true", ", unclean").otherwise("")
    return (
        F.when(election.isNotNull(), F.concat(election, F.lit(" election"), unclean))
        .when(F.col("kind") == "isr expanded", "caught up")
        .when(F.col("why").contains("shutting down"), "controlled shutdown")
        .when(F.col("why").contains("not alive"), "broker not alive")
        .when(F.col("why").contains("the partition moves"), "reassignment")
    )


def _lag(broker: Column) -> Column:
    """A follower that went on fetching was slow; one that did not was stuck."""
    fetched_ms = F.element_at("evidence", F.format_string("broker_%d_last_fetch_ms", broker)).cast("bigint")
    caught_up_ms = F.element_at("evidence", F.format_string("broker_%d_last_caught_up_ms", broker)).cast("bigint")
    is_slow = (F.col("at_ms") - fetched_ms) * 2 < F.col("at_ms") - caught_up_ms
    return F.when(fetched_ms.isNull(), "unknown").when(is_slow, "lag: slow").otherwise("lag: stuck")


def _changes() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", "__kavka_decisions")
        .option("startingOffsets", "earliest")
        .load()
    )
    decisions = (
        records.select(F.from_json(F.col("value").cast("string"), DECISION).alias("decision"))
        .select("decision.*")
        .where(F.col("kind").isin(*KINDS) & ~F.map_contains_key("evidence", F.lit("proposed_isr")))
        .withColumn("at", F.timestamp_millis("at_ms"))
        .withWatermark("at", spark.conf.get("churn.lateness"))
        .dropDuplicatesWithinWatermark(["id"])
    )
    left = F.transform(F.array_except("before.isr", "after.isr"), lambda broker: _change("shrink", broker))
    joined = F.transform(F.array_except("after.isr", "before.isr"), lambda broker: _change("expansion", broker))
    elected = F.when(F.col("kind") == "leader elected", F.array(_change("election", F.col("after.leader")))).otherwise(
        F.array().cast("array<struct<change:string,broker:int>>")
    )
    return decisions.select(
        "at",
        "topic",
        "partition",
        "why",
        _cause().alias("cause"),
        "evidence",
        "at_ms",
        F.explode(F.concat(left, joined, elected)).alias("moved"),
    ).select(
        "at",
        "topic",
        "partition",
        F.col("moved.change").alias("change"),
        F.col("moved.broker").alias("broker"),
        F.coalesce("cause", _lag(F.col("moved.broker"))).alias("cause"),
        "why",
    )


def _per_window(changes: DataFrame) -> DataFrame:
    window = F.window("at", spark.conf.get("churn.window"))
    counted = changes.groupBy(window, "broker", "topic", "cause").agg(
        F.count_if(F.col("change") == "shrink").alias("shrinks"),
        F.count_if(F.col("change") == "expansion").alias("expansions"),
        F.count_if(F.col("change") == "election").alias("elections"),
        F.max_by("why", "at").alias("last_why"),
    )
    return counted.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "broker",
        "topic",
        "cause",
        "shrinks",
        "expansions",
        "elections",
        "last_why",
    )


@dp.table(comment="One row for each broker that left an ISR, joined one or was elected")
def changes() -> DataFrame:
    return _changes()


@dp.materialized_view(comment="Changes per window, broker, topic and cause, the window that goes on included")
def churn() -> DataFrame:
    return _per_window(spark.read.table("changes"))


dp.create_sink(
    "churn_topic",
    format="kavka",
    options={
        "kafka.bootstrap.servers": spark.conf.get("spark.kavka.bootstrap.servers"),
        "topic": spark.conf.get("churn.topic"),
    },
)


@dp.append_flow(target="churn_topic")
def finished_windows() -> DataFrame:
    return _per_window(_changes()).select(
        F.concat_ws("/", "topic", F.col("broker").cast("string")).cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
