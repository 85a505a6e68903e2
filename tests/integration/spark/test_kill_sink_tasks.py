"""400,000 rows through the exactly-once sink while its processes are killed with -9, paused and overtaken.

test_kill_spark.py does the same with Spark itself.
"""

import pytest

from tests.kit.bad_day import bad_day
from tests.kit.kavka_process import KavkaProcess


@pytest.mark.timeout(400)
def test_400000_rows_are_there_once_after_a_bad_day(kavka_broker: KavkaProcess) -> None:
    driver = bad_day(kavka_broker.bootstrap, 10, ["kill"] * 5 + ["pause"] * 3 + ["overtake"] * 2, seed=1)
    assert driver.faults == {"kill": 5, "pause": 3, "overtake": 2}


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_bad_days(kavka_broker: KavkaProcess, seed: int) -> None:
    bad_day(kavka_broker.bootstrap, 30, ["kill"] * 15 + ["pause"] * 8 + ["overtake"] * 7, seed)
