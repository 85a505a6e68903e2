"""A Spark session with the settings that kavka's formats need.

Decides the few settings without which a first job fails or warns: which Python the workers run, which address Spark
binds, and whether filters reach the source. Values of the caller, the environment and spark-defaults.conf take
precedence.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kavka_spark.cores import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def session(app_name: str = "kavka", **conf: str) -> SparkSession:
    """The running session, or a new one: `session("orders", **{"spark.sql.shuffle.partitions": "4"})`.

    It becomes the session of the calling thread: by that Spark finds a sink in Python, so that another thread that
    starts streams calls this first. Without `spark.master`, also from spark-submit, it runs in this process on all
    cores. Raises `ModuleNotFoundError` if PySpark is not installed, and Spark's own error if there is no Java.
    """
    from pyspark.sql import SparkSession

    # spark-submit has decided master, addresses and Pythons by the time that it starts the driver.
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted:
        # Workers run the `python3` of PATH otherwise, in which neither pyarrow nor kavka need be installed.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {"spark.sql.python.filterPushdown.enabled": "true", **conf}
    if not is_submitted and settings.get("spark.master", "local").startswith("local"):
        # A machine whose name resolves to an address that is not its own cannot be bound to.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings.setdefault("spark.driver.bindAddress", os.environ["SPARK_LOCAL_IP"])
        settings.setdefault("spark.driver.host", os.environ["SPARK_LOCAL_IP"])
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with told(settings):
        found = builder.getOrCreate()
    if SparkSession.getActiveSession() is None:
        found.createDataFrame([], "nothing int")  # The call of PySpark's that makes it the thread's session.
    return found
