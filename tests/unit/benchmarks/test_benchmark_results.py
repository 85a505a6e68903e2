"""Ratios and verdicts of the benchmarks: what is compared with what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import render
from benchmarks.other_work import OtherWork
from benchmarks.results import Measured, Run, Spread, compare, merge, read, write
from benchmarks.run import parse


def measured(row: str, candidate: str, number: int, **figures: float) -> Measured:
    return Measured(row=row, candidate=candidate, round=number, at="10:00:00", load_average=0.5, figures=figures)


def run(*measurements: Measured, started: str = "2026-01-01 10:00") -> Run:
    return Run(
        started=started,
        command=["python", "-m", "benchmarks.run"],
        machine={"cores": "2"},
        versions={"kavka": "kavka at abc", "kraft": "Apache Kafka 4.3.1"},
        broker_commands={},
        operations={"latencies": 10},
        measurements=list(measurements),
    )


def test_a_ratio_is_taken_within_each_round_and_its_median_counts() -> None:
    rounds = [(1, 10.0, 5.0), (2, 30.0, 10.0), (3, 8.0, 8.0)]
    measurements = [
        one
        for number, ours, theirs in rounds
        for one in (
            measured("produce_100b_acks_1", "kavka", number, records_per_s=ours),
            measured("produce_100b_acks_1", "kraft", number, records_per_s=theirs),
        )
    ]
    (comparison,) = compare(measurements, "kavka", "kraft")
    assert comparison.ratio == Spread(1.0, 2.0, 3.0)
    assert comparison.subject == Spread(8.0, 10.0, 30.0)
    assert comparison.verdict == "reached"


def test_a_round_that_only_one_candidate_finished_is_left_out() -> None:
    measurements = [
        measured("latency_acks_1", "kavka", 1, p50_us=50.0),
        measured("latency_acks_1", "kraft", 1, p50_us=100.0),
        measured("latency_acks_1", "kavka", 2, p50_us=1.0),
    ]
    (comparison,) = compare(measurements, "kavka", "kraft")
    assert comparison.rounds == 1
    assert comparison.subject == Spread(50.0, 50.0, 50.0)


def test_a_median_on_the_wrong_side_of_its_target_is_short() -> None:
    measurements = [
        measured("latency_acks_1", "kavka", 1, p50_us=61.0),
        measured("latency_acks_1", "kraft", 1, p50_us=100.0),
    ]
    (comparison,) = compare(measurements, "kavka", "kraft")
    assert str(comparison.target) == "<= 0.6"
    assert comparison.verdict == "short"


def test_a_figure_without_a_target_gets_no_verdict() -> None:
    measurements = [measured("startup", "kavka", 1, odd=1.0), measured("startup", "kraft", 1, odd=0.0)]
    (comparison,) = compare(measurements, "kavka", "kraft")
    assert comparison.ratio is None
    assert comparison.verdict == ""


def test_a_row_measured_again_replaces_only_that_row() -> None:
    old = run(measured("startup", "kavka", 1, first_answer_s=1.0), measured("idle", "kavka", 1, resident_mb=40.0))
    new = run(measured("startup", "kavka", 1, first_answer_s=0.2), started="2026-01-02 10:00")
    merged = merge([old], new)
    assert [one["row"] for one in merged[0]["measurements"]] == ["idle"]
    assert merged[1] == new


def test_the_document_names_what_is_short(tmp_path: Path) -> None:
    kavka = measured("startup", "kavka", 1, first_answer_s=1.0)
    write(tmp_path / "one-broker-kraft.json", [run(kavka, measured("startup", "kraft", 1, first_answer_s=2.0))])
    assert len(read(tmp_path / "one-broker-kraft.json")) == 1
    render.render(tmp_path, tmp_path / "benchmarks.md")
    text = (tmp_path / "benchmarks.md").read_text()
    assert "Targets reached: 0 of 1." in text
    assert "Short: start-up, launch to first Metadata answer, s: 0.5 instead of <= 0.1." in text


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.0, "1,234,567"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.0123")]
)
def test_numbers_keep_about_three_figures(value: float, text: str) -> None:
    assert render.number(value) == text


def test_the_document_says_when_the_load_may_have_been_of_other_work(tmp_path: Path) -> None:
    busy = run(measured("idle", "kavka", 1, resident_mb=40.0), measured("idle", "kraft", 1, resident_mb=400.0))
    busy["measurements"][0]["load_average"] = 4.1
    write(tmp_path / "one-broker-kraft.json", [busy])
    render.render(tmp_path, tmp_path / "benchmarks.md")
    assert "Such a load may be the run's own" in (tmp_path / "benchmarks.md").read_text()


def test_what_others_took_of_a_core_counts_more_than_the_load_average(tmp_path: Path) -> None:
    loaded = Measured(**{**measured("latency_acks_1", "kavka", 1, p50_us=50.0), "load_average": 5.8})
    for others, busy in ((3.4, False), (55.0, True)):
        both = run(loaded, measured("latency_acks_1", "kraft", 1, p50_us=100.0))
        write(tmp_path / "one-broker-kraft.json", [Run(**{**both, "others_cpu_percent": others})])
        render.render(tmp_path, tmp_path / "benchmarks.md")
        text = (tmp_path / "benchmarks.md").read_text()
        assert f"other processes took {others:.0f} % of a core" in text
        assert ("The machine was busy" in text) is busy


def test_a_row_that_only_kavka_completed_shows_its_rounds(tmp_path: Path) -> None:
    rounds = [measured("cluster_partitions_10000", "kavka", number, answered_s=number * 2.0) for number in (1, 2, 3)]
    both = [measured("latency_acks_1", candidate, 1, p50_us=1.0) for candidate in ("kavka", "kraft")]
    write(tmp_path / "three-brokers-kraft.json", [run(*both, *rounds)])
    render.render(tmp_path, tmp_path / "benchmarks.md")
    assert "CreateTopics answered, s 2.00 / 4.00 / 6.00." in (tmp_path / "benchmarks.md").read_text()


def test_only_what_others_do_counts_as_other_work() -> None:
    other_work = OtherWork()
    child = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended; another's until it is waited for
    with_child_s = other_work.others_s()
    child.wait()
    assert with_child_s - other_work.others_s() > 0.4


def test_a_broker_of_another_project_is_shown_without_targets(tmp_path: Path) -> None:
    measurements = [
        measured("small_requests", "kavka", 1, records_per_s=20_000.0),
        measured("small_requests", "kfake", 1, records_per_s=40_000.0),
    ]
    path = tmp_path / "one-broker-kfake.json"
    write(path, [run(*measurements)])
    document = tmp_path / "page.md"

    render.render(tmp_path, document)

    page = document.read_text()
    assert "## One broker: kavka and kfake" in page
    assert "keeps all in memory" in page
    assert "| one record per request, 50 in flight | records/s | 20,000 | 40,000 | 0.5 |" in page
    assert "Targets reached" not in page


@pytest.mark.parametrize("group", ["tls", "share"])
def test_what_a_peer_cannot_serve_is_not_asked_of_it(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([group, "--peer", "kfake"])
    assert f"{group}: kfake cannot serve it" in capsys.readouterr().err
