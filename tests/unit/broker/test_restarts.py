"""The why-record of a broker that a host started again."""

from __future__ import annotations

import json

import pytest

from kavka.broker.decisions.restarts import restart
from kavka.console.look.sentence_translation import said_in_chinese
from kavka.decisions import DecisionKind
from kavka.model import BrokerId

ENDED = {"cause": "ended", "pid": 71, "how": "by signal SIGKILL", "after_ms": 1000, "times": 2}


def test_it_says_how_the_process_before_it_ended() -> None:
    found = restart(json.dumps(ENDED), 5, BrokerId(2))
    assert found.kind is DecisionKind.BROKER_RESTARTED
    assert (found.subject, found.broker_id, found.at_ms, found.evidence) == ("broker 2", 2, 5, ENDED)
    assert found.why == (
        "the host started broker 2 again 1000 ms after its process 71 had ended by signal SIGKILL; "
        "that was end 2 in a row"
    )
    assert (
        said_in_chinese(found.why)
        == "主机在其进程 71（被信号 SIGKILL 终止）结束 1000 毫秒后再次启动了 Broker 2；这是连续第 2 次结束"
    )


def test_it_says_that_it_was_asked_for() -> None:
    found = restart('{"cause": "asked", "pid": 71}', 5, BrokerId(2))
    assert found.why == "the host restarted broker 2, as it was asked to; its process was 71"
    assert said_in_chinese(found.why) == "主机按要求重启了 Broker 2；其原进程为 71"


@pytest.mark.parametrize("told", ["no JSON", "[]", '{"pid": [1]}'])
def test_what_no_host_tells_is_no_fact(told: str) -> None:
    assert restart(told, 5, BrokerId(2)).evidence == {}
