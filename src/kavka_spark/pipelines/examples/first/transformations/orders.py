"""Orders of a topic, such as {"id": 17, "customer": "c-3", "amount": 12.5}, as a table.

A decorated function is called at once, when Spark reads this file: what it uses has to stand above it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(comment="One row for each order, with the place that it has in the topic")
def orders() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("value").cast("string"), "id BIGINT, customer STRING, amount DOUBLE")
    return records.select("partition", "offset", "timestamp", order.alias("order")).select(
        "partition", "offset", "timestamp", "order.*"
    )
