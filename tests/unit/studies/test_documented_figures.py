"""docs/lag-policy.md shows what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.studies.lag_outcome import DEFAULT_CHOICES
from kavka.studies.lag_policy import run_workload
from kavka.studies.lag_report import row_of
from kavka.studies.lag_workload import workloads
from kavka.studies.quorum_report import row_of as quorum_row_of
from kavka.studies.quorum_vs_isr import Circumstances, draw, run_scheme, schemes

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "lag-policy.md").read_text()


@pytest.mark.parametrize("name", ["bursts", "two-topics"])
def test_the_table_of_lag_policies_is_what_is_printed(name: str) -> None:
    workload = next(each for each in workloads(10) if each.name == name)
    for choice in DEFAULT_CHOICES:
        row = row_of(run_workload(workload, choice, minutes=10, seed=1))
        assert f"| {' | '.join(row)} |" in PAGE


def test_the_table_of_harsher_faults_is_what_is_printed() -> None:
    drawn = draw(Circumstances(hours=12, seed=2, crash_every_minutes=30, disk_loss=0.1))
    for scheme in schemes(1):
        assert f"| {' | '.join(quorum_row_of(run_scheme(scheme, drawn)))} |" in PAGE
