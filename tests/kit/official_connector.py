"""Spark's own Kafka connector, the peer of comparisons: the jars to give to `spark.jars`.

The connector is the released jar as it is, with Kafka's client. Its delegation-token helper is to be had at no version
that fits, so classes of our own (tests/conformance/spark/stand_in) stand in for the three that the connector calls
there; they know no tokens. Every reason why there is no connector here is a PeerMissing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.apache_kafka import PeerMissing

VERSION = "4.2.0"
"""The newest there is. It runs on Spark 4.3 in all that is tried here; nobody promises that."""
SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "setup_spark_connector.sh"
_MISSING = 3


def connector_jars() -> list[Path]:
    """Fetches them at first. Raises PeerMissing."""
    result = subprocess.run([SCRIPT, sys.executable], capture_output=True, text=True, check=False)
    if result.returncode == _MISSING:
        raise PeerMissing(result.stderr.strip())
    if result.returncode:
        raise RuntimeError(f"{SCRIPT.name} failed: {result.stderr[-2000:]}")
    return [Path(jar) for jar in result.stdout.strip().split(",")]
