"""Kafka's topics and log files as Spark's tables and streams, read and written in Python, with no JAR.

It speaks to kavka and to Apache Kafka alike, through kavka's client. Spark finds the formats by the top-level modules
pyspark_kavka and pyspark_kavka_log; this package holds what they do.
"""
