"""Churn per window: a view of all windows, and a stream of those that are over, into a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


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
    changes = spark.readStream.table("changes").withWatermark("at", spark.conf.get("churn.lateness"))
    finished = _per_window(changes)
    return finished.select(
        F.concat_ws("/", "topic", F.col("broker").cast("string")).cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
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
