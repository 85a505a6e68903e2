"""Article 001's claims, and what each scheme does with faults that a test made by hand."""

from __future__ import annotations

import pytest

from kavka.studies.quorum_report import conclusions, report_page
from kavka.studies.quorum_vs_isr import (
    Circumstances,
    Drawn,
    Fate,
    Outage,
    Scheme,
    Spell,
    Write,
    draw,
    run_scheme,
    schemes,
)

TWO = Scheme("ISR of 2", 2)
TWO_UNCLEAN = Scheme("ISR of 2, unclean", 2, unclean=True)
THREE = Scheme("ISR of 3, min 2", 3, min_insync_replicas=2)
QUORUM = Scheme("quorum of 3", 3, quorum=2)
SCHEMES = (TWO, TWO_UNCLEAN, THREE, QUORUM)
SECOND = 1_000
DETECT_MS = 6 * SECOND
ALL_S = 100


def lived_through(
    *outages: tuple[Outage, ...], delays: tuple[float, ...] = (1, 2, 3), pauses: int | None = None
) -> Drawn:
    """A write each second; the outages of the first brokers. `pauses`: this one from second 10 to 12."""
    fates = tuple(
        Fate(
            outages[broker] if broker < len(outages) else (),
            (),
            (Spell(10 * SECOND, 12 * SECOND),) if broker == pauses else (),
        )
        for broker in range(3)
    )
    writes = tuple(Write(number * SECOND + 500, delays) for number in range(ALL_S))
    return Drawn(Circumstances(hours=ALL_S / 3600, detect_ms=DETECT_MS), fates, writes)


def dead(from_s: float, until_s: float, *, loses_disk: bool = False) -> Outage:
    return Outage(from_s * SECOND, until_s * SECOND, loses_disk)


def test_without_faults_the_isr_waits_for_its_slowest_and_the_quorum_for_a_majority() -> None:
    drawn = lived_through()
    assert [run_scheme(scheme, drawn).latency_ms(1.0) for scheme in SCHEMES] == [2, 2, 3, 2]
    assert all(run_scheme(scheme, drawn).availability == 1 for scheme in SCHEMES)


def test_a_paused_follower_delays_the_isr_and_not_the_quorum() -> None:
    drawn = lived_through(pauses=2)
    assert run_scheme(THREE, drawn).latency_ms(1.0) == 1_500
    assert run_scheme(QUORUM, drawn).latency_ms(1.0) == 2


def test_a_dead_follower_delays_the_isr_until_it_is_noticed_and_the_quorum_not_at_all() -> None:
    drawn = lived_through((), (dead(20, 40),))
    assert run_scheme(TWO, drawn).latency_ms(1.0) == DETECT_MS - 500
    assert run_scheme(THREE, drawn).latency_ms(1.0) == DETECT_MS - 500
    assert run_scheme(QUORUM, drawn).latency_ms(1.0) == 3
    assert all(run_scheme(scheme, drawn).availability == 1 for scheme in SCHEMES)


def test_f_plus_1_in_sync_replicas_survive_f_failures_without_loss() -> None:
    drawn = lived_through((dead(20, 90),))
    for scheme in SCHEMES:
        outcome = run_scheme(scheme, drawn)
        assert outcome.lost == 0
        assert outcome.writes - outcome.acknowledged == 6, "until the death is noticed"


def test_the_isr_goes_on_with_one_of_two_where_a_quorum_of_three_stands_still_with_one_of_three() -> None:
    drawn = lived_through((), (dead(20, 60),), (dead(20, 60),))
    assert run_scheme(TWO, drawn).availability == 1
    assert run_scheme(QUORUM, drawn).acknowledged == ALL_S - 40
    assert run_scheme(THREE, drawn).acknowledged < ALL_S - 30


