"""The findings of all replicas (docs/spark.md has the kinds), and how many each partition has."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kavka_spark.pipelines.fsck import fsck

spark = SparkSession.active()


def _list(name: str) -> list[str]:
    return [each.strip() for each in spark.conf.get(name).split(",") if each.strip()]


# The directories are listed once, when this file is read; a flow may only say what is to be computed.
FINDINGS = fsck(spark, _list("fsck.directories"), topics=_list("fsck.topics"))


@dp.materialized_view(comment="What is wrong, the worst first")
def findings() -> DataFrame:
    return FINDINGS
