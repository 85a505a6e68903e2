"""Half a minute of a siege: three secured brokers under all bad input at once, and good clients beside it.
`make siege` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.siege import run

FEWEST_ASSAULTS, FEWEST_RECORDS = 500, 500


@pytest.mark.thorough
@pytest.mark.timeout(360)
@pytest.mark.parametrize("up_secure", [False, True], ids=["settings of ours", "kavka up --secure"])
def test_bad_input_of_all_kinds_at_once_lets_nobody_in_and_costs_nobody_a_record(
    tmp_path: Path, up_secure: bool
) -> None:
    outcome = run(tmp_path, seconds=15, connections=500, waves=2, peace_s=5, longest_s=60, up_secure=up_secure)
    print("\n".join(outcome.lines))
    assert outcome.failures == []
    # Otherwise the siege showed nothing.
    assert outcome.assaults >= FEWEST_ASSAULTS
    assert outcome.acknowledged >= FEWEST_RECORDS