def test_the_last_one_in_sync_must_come_back_unless_an_election_may_be_unclean() -> None:
    """The follower dies, the leader acknowledges alone, dies; the follower comes back first."""
    drawn = lived_through((dead(40, 80),), (dead(20, 60),))
    clean, unclean = run_scheme(TWO, drawn), run_scheme(TWO_UNCLEAN, drawn)
    assert (clean.lost, unclean.lost) == (0, 20)
    assert clean.acknowledged == ALL_S - 40
    assert unclean.acknowledged == ALL_S - 20
    assert [(gap.from_ms, gap.until_ms) for gap in clean.gaps] == [(40_500, 80_500)]
    assert run_scheme(QUORUM, drawn).lost == 0


def test_a_lone_leader_that_loses_its_disk_loses_what_it_acknowledged() -> None:
    drawn = lived_through((dead(40, 50, loses_disk=True),), (dead(20, 60),))
    assert run_scheme(TWO, drawn).lost == 40, "it leads again, with an empty log, and the other one follows it"
    assert run_scheme(QUORUM, drawn).lost == 0


def test_a_replica_that_lost_its_disk_copies_all_before_it_is_in_sync_again() -> None:
    drawn = lived_through((), (dead(20, 30, loses_disk=True),), ())
    outcome = run_scheme(TWO, drawn)
    assert (outcome.lost, outcome.availability) == (0, 1)
    # It leads when the other one dies later, with every record.
    later = lived_through((dead(60, 90),), (dead(20, 30, loses_disk=True),))
    assert run_scheme(TWO, later).lost == 0


def test_a_write_whose_leader_dies_first_is_not_acknowledged() -> None:
    drawn = lived_through((dead(20.501, 90),), delays=(1, 2, 3))
    outcome = run_scheme(TWO, drawn)
    assert outcome.writes - outcome.acknowledged == 1 + 6
    assert outcome.lost == 0


@pytest.mark.parametrize("failures", [1, 2])
def test_drawn_faults_show_what_the_article_says(failures: int) -> None:
    circumstances = Circumstances(failures=failures, hours=3, seed=4, crash_every_minutes=60)
    drawn = draw(circumstances)
    few, _unclean, many, quorum = (run_scheme(scheme, drawn) for scheme in schemes(failures))
    assert (few.scheme.replicas, quorum.scheme.replicas) == (failures + 1, 2 * failures + 1)
    assert quorum.latency_ms(0.5) < few.latency_ms(0.5) < many.latency_ms(0.5)
    assert quorum.latency_ms(0.99) < few.latency_ms(0.99)
    assert few.availability > 0.9


def test_the_same_seed_gives_the_same_figures() -> None:
    circumstances = Circumstances(hours=1, seed=9, crash_every_minutes=10)
    assert draw(circumstances) == draw(circumstances)
    assert [run_scheme(each, draw(circumstances)) for each in schemes(1)] == [
        run_scheme(each, draw(circumstances)) for each in schemes(1)
    ]


def test_the_report_says_what_was_lost_and_why() -> None:
    drawn = lived_through((dead(40, 50, loses_disk=True),), (dead(20, 60),))
    outcomes = [run_scheme(scheme, drawn) for scheme in SCHEMES]
    sentences = conclusions(outcomes, 1)
    assert "to survive 1 failure the ISR keeps 2 copies, the quorum 3" in sentences
    assert any("lost 40 acknowledged records" in sentence for sentence in sentences)
    page = report_page(outcomes, drawn)
    assert "broker 0 dead" in page
    assert "http" not in page


def test_a_replica_that_is_back_is_in_sync_only_when_it_has_caught_up() -> None:
    """It is back at second 30 and needs one more; the leader dies before that, so nobody may lead until it is back."""
    drawn = lived_through((dead(30.6, 60),), (dead(20, 30),))
    assert run_scheme(TWO, drawn).acknowledged == ALL_S - 29
    in_time = lived_through((dead(31.6, 60),), (dead(20, 30),))
    assert run_scheme(TWO, in_time).acknowledged == ALL_S - 6
