"""`kavka quorum-vs-isr`: what is printed and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.cli.output import Failure
from kavka.cli.understand.quorum_vs_isr import compare
from kavka.studies.quorum_vs_isr import Circumstances

SHORT = Circumstances(hours=0.5, crash_every_minutes=10, disk_loss=0.2, seed=3)


def test_one_object_has_the_figures_and_the_page_the_drawings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    compare(SHORT, plot=str(page), as_json=True)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [each["replicas"] for each in found["schemes"]] == [2, 2, 3, 3]
    assert all(each["writes"] == 1_800 for each in found["schemes"])
    assert found["seed"] == 3
    assert page.read_text().count("<svg") == 5


def test_a_table_and_sentences_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    compare(SHORT, plot=None, as_json=False)
    printed = capsys.readouterr().out
    assert "quorum of 3\t3\t" in printed
    assert "To survive 1 failure the ISR keeps 2 copies, the quorum 3." in printed


def test_a_page_that_cannot_be_written_and_too_many_writes_are_said() -> None:
    with pytest.raises(Failure, match="cannot be written"):
        compare(SHORT, plot="/nowhere/page.html", as_json=True)
    with pytest.raises(Failure, match="more than 2,000,000 writes"):
        compare(Circumstances(hours=1_000), plot=None, as_json=True)
