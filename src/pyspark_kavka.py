"""Where Spark finds `format("kavka")`: it imports every top-level module pyspark_*, and takes its DefaultSource."""

from kavka_spark.source import KavkaSource as DefaultSource

__all__ = ["DefaultSource"]
