"""Where Spark finds `format("kavka-log")`: it imports every top-level module pyspark_*, and takes its DefaultSource."""

from kavka_spark.log_format import KavkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
