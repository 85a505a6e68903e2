"""Where Spark finds `format("kavka-iceberg")`: it imports every top-level module pyspark_*, and takes DefaultSource."""

from kavka_spark.lakehouse.iceberg_format import IcebergFormat as DefaultSource

__all__ = ["DefaultSource"]
