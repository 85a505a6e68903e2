"""Every kind of fault and of operation can be had, and what was struck is undone in the end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kavka.simulator.faults.fault_group import Argument
from kavka.simulator.faults.mix import KINDS, Strike
from kavka.simulator.runs.swarm import Plan, run_plan

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STRIKES: Mapping[str, Mapping[str, Argument]] = {
    "create topic": {"topic": "returns", "partitions": 1, "replicas": 2},
    "kill": {"broker": 1, "back_ms": 500, "regardless": False},
    "cut": {"one": "broker-2", "other": "broker-3", "both": False, "ms": 500},
    "isolate": {"broker": 2, "brokers": True, "zookeeper": False, "way": "in", "ms": 500},
    "clog": {"one": "broker-2", "other": "broker-3", "ms": 500},
    "add partitions": {"topic": "returns", "partitions": 2},
    "configure": {"topic": "returns", "setting": "retention.bytes", "value": "20000"},
    "delete records": {"topic": "orders", "partition": 0, "share": 0.5},
    "move": {"topic": "orders", "partition": 0, "to": [3, 1, 2], "then": "new controller", "then_ms": 50},
    "elect": {},
    "new controller": {},
    "session": {"broker": 3},
    "clock": {"broker": 3, "skew_ms": 60_000},
    "slow disk": {"broker": 2, "flush_ms": 300, "ms": 500},
    "resets": {"share": 0.5},
    "member leaves": {"place": 0, "ms": 5_000},  # It looks once a second whether it is to leave, and closes in order.
    "member crashes": {"place": 1, "ms": 500},
    "member pauses": {"place": 0, "ms": 500},
    "transactor crashes": {"place": 0, "ms": 500},
    "transactor pauses": {"place": 1, "ms": 1_500, "twin": True},
    "restart": {"broker": 2, "back_ms": 700},
    "power cut": {"broker": 3, "back_ms": 500},
    "disk full": {"broker": 1, "directory": "/logs", "ms": 500},
    "disk errors": {
        "broker": 2,
        "directory": "/logs2",
        "what": "writes",
        "share": 1.0,
        "ms": 5_000,
        "replaced": True,
    },
    "pause": {"broker": 1, "ms": 500},
    "zookeeper": {"back_ms": 500},
    "swizzle": {"away": [1, 3], "back": [3, 1], "step_ms": 300, "ms": 300},
    "delete topic": {"topic": "returns"},
}
PAUSE_MS = 9_000


def test_every_kind_strikes_and_all_comes_together_afterwards() -> None:
    assert sorted(STRIKES) == sorted(KINDS)
    schedule = [Strike((number + 1) * PAUSE_MS, kind, STRIKES[kind]) for number, kind in enumerate(STRIKES)]
    plan = Plan(
        4,
        members=2,
        transactors=2,
        clock_drift=0.02,
        core_first=True,
        settings={
            "log.dirs": "/logs,/logs2",
            "kavka.eligible.leader.replicas.enable": "true",
            "transaction.state.log.num.partitions": "2",
        },
    )
    result = run_plan(plan, hours=(len(schedule) + 2) * PAUSE_MS / 3_600_000, schedule=schedule)
    assert result.violation == ""
    assert result.faults == dict.fromkeys(STRIKES, 1)
