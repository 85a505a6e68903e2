"""What a ZooKeeper server tells by the command that is allowed by default."""

from __future__ import annotations

from kavka.observe.zookeeper_readings import parse_srvr

SRVR = """Zookeeper version: 3.8.4, built on 2024-02-12 22:16 UTC
Latency min/avg/max: 0/0.4138/21
Received: 1421
Sent: 1440
Connections: 4
Outstanding: 2
Zxid: 0x1a3
Mode: standalone
Node count: 158
"""


def test_srvr_is_told_under_the_names_of_mntr() -> None:
    assert parse_srvr(SRVR) == {
        "zk_server_state": "standalone",
        "zk_num_alive_connections": "4",
        "zk_outstanding_requests": "2",
        "zk_znode_count": "158",
        "zk_min_latency": "0",
        "zk_avg_latency": "0.4138",
        "zk_max_latency": "21",
    }


def test_a_refusal_is_no_answer() -> None:
    assert parse_srvr("srvr is not executed because it is not in the whitelist.") == {}
