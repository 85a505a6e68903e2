"""Where Spark finds `format("kavka-delta")`: it imports every top-level module pyspark_*, and takes DefaultSource."""

from kavka_spark.lakehouse.delta_format import DeltaFormat as DefaultSource

__all__ = ["DefaultSource"]
