"""`kavka lag-policy` and `kavka quorum-vs-isr` as a user starts them: no broker is needed."""

from __future__ import annotations

import json

from tests.kit.command_line import run_alone


def test_lag_policy_ends_with_one_object() -> None:
    result = run_alone("lag-policy", "-w", "bursts", "--minutes", "2", "-p", "messages:4000", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["outcomes"][0]["false_alarms"] > 0


def test_two_runs_of_a_seed_print_the_same_in_any_process() -> None:
    words = ("quorum-vs-isr", "--hours", "0.5", "--crash-every", "10", "--seed", "7", "--json")
    one, other = run_alone(*words, PYTHONHASHSEED="1"), run_alone(*words, PYTHONHASHSEED="2")
    assert one.returncode == 0, one.stderr
    assert one.stdout == other.stdout


def test_a_policy_that_is_none_is_wrong_usage() -> None:
    result = run_alone("lag-policy", "-p", "luck")
    assert result.returncode == 2
    assert b"messages:4000" in result.stderr
