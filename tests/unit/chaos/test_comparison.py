"""Both brands under the same draws: campaigns in pairs, and one table of what came of them."""

from __future__ import annotations

import pytest

from tests.chaos import comparison
from tests.chaos.campaign import Outcome
from tests.chaos.nemesis import Fault
from tests.chaos.report import Recovery
from tests.chaos.run import campaigns, parse


def test_each_campaign_is_run_with_either_brand_and_the_same_draws() -> None:
    pairs = campaigns(parse(["--kind", "both", "--seed", "7", "--seconds", "80"]))
    assert [(one.kind, one.brokers, one.seed, one.seconds) for one in pairs] == [
        ("kavka", 3, 7, 20.0),
        ("kafka", 3, 7, 20.0),
        ("kavka", 5, 8, 20.0),
        ("kafka", 5, 8, 20.0),
    ]
    assert {one.faults for one in pairs} == {pairs[0].faults}


def test_one_brand_has_a_campaign_of_each_size_and_a_seed_for_each() -> None:
    alone = campaigns(parse(["--seed", "7", "--seconds", "80"]))
    assert [(one.kind, one.brokers, one.seed, one.seconds) for one in alone] == [
        ("kavka", 3, 7, 40.0),
        ("kavka", 5, 8, 40.0),
    ]


def test_transactions_of_both_brands_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--kind", "both", "--workload", "transactions"])
    assert "--kind both goes with --workload records" in capsys.readouterr().err


def test_the_table_has_both_verdicts_and_the_gaps_of_each_fault() -> None:
    kills = Recovery(times=3, write_median=0.2, write_worst=1.5, read_median=0.3, read_worst=1.75)
    outcomes = {
        "kavka": Outcome([], [], 1200, 3, recoveries={Fault.KILL: kills}),
        "kafka": Outcome(["1 x lost"], [], 900, 2, recoveries={Fault.PAUSE: kills}),
    }
    text = list(comparison.lines(outcomes))
    assert text[0] == "kavka: no anomaly; 1,200 records acknowledged, 3 faults"
    assert text[1] == "kafka: FAILED (1 lines above); 900 records acknowledged, 2 faults"
    assert [line.split() for line in text[4:]] == [
        ["kill", "-9"],
        ["kavka", "3", "x", "write", "0.20", "1.50", "read", "0.30", "1.75"],
        ["kafka", "none"],
        ["short", "pause"],
        ["kavka", "none"],
        ["kafka", "3", "x", "write", "0.20", "1.50", "read", "0.30", "1.75"],
    ]
