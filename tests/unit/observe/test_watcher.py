"""How often a part of a cluster is read: by what it costs, not by how long a silent broker makes it wait."""

from __future__ import annotations

from kavka.observe.readings import BROKER_PATIENCE_S
from kavka.observe.watcher import pause_s


def test_a_part_that_takes_little_is_read_when_it_is_due() -> None:
    assert pause_s(2.0, 0.1, 0.05) == 2.0


def test_a_part_that_takes_a_second_of_a_core_is_given_a_tenth_of_it() -> None:
    assert pause_s(2.0, 1.2, 1.0) == 9.0


def test_a_broker_that_does_not_answer_hides_the_others_for_seconds_not_for_half_a_minute() -> None:
    """A list of groups that timed out was asked for 36 s later, and so were leaders: the machine was busy for a moment,
    and a page had no lag for as long."""
    assert pause_s(2.0, BROKER_PATIENCE_S, 0.02) == 2 * BROKER_PATIENCE_S
