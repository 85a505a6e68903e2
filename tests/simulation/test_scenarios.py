"""Every named scenario ends as it must, whatever order of steps a seed draws."""

from __future__ import annotations

import re

import pytest

from kavka.simulator.rules.invariants import Violation
from kavka.simulator.scenarios import SCENARIOS, lose_last_standing, play
from kavka.simulator.scenarios.play import Unexpected

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


ORDERS = (1, 2)
"""Seeds: of the order of steps, of delays."""
POWER_CUTS = (1, 2, 3, 4, 5)
"""Seeds: of what a power cut takes."""


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_scenario(name: str) -> None:
    for seed in ORDERS:
        play(name, seed)


def test_without_eligible_leader_replicas_the_last_one_standing_loses_what_was_acknowledged() -> None:
    """As Apache Kafka does on ZooKeeper (KIP-966). A power cut may spare all of the records; of most it takes some."""
    lost: list[str] = []
    for seed in POWER_CUTS:
        try:
            lose_last_standing(seed)
        except (Violation, Unexpected) as loss:
            lost.append(str(loss))
    assert all(re.search(r"R5|R7|R11|is None, not b'record", what) for what in lost)
    assert len(lost) > len(POWER_CUTS) / 2
