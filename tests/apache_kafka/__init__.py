"""Apache Kafka itself, beside which kavka is tested and measured: 3.9 with ZooKeeper and 4.x with KRaft.

release.py   the jars of one release, from Maven, and how Java is called with them
servers.py   processes, pid files, how they are ended
cluster.py   a cluster: settings, start, readiness
__main__.py  the same by hand: .venv/bin/python -m tests.apache_kafka --help
"""

from tests.apache_kafka.cluster import ApacheKafka, run_tool
from tests.apache_kafka.release import VERSIONS, PeerMissing, Release, UnknownTool, installed, java, peers_home

__all__ = [
    "VERSIONS",
    "ApacheKafka",
    "PeerMissing",
    "Release",
    "UnknownTool",
    "installed",
    "java",
    "peers_home",
    "run_tool",
]
