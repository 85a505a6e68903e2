"""Who gives way where all places are taken."""

from __future__ import annotations

from typing import NamedTuple

from kavka.security.giving_way import Idlest, Unknown


class Place(NamedTuple):
    name: str
    accepted_at: float = 0.0
    active_at: float = 0.0
    is_unknown: bool = False
    listener: str = "CLIENTS"


def given_up(most: int, *places: Place, now: float = 100.0) -> list[str]:
    return [each.name for each in Idlest(most, 2.0, lambda listener: listener == "BROKERS").among(places, now)]


def test_who_was_idle_for_longest_gives_way_first() -> None:
    places = [Place("busy", active_at=99), Place("idle", active_at=10), Place("idler", active_at=5)]
    assert given_up(2, *places) == ["idler", "idle"]


def test_a_client_in_the_middle_of_its_login_stays_where_another_is_idle_for_longer() -> None:
    login = Place("login", accepted_at=99.999, active_at=99.999, is_unknown=True)
    assert given_up(1, login, Place("idle", active_at=40)) == ["idle"]
    assert given_up(2, login, Place("idle", active_at=40)) == ["idle", "login"]


def test_in_a_flood_of_young_ones_who_is_in_stays() -> None:
    flood = [Place(f"flood {at}", accepted_at=at, active_at=100, is_unknown=True) for at in (99.8, 99.7, 99.9)]
    assert given_up(2, Place("idle", active_at=1), Place("idler", active_at=0), *flood) == ["flood 99.7", "flood 99.8"]
    assert given_up(1, Place("idle", active_at=1), Place("idler", active_at=0), *flood[1:]) == ["idler"]


def test_who_had_its_time_to_log_in_gives_way_before_all_others_however_it_trickles() -> None:
    trickling = Place("trickling", accepted_at=98, active_at=100, is_unknown=True)
    assert given_up(1, trickling, Place("idle", active_at=1)) == ["trickling"]


def test_bytes_that_trickle_make_nobody_younger_who_has_not_logged_in() -> None:
    trickling = Place("trickling", accepted_at=98.5, active_at=100, is_unknown=True)
    assert given_up(1, trickling, Place("known", active_at=99)) == ["trickling"]


def test_brokers_on_a_listener_of_their_own_stay() -> None:
    assert given_up(5, Place("broker", listener="BROKERS"), Place("client")) == ["client"]


def test_who_has_not_said_who_it_is_in_time_gives_way_the_oldest_first() -> None:
    places = [
        Place("young", accepted_at=98.1, is_unknown=True),
        Place("old", accepted_at=97, is_unknown=True),
        Place("older", accepted_at=90, active_at=100, is_unknown=True),
        Place("known", accepted_at=1),
        Place("known, too", accepted_at=1),
        Place("broker", accepted_at=1, is_unknown=True, listener="BROKERS"),
    ]
    found = [each.name for each in Unknown(9, 2.0, 1.0, {"BROKERS"}).among(places, 100.0)]
    assert found == ["older", "old"]
    assert [each.name for each in Unknown(1, 2.0, 1.0, ()).among(places, 100.0)] == ["broker"]


def test_in_a_flood_who_has_not_said_who_it_is_has_less_time() -> None:
    flood = [Place(f"flood {at}", accepted_at=at, is_unknown=True) for at in (98.9, 98.5, 99.1)]
    known = [Place("known"), Place("known, too")]
    assert [each.name for each in Unknown(9, 2.0, 1.0, ()).among([*known, *flood], 100.0)] == [
        "flood 98.5",
        "flood 98.9",
    ]
    half = [*known, *flood[:2]]
    assert Unknown(9, 2.0, 1.0, ()).among(half, 100.0) == []
    assert Unknown(9, 2.0, 1.0, {"CLIENTS"}).among([*known, *flood], 100.0) == []
