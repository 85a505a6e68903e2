"""What was shown, with the click that followed within an hour, if one did: a join of two streams."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


def _events(topic: str) -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), "at TIMESTAMP, user STRING, ad STRING")
    return records.select(event.alias("event")).select("event.*")


@dp.table(comment="Each advertisement that was shown, with its click or without one")
def shown_and_clicked() -> DataFrame:
    lateness = spark.conf.get("clicks.lateness")
    shown = _events(spark.conf.get("clicks.shown")).withWatermark("at", lateness)
    clicked = (
        _events(spark.conf.get("clicks.clicked"))
        .select(F.col("at").alias("clicked_at"), F.col("user").alias("clicker"), F.col("ad").alias("clicked_ad"))
        .withWatermark("clicked_at", lateness)
    )
    within = F.col("clicked_at").between(F.col("at"), F.col("at") + F.expr("INTERVAL 1 HOUR"))
    same = (F.col("user") == F.col("clicker")) & (F.col("ad") == F.col("clicked_ad"))
    # An outer row is written when the watermark says that no click can come any more.
    return shown.join(clicked, same & within, "leftOuter").select("at", "user", "ad", "clicked_at")
