"""Settings with which a pipeline's session starts, and the two kinds of session.

Decides what is set where the spec is silent: an address, a folder for tables, quiet logs. The spec's configuration goes
over all of it.
"""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kavka_spark.cores import told
from kavka_spark.pipelines import catalog
from kavka_spark.pipelines.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
_CONNECT_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"


def settings_of(spec: PipelineSpec) -> dict[str, str]:
    """All of a session's settings."""
    settings = {
        "spark.app.name": spec.name,
        "spark.master": spec.own.master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
        **catalog.settings(spec),
    }
    if spec.own.master.startswith("local"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = os.environ["SPARK_LOCAL_IP"]
        # A table of a pipeline on one machine has a few tasks for each core, not Spark's 200.
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    return {**settings, **spec.spark_configuration()}


def prepare_environment(spec: PipelineSpec) -> None:
    """Sets what Spark reads from the environment, unless the user has set it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if spec.own.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def classic_session(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with told(settings):
        return builder.getOrCreate()


def connect_session(settings: Mapping[str, str]) -> tuple[SparkSession, SparkSession]:
    """A session of Spark Connect, which SDP needs, and the classic one in whose process its server runs.

    The server gets a free port of its own; `SparkSession.builder` would take 15002, so that a second pipeline on the
    machine could not start."""
    token = os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", str(uuid.uuid4()))
    port = _free_port()
    plugins = ",".join(filter(None, (settings.get("spark.plugins", ""), _CONNECT_PLUGIN)))
    classic = classic_session(
        {
            **settings,
            "spark.plugins": plugins,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.authenticate.token": token,
        }
    )
    # From here on pyspark.sql.functions build Connect's columns.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    os.environ["SPARK_LOCAL_REMOTE"] = "1"
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    # "localhost" by name: a token without TLS is allowed there only.
    session = ConnectSession.builder.remote(f"sc://localhost:{port}").getOrCreate()
    return session, classic  # type: ignore[return-value]  # the two kinds have one interface and no common base


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
