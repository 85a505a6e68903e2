"""Every threshold on every workload, each case run in a worker; and what it all says."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kavka_spark.pipelines.lag_policy_sweep import case_schema, cases, outcome_schema, run_cases

spark = SparkSession.active()


def _list(name: str) -> list[str]:
    return [each.strip() for each in spark.conf.get(name).split(",") if each.strip()]


FOLDER = spark.conf.get("sweep.traces")
CASES = cases(
    times_ms=[int(each) for each in _list("sweep.times_ms")],
    messages=[int(each) for each in _list("sweep.messages")],
    names=_list("sweep.workloads"),
    seeds=int(spark.conf.get("sweep.seeds")),
    minutes=float(spark.conf.get("sweep.minutes")),
    traces=sorted(str(path.resolve()) for path in Path(FOLDER).glob("*.jsonl")) if FOLDER else (),
)
TASKS = int(spark.conf.get("sweep.tasks"))
# Not within the flow: mapInPandas asks Spark for the columns of what it is called on, which a flow may not do.
OUTCOMES = spark.createDataFrame(CASES, case_schema()).repartition(TASKS).mapInPandas(run_cases, outcome_schema())


@dp.materialized_view(comment="What each policy did to each workload")
def outcomes() -> DataFrame:
    return OUTCOMES


@dp.materialized_view(comment="Each policy over all workloads, the best one first")
def verdicts() -> DataFrame:
    # In the order in which an operator loses by it: nobody noticed a follower that lags; a healthy one was thrown out;
    # writes were blocked.
    return (
        spark.read.table("outcomes")
        .groupBy("policy", "max_ms", "max_messages")
        .agg(
            F.count("*").alias("runs"),
            F.sum("overlooked").alias("overlooked"),
            F.sum("to_be_found").alias("to_be_found"),
            F.sum("false_alarms").alias("false_alarms"),
            F.sum(F.col("refused_ms") + F.col("stalled_ms")).alias("blocked_ms"),
            F.max("worst_detection_ms").alias("worst_detection_ms"),
            F.sum("isr_updates").alias("isr_updates"),
        )
        .orderBy(
            F.asc_nulls_last("overlooked"), F.asc_nulls_last("false_alarms"), "blocked_ms", "isr_updates", "max_ms"
        )
    )
