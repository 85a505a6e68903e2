"""Whose limit holds, beside the list of rules in Kafka's documentation, tried one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.security.quota_limits import DEFAULT, Entity, Limits, Name, java_double

NAMES = ["a", "b", "<default>"]
names: st.SearchStrategy[Name | None] = st.one_of(st.none(), st.just(DEFAULT), st.sampled_from(NAMES))
entities = st.builds(Entity, names, names).filter(lambda entity: bool(entity.parts()))
tables = st.dictionaries(entities, st.floats(0, 1e9), max_size=12)


def brute_force(table: dict[Entity, float], user: str, client_id: str) -> float | None:
    for rule in (
        Entity(user, client_id),
        Entity(user, DEFAULT),
        Entity(user),
        Entity(DEFAULT, client_id),
        Entity(DEFAULT, DEFAULT),
        Entity(DEFAULT),
        Entity(None, client_id),
        Entity(None, DEFAULT),
    ):
        if rule in table:
            return table[rule]
    return None


@given(tables, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_the_first_rule_that_is_set_holds(table: dict[Entity, float], user: str, client_id: str) -> None:
    limits = Limits()
    for entity, limit in table.items():
        limits.set(entity, limit)
    assert limits.limit(limits.share(user, client_id)) == brute_force(table, user, client_id)


@given(tables, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_clients_of_a_user_share_what_is_the_users(table: dict[Entity, float], user: str, one: str, other: str) -> None:
    limits = Limits()
    for entity, limit in table.items():
        limits.set(entity, limit)
    first, second = limits.share(user, one), limits.share(user, other)
    assert limits.limit(first) == limits.limit(limits.share(user, one))
    if not first.client_id and not second.client_id:
        assert first == second


@given(tables, entities)
def test_what_is_removed_holds_no_more(table: dict[Entity, float], removed: Entity) -> None:
    limits = Limits()
    for entity, limit in table.items():
        limits.set(entity, limit)
    assert limits.set(removed, None) is (removed in table)
    table.pop(removed, None)
    for user in NAMES:
        for client_id in NAMES:
            assert limits.limit(limits.share(user, client_id)) == brute_force(table, user, client_id)
    assert bool(limits) is bool(table)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_as_java_writes_it_is_that_number(value: float) -> None:
    assert float(java_double(value)) == value
