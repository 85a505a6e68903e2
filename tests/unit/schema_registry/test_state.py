"""Records of the schemas topic: their bytes, and what they add up to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.schema_registry.records import (
    ConfigSet,
    HighestIds,
    ModeSet,
    NothingKept,
    Reference,
    SchemaGone,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    decode,
    encode,
)
from kavka.schema_registry.state import State, content_of

ONE = SchemaVersion("s", 1, 1, "AVRO", '"int"')


@pytest.mark.parametrize(
    ("key", "value", "change"),
    [
        (  # As Confluent's registry writes them, byte for byte.
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
            ONE,
        ),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
            b'{"subject":"s","version":2,"id":9,"schemaType":"JSON","references":[{"name":"n","subject":"t","version":3}]'
            b',"schema":"{}","deleted":true}',
            SchemaVersion("s", 2, 9, "JSON", "{}", (Reference("n", "t", 3),), deleted=True),
        ),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None, SchemaGone("s", 1)),
        (
            b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            b'{"subject":"s","version":2}',
            SubjectDeleted("s", 2),
        ),
        (b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', b'{"subject":"s"}', SubjectCleared("s")),
        (
            b'{"keytype":"CONFIG","magic":0}',
            b'{"compatibilityLevel":"FULL"}',
            ConfigSet("", {"compatibilityLevel": "FULL"}),
        ),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"subject":"s","mode":"READONLY"}', ModeSet("s", "READONLY")),
        (b'{"keytype":"MODE","subject":"s","magic":0}', None, ModeSet("s", None)),
        (b'{"keytype":"NOOP","magic":0}', None, NothingKept()),
        (b'{"keytype":"NOOP","magic":0}', b'{"highestIds":{".":7,".a":2}}', HighestIds({".": 7, ".a": 2})),
    ],
)
def test_bytes_and_changes(key: bytes, value: bytes | None, change: object) -> None:
    assert decode(key, value) == change
    assert encode(change) == (key, value)


def test_a_setting_of_all_as_older_registries_write_it() -> None:
    found = decode(b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}')
    assert found == ConfigSet("", {"compatibilityLevel": "FULL"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"", b""),
        (b"\xff\xfe", b"{}"),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":"1"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":-1,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":99999999999,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":"x","references":[5]}'),
        (b'{"keytype":"SCHEMA","subject":5,"version":1}', b'{"id":1,"schema":"x"}'),
        (b'{"keytype":"MODE","subject":"s"}', b'{"mode":7}'),
        (b'{"keytype":"NOOP","magic":0}', b'{"highestIds":{".":"7"}}'),
        (b'{"keytype":"NOOP","magic":0}', b'{"highestIds":[[1,2]]}'),
        (b'{"keytype":"WHAT","subject":"s"}', b"{}"),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_a_record_that_is_no_registrys_is_passed_over_and_counted(key: bytes | None, value: bytes) -> None:
    state = State()
    state.apply(ONE)
    state.apply(decode(key, value))
    assert state.passed_over == 1
    assert list(state) == [ONE]


@given(st.binary() | st.none(), st.binary() | st.none())
def test_whatever_the_bytes_are_a_change_comes_out(key: bytes | None, value: bytes | None) -> None:
    State().apply(decode(key, value))


def test_an_id_that_belongs_to_another_schema_is_passed_over() -> None:
    state = State()
    state.apply(ONE)
    state.apply(SchemaVersion("t", 1, 1, "AVRO", '"string"'))
    state.apply(SchemaVersion("u", 1, 1, "AVRO", '"int"'))
    assert [each.subject for each in state.with_id(".", 1)] == ["s", "u"]
    assert state.passed_over == 1


def test_ids_count_for_themselves_in_each_context() -> None:
    state = State()
    state.apply(ONE)
    state.apply(SchemaVersion(":.a:s", 1, 1, "AVRO", '"string"'))
    assert state.with_id(".a", 1)[0].text == '"string"'
    assert state.contexts() == [".", ".a"]
    assert state.passed_over == 0


def test_an_id_whose_schema_is_gone_is_not_given_to_another() -> None:
    state = State()
    state.apply(ONE)
    state.apply(SchemaGone("s", 1))
    assert state.subjects() == []
    assert state.id_of(".", content_of(ONE)) is None
    assert state.next_id(".") == 2


changes = st.one_of(
    st.builds(
        SchemaVersion,
        st.sampled_from("st"),
        st.integers(1, 3),
        st.integers(1, 4),
        st.just("AVRO"),
        st.sampled_from(['"int"', '"long"']),
        st.sampled_from([(), (Reference("n", "s", 1),)]),
        st.booleans(),
    ),
    st.builds(SchemaGone, st.sampled_from("st"), st.integers(1, 3)),
    st.builds(SubjectDeleted, st.sampled_from("st"), st.integers(1, 3)),
    st.builds(SubjectCleared, st.sampled_from("st")),
)


@given(st.lists(changes, max_size=20))
def test_whatever_the_order_of_changes_an_id_means_one_schema(found: list[object]) -> None:
    state = State()
    for each in found:
        state.apply(each)  # type: ignore[arg-type]  # one of the changes above
    for number in range(1, 5):
        assert len({content_of(each) for each in state.with_id(".", number)}) <= 1
    listed = {(each.subject, each.version) for each in state}
    for subject in "st":
        for version in range(1, 4):
            assert {(each.subject, each.version) for each in state.referrers(subject, version)} <= listed
    assert json.dumps([each.text for each in state])
