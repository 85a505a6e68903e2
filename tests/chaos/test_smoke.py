"""Short campaigns on every change: three brokers, kill -9 and stops, nothing lost, and everything transformed exactly
once. `make chaos` is the long one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing
from tests.chaos.campaign import TRANSACTIONS, Campaign
from tests.chaos.nemesis import Fault
from tests.chaos.run import run

SEED = 20_190_601
FEWEST_FAULTS, FEWEST_RECORDS = 3, 600
# Without network faults and small disks it needs no privileges.
SMOKE = Campaign(
    seconds=12,
    seed=SEED,
    faults=(Fault.KILL, Fault.PAUSE, Fault.LONG_PAUSE, Fault.ZOOKEEPER_KILL),
    network=False,
    small_disks=False,
    producers=2,
    rate=100,
    interval_s=2.0,
    fewest_faults=FEWEST_FAULTS,
)
EXACTLY_ONCE = replace(
    SMOKE,
    workload=TRANSACTIONS,
    seconds=24,
    interval_s=3.0,
    faults=(Fault.KILL, Fault.PAUSE, Fault.RESTART, Fault.CLIENT_KILL, Fault.CLIENT_PAUSE),
    rate=60,
    transformers=3,
)
FEWEST_INPUTS, FEWEST_TRANSACTIONS = 600, 10


# It ends a run that hangs; the limits that count are the campaign's. Among other tests a start once took 98 s.
@pytest.mark.timeout(360)
def test_nothing_acknowledged_is_lost_moved_or_repeated_under_kills_and_stops(tmp_path: Path) -> None:
    outcome = run(SMOKE, tmp_path / "chaos")
    print("\n".join(outcome.lines))
    assert outcome.failures == []
    # Otherwise the campaign showed nothing.
    assert outcome.faults >= FEWEST_FAULTS
    assert outcome.acknowledged >= FEWEST_RECORDS


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_everything_is_transformed_exactly_once_under_kills_and_stops(tmp_path: Path) -> None:
    outcome = run(EXACTLY_ONCE, tmp_path / "chaos")
    print("\n".join(outcome.lines))
    assert outcome.failures == []
    assert outcome.faults >= FEWEST_FAULTS
    assert outcome.acknowledged >= FEWEST_INPUTS
    assert outcome.transactions >= FEWEST_TRANSACTIONS


@pytest.mark.thorough
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["kavka+", "kafka+"])
def test_a_secured_cluster_of_both_brands_loses_nothing_under_kills_and_stops(tmp_path: Path, kind: str) -> None:
    """TLS, logins that are renewed, and an authorizer; two of three brokers of the one brand, and of the other."""
    campaign = replace(
        SMOKE, kind=kind, secured=True, seconds=40, interval_s=5.0, faults=(Fault.KILL, Fault.PAUSE, Fault.LONG_PAUSE)
    )
    try:
        outcome = run(campaign, tmp_path / "chaos")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    print("\n".join(outcome.lines))
    assert outcome.failures == []
    assert outcome.faults >= FEWEST_FAULTS
    assert outcome.acknowledged >= FEWEST_RECORDS
