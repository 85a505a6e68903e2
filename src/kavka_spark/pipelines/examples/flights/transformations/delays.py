"""Delays per carrier and hour. A window is written when it is over: when flights have come that are later than its end
by `flights.lateness`."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kavka_spark import stable

spark = SparkSession.active()
brokers = spark.conf.get("spark.kavka.bootstrap.servers")


def _flights() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", spark.conf.get("flights.topic"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", spark.conf.get("flights.rows"))
        .load()
    )
    # The data set writes what is not known as NA.
    flight = F.from_json(F.col("value").cast("string"), "carrier STRING, dep_delay STRING, arr_delay STRING")
    return records.select("timestamp", flight.alias("flight")).select(
        "timestamp",
        "flight.carrier",
        F.expr("try_cast(flight.dep_delay AS DOUBLE)").alias("departure_delay"),
        F.expr("try_cast(flight.arr_delay AS DOUBLE)").alias("arrival_delay"),
    )


@dp.table(comment="One row for each carrier and hour that is over", format="parquet")
def delays() -> DataFrame:
    stream = _flights().withWatermark("timestamp", spark.conf.get("flights.lateness"))
    # The schema is said, so that nothing is read to find it out.
    airlines = spark.read.csv(spark.conf.get("flights.airlines"), schema="carrier STRING, name STRING", header=True)
    per_hour = stream.groupBy(F.window("timestamp", "1 hour"), "carrier").agg(
        F.count("*").alias("flights"),
        F.count("departure_delay").alias("departed"),
        F.sum("departure_delay").cast("bigint").alias("departure_delay_minutes"),
        F.max("departure_delay").cast("bigint").alias("worst_departure_delay"),
        F.sum("arrival_delay").cast("bigint").alias("arrival_delay_minutes"),
    )
    # An inner join: what is no airline's (the demo's last record, which ends the last hours) falls out here. Records
    # with no carrier at all fall out before the watermark sees them: Spark pushes that part of the join down.
    return per_hour.join(F.broadcast(airlines), "carrier").select(
        F.col("window.start").alias("hour"),
        "carrier",
        "name",
        "flights",
        "departed",
        "departure_delay_minutes",
        "worst_departure_delay",
        "arrival_delay_minutes",
    )


dp.create_sink(
    "results",
    format="kavka",
    options={
        "kafka.bootstrap.servers": brokers,
        "topic": spark.conf.get("flights.results"),
        "exactlyOnce": "true",
    },
)


@dp.append_flow(target="results")
def delays_to_topic() -> DataFrame:
    rows = spark.readStream.table("delays")
    records = rows.select(
        F.concat_ws("/", "carrier", F.date_format("hour", "yyyy-MM-dd'T'HH'Z'")).cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
    # exactlyOnce needs a number of tasks that stays the same on another machine; the rows are few.
    return stable(records, 2, "key")
