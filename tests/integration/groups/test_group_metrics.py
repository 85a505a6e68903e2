"""What `/metrics` says of groups of all kinds, and of what a share group's members do."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ACCEPT, REJECT, ShareMember


def test_a_share_groups_metrics_follow_its_members(tmp_path: Path) -> None:
    port = free_port()

    def read() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(kafka_\S+) (\S+)$", text, re.MULTILINE)}

    with KavkaProcess(tmp_path / "broker", settings={"kavka.metrics.port": str(port)}) as broker:
        before = read()
        assert before['kafka_server_group_coordinator_metrics_group_count{protocol="share"}'] == 0
        assert before['kafka_server_group_coordinator_metrics_streams_group_count{state="NotReady"}'] == 0
        assert before["kafka_server_sharesessioncache_sharesessionscount"] == 0
        group = ShareGroup(broker.port)
        place = f'{{group="{group.name}",topic="{group.name}",partition="0"}}'
        with ShareMember(broker.port, group.name, "reader") as member:
            member.join_assigned(group.name)
            assert eventually("records come", lambda: member.fetch(group.topic_id)) == [(0, 9, 1)]
            assert member.acknowledge(group.topic_id, (0, 2, [ACCEPT]), (5, 5, [REJECT])) == 0
            found = read()
        assert found['kafka_server_group_coordinator_metrics_group_count{protocol="share"}'] == 1
        assert found['kafka_server_group_coordinator_metrics_share_group_count{state="Stable"}'] == 1
        assert found["kafka_server_group_coordinator_metrics_share_group_rebalance_count"] >= 1
        acknowledged = "kafka_server_sharegroupmetrics_recordacknowledgementspersec_total"
        assert found[f'{acknowledged}{{acktype="Accept"}}'] == 3
        assert found[f'{acknowledged}{{acktype="Reject"}}'] == 1
        assert found[f"kafka_server_sharepartitionmetrics_inflightmessagecount{place}"] == 6
        assert found[f"kafka_server_sharepartitionmetrics_inflightbatchcount{place}"] == 3
        assert (
            found[f'kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio_sum{{group="{group.name}"}}'] == 100
        )
        assert found["kafka_server_sharegroupmetrics_partitionloadtimems_count"] == 1
        assert found["kafka_server_sharesessioncache_sharesessionscount"] == 1
        assert found["kafka_server_share_coordinator_metrics_write_total"] >= 2

        def is_over() -> bool:
            return read()["kafka_server_sharesessioncache_sharesessionevictionspersec_total"] == 1

        eventually("the session is lost with its connection", is_over)
