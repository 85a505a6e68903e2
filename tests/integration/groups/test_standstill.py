"""A broker that stands still, as on a machine with too much to do, until locks and sessions have ended: what a member
said in time counts, and who said nothing has lost them all the same.

Apache Kafka 4.3 reads and looks at its clock in different threads: of eight acknowledgements of that kind it took four.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from kavka.errors import ErrorCode
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.share_group import GROUP_RESOURCE, ShareGroup
from tests.kit.share_member import ACCEPT, ShareMember

LIVES_MS = 4_000
"""Of a lock, and of a session without a heartbeat: all that comes before the standstill takes less, on any machine."""
STANDSTILL_S = LIVES_MS / 1_000 + 1
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": str(LIVES_MS),
    "group.share.session.timeout.ms": str(LIVES_MS),
}


def queue(broker: KavkaProcess) -> ShareGroup:
    """Ten records, and a group whose locks are short."""
    group = ShareGroup(broker.port)
    change = configs.AlterableConfig(name="share.record.lock.duration.ms", config_operation=0, value=str(LIVES_MS))
    resource = configs.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group.name, configs=[change])
    with BrokerClient(broker.port) as client:
        client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return group


def test_what_was_said_in_time_counts_and_nothing_else(tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "data", settings=SETTINGS) as broker:
        first, second = queue(broker), queue(broker)
        with (
            ShareMember(broker.port, first.name) as quick,
            ShareMember(broker.port, second.name) as slow,
            ShareMember(broker.port, first.name) as beating,
            ShareMember(broker.port, first.name) as silent,
        ):
            slow.join_assigned(second.name)
            for member in (quick, silent, beating):
                member.join_assigned(first.name)
            assert slow.fetch(second.topic_id) == [(0, 9, 1)]
            assert quick.fetch(first.topic_id) == [(0, 9, 1)]
            os.kill(broker.pid, signal.SIGSTOP)
            threading.Timer(STANDSTILL_S, os.kill, (broker.pid, signal.SIGCONT)).start()
            beat = ShareGroupHeartbeatRequest(
                group_id=first.name, member_id=beating.name, member_epoch=beating.member_epoch
            )
            beating.send(beat, 1)
            assert quick.acknowledge(first.topic_id, (0, 9, [ACCEPT])) == 0
            again_s = time.monotonic()
            with ShareMember(broker.port, second.name) as other:
                assert other.fetch(second.topic_id) == [(0, 9, 2)]
            assert time.monotonic() - again_s < LIVES_MS / 1_000
            assert slow.acknowledge(second.topic_id, (0, 9, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
            assert beating.receive(beat, 1).error_code == 0
            assert silent.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
