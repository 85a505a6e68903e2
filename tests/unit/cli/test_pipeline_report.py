"""What a pipeline's run shows: bars, shares, the status out of journals; and what is said where Spark is missing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from kavka.cli.output import WRONG_USAGE, Failure
from kavka.cli.pipelines.pipeline import backfill
from kavka.cli.pipelines.pipeline_report import BAR, Run, Teller, bar, show_status
from kavka.cli.pipelines.spark import need_spark, recover
from kavka.installation import install_command
from kavka_spark.pipelines.journal import Journal, new_journal_path
from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.spec import PipelineSpec, parse_spec

FIGURES = {"rows_in": 75, "rows_out": 70, "lag": 25, "seconds": 1.25}


def _spec(tmp_path: Path) -> PipelineSpec:
    return parse_spec(tmp_path / "pipeline.yml", {"name": "orders", "storage": "storage"})


def test_a_bar_is_as_long_as_what_is_done() -> None:
    assert bar(None) == ""
    assert bar(0.5).count("━") == BAR // 2
    assert len(bar(0.0)) == len(bar(1.0)) == BAR


def test_what_is_done_is_known_where_lag_is() -> None:
    run = Run()
    run.take({"event": "run began", "run": 1, "at": 0.0})
    run.take({"event": "flow", "flow": "a", "state": "running"})
    assert run.share("a") is None
    run.take({"event": "progress", "flow": "a", **FIGURES})
    assert run.share("a") == 0.75
    assert run.cells("a") == ["a", "75", "70", "25", "1.2", "running"]
    run.take({"event": "flow", "flow": "a", "state": "completed"})
    assert run.share("a") == 1.0


def test_a_run_ends_with_a_table_and_a_problem_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller(_spec(tmp_path), Order("p", "", "run"), as_json=False, quiet=True)
    for event in (
        {"event": "run began", "run": 3, "at": 0.0},
        {"event": "progress", "flow": "a", **FIGURES},
        {"event": "problem", "problem": "no such column", "flow": "b", "file": "t/a.sql", "line": 3},
        {"event": "run ended", "outcome": "failed", "seconds": 2.0},
        None,
    ):
        teller.take(event)
    teller.end()
    told = capsys.readouterr().out
    assert "# orders, run 3: failed" in told
    assert "a\t75\t70\t25\t1.2\t" in told
    assert teller.problem is not None
    assert teller.problem[0] == "flow b, t/a.sql:3: no such column"


def test_a_warning_is_said_once_and_what_is_waited_for_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teller = Teller(_spec(tmp_path), Order("p", "", "run"), as_json=False, quiet=True)
    for number in (1, 2):
        teller.take({"event": "note", "text": "Spark starts"})
        teller.take({"event": "run began", "run": number, "at": 0.0})
        teller.take({"event": "note", "text": "m has what earlier runs left in base", "is_warning": True})
    teller.end()
    assert capsys.readouterr().err == "m has what earlier runs left in base\n"


def test_a_run_that_came_to_no_flow_has_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller(_spec(tmp_path), Order("p", "", "run"), as_json=False, quiet=True)
    for event in (
        {"event": "note", "text": "brokers are looked for"},
        {"event": "run began", "run": 1, "at": 0.0},
        {"event": "problem", "problem": "no broker answers", "next_step": "start one"},
        {"event": "run ended", "outcome": "failed", "seconds": 10.0},
    ):
        teller.take(event)
    teller.end()
    assert capsys.readouterr().out == ""
    assert teller.problem == ("no broker answers", "start one")


def test_status_tells_runs_out_of_their_journals_a_killed_one_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = _spec(tmp_path)
    with pytest.raises(Failure, match="never run"):
        show_status(spec, as_json=False)
    for outcome in ("completed", None):
        journal = Journal(new_journal_path(spec.state))
        journal.write("began", mode="run", pid=1)
        journal.write("run began", run=1)
        journal.write("progress", flow="a", **FIGURES)
        if outcome is not None:
            journal.write("run ended", run=1, outcome=outcome, seconds=1.0)
        journal.close()
    show_status(spec, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["running"] is False
    assert [run["outcome"] for run in told["runs"]] == ["under way or killed", "completed"]
    assert told["runs"][0]["flows"][0]["rows_in"] == 75
    show_status(spec, as_json=False)
    assert "It is not running" in capsys.readouterr().out


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Failure) as missing:
        need_spark()
    assert missing.value.next_step == install_command("spark")


def test_a_journal_that_was_damaged_still_tells_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = _spec(tmp_path)
    path = new_journal_path(spec.state)
    journal = Journal(path)
    journal.write("began", mode="run", pid=1, pipeline="orders")
    journal.write("run began", run=1)
    journal.close()
    with path.open("ab") as damaged:
        damaged.write(b"\x00\xff\x00 no event\n[1]\n{}\n" + b"[" * 100_000 + b"\n")
    journal = Journal(path)
    journal.write("run ended", run=1, outcome="completed", seconds=1.0)
    journal.close()
    show_status(spec, as_json=False)
    assert "completed" in capsys.readouterr().out


@pytest.mark.parametrize("made", ["nothing", "an empty folder", "a file", "no JSON"])
def test_what_is_no_checkpoint_is_told_in_a_sentence(tmp_path: Path, made: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    match made:
        case "a file":
            checkpoint.write_text("rows")
        case "an empty folder":
            checkpoint.mkdir()
        case "no JSON":
            checkpoint.mkdir()
            (checkpoint / "metadata").write_bytes(b"\xff\x00")
    with pytest.raises(Failure, match="is no checkpoint of a query on this machine") as refused:
        recover(checkpoint)
    assert refused.value.status == WRONG_USAGE
    assert "copy metadata, offsets and commits here" in refused.value.next_step


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_backfill_that_failed_is_not_said_to_have_had_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_failed: bool
) -> None:
    order = Order("p", "", "run", backfill=("nope", "earliest", ""))
    teller = Teller(_spec(tmp_path), order, as_json=False, quiet=True)
    teller.take({"event": "run began", "run": 1, "at": 0.0})
    if has_failed:
        teller.take({"event": "problem", "problem": "there is no flow nope"})
    teller.take({"event": "run ended", "outcome": "failed" if has_failed else "completed", "seconds": 2.0})
    teller.end()
    assert ("nothing to fill in" in capsys.readouterr().out) is not has_failed


@pytest.mark.parametrize(
    ("since", "to", "problem"),
    [
        ('{"orders": {"x": 1}}', None, "kavka.backfill.from' is .*, expected JSON"),
        ("earliest", '{"orders": 5}', "kavka.backfill.to' is .*, expected JSON"),
        ("2026-11-02", "2026-11-01", "before 'kavka.backfill.from'"),
    ],
)
def test_ranges_that_cannot_be_are_refused_before_spark_starts(
    tmp_path: Path, since: str, to: str | None, problem: str
) -> None:
    (tmp_path / "pipeline.yml").write_text("name: orders\nstorage: storage\n")
    with pytest.raises(Failure, match=problem) as refused:
        backfill(str(tmp_path), "orders", since=since, to=to)
    assert refused.value.status == WRONG_USAGE
    assert not (tmp_path / "storage").exists()
