"""Kafka's topics and log files as Spark's tables and streams, read and written in Python, with no JAR.

It works with kavka and with Apache Kafka, through kavka's client. Spark finds the formats by the top-level modules
pyspark_kavka and pyspark_kavka_log; this package does the work.

    from kavka_spark import session

    spark = session("orders")
    spark.read.format("kavka").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()
"""

from kavka_spark.session import session

__all__ = ["session"]
