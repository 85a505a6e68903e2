"""Avro schemas: what is one, and the text that equal ones share."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.schema_registry.avro import NotAvro, canonical_text, parse_avro
from kavka.schema_registry.schemas import AVRO, SchemaProblem, parse_schema

RECORD = '{"type": "record", "name": "R", "fields": [%s]}'


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('"string"', '"string"'),
        ("string", '"string"'),
        ('{"type": "string"}', '"string"'),
        ('{"type": {"type": "string"}}', '"string"'),
        ('{"logicalType": "date", "type": "int"}', '{"type":"int","logicalType":"date"}'),
        (
            '{"fields": [{"type": "int", "name": "a", "default": 1, "doc": "d"}], "name": "x.R", "type": "record"}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":"int","doc":"d","default":1}]}',
        ),
        (
            # A type of the same namespace is named shortly, the second time and wherever it is declared.
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":{"type":"fixed","name":"x.F",'
            '"size":2}},{"name":"b","type":"x.F"},{"name":"next","type":["null","R"],"default":null}]}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":{"type":"fixed","name":"F",'
            '"size":2}},{"name":"b","type":"F"},{"name":"next","type":["null","R"],"default":null}]}',
        ),
        (
            '{"type":"enum","name":"E","aliases":["Old"],"symbols":["A","B"],"default":"A","own":1}',
            '{"type":"enum","name":"E","symbols":["A","B"],"default":"A","own":1,"aliases":["Old"]}',
        ),
        (
            '{"type":"array","items":{"type":"map","values":"ß.T"}}'.replace("ß.T", "long"),
            '{"type":"array","items":{"type":"map","values":"long"}}',
        ),
    ],
)
def test_the_text_that_equal_schemas_share(text: str, canonical: str) -> None:
    assert canonical_text(parse_avro(text)) == canonical
    assert canonical_text(parse_avro(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("5", "not a schema"),
        ("{}", 'no "type"'),
        ('"strin"', "not a type that is declared"),
        ('["int", "int"]', "int twice"),
        ('["int", ["null"]]', "a union directly in a union"),
        ('{"type": "record", "name": "R"}', 'no list "fields"'),
        ('{"type": "record", "fields": []}', 'no "name"'),
        ('{"type": "record", "name": "1R", "fields": []}', "not a name"),
        ('{"type": "record", "name": "int", "fields": []}', "primitive"),
        (RECORD % '{"name": "a"}', "no type"),
        (RECORD % '{"name": "a b", "type": "int"}', "not a name for a field"),
        (RECORD % '{"name": "a", "type": "int"}, {"name": "a", "type": "int"}', "twice"),
        (RECORD % '{"name": "a", "type": "int", "default": "x"}', "is not of type int"),
        (RECORD % '{"name": "a", "type": "int", "default": 3000000000}', "is not of type int"),
        (RECORD % '{"name": "a", "type": "long", "default": 1e999}', "is not of type long"),
        (RECORD % '{"name": "a", "type": "R", "default": 5}', "is not of type R"),
        (RECORD % '{"name": "a", "type": {"type": "record", "name": "R", "fields": []}}', "declared twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "none of the symbols"),
        ('{"type": "fixed", "name": "F", "size": -1}', "not a number of bytes"),
        ('{"type": "fixed", "name": "F", "size": true}', "not a number of bytes"),
        ('{"type": "array"}', '"items"'),
        ("[" * 100_000, "nested too deep"),
        ('{"type":"array","items":' * 150 + '"int"' + "}" * 150, "nested more than"),
        ('{"type": "int", "default": NaN}', "not JSON"),
    ],
)
def test_what_is_no_avro_schema_says_why(text: str, why: str) -> None:
    with pytest.raises(NotAvro, match=why):
        parse_avro(text)


def test_a_default_that_fits_none_of_many_ways_is_found_so_in_no_time() -> None:
    inner = '{"type": "record", "name": "B", "fields": [{"name": "f", "type": ["null", "A", "B"]}]}'
    records = f'{{"type": "record", "name": "A", "fields": [{{"name": "f", "type": ["null", "A", {inner}]}}]}}'
    default = '{"f": ' * 60 + '"x"' + "}" * 60
    began = time.process_time()
    with pytest.raises(NotAvro, match="is not of type union of A"):
        parse_avro(RECORD % f'{{"name": "a", "type": [{records}], "default": {default}}}')
    assert time.process_time() - began < 5


def test_a_default_of_a_union_may_be_of_any_of_its_types() -> None:
    assert parse_avro(RECORD % '{"name": "a", "type": ["null", "int"], "default": 5}').fields[0].default == 5


def test_an_old_schema_may_have_a_default_that_does_not_fit() -> None:
    text = RECORD % '{"name": "a", "type": "int", "default": "x"}'
    parse_schema(AVRO, text, {}, is_new=False)
    with pytest.raises(SchemaProblem, match="is not of type int"):
        parse_schema(AVRO, text, {})


def test_what_references_declare_stays_a_name() -> None:
    reference = '{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"n","type":"int"}]}'
    text = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"item","type":"shop.Item"}]}'
    found = parse_schema(AVRO, text, {"shop.Item": reference})
    assert found.text == text.replace("shop.Item", "Item")
    assert parse_schema(AVRO, found.text, {"shop.Item": reference}).text == found.text
    with pytest.raises(SchemaProblem, match=r"shop\.Item"):
        parse_schema(AVRO, text, {})


def test_an_unknown_type_of_schema_says_which_there_are() -> None:
    with pytest.raises(SchemaProblem, match=r"XML.*AVRO"):
        parse_schema("XML", "<a/>", {})


names = st.sampled_from(["A", "B", "C", "x.A", "x.y.B"])
shapes = st.recursive(
    st.sampled_from(["null", "int", "long", "string", "bytes", "double"]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "map", "values": values}, inner)
        | st.lists(inner, min_size=1, max_size=3)
        | st.builds(
            lambda name, types, further: {
                "type": "record",
                "name": name,
                "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(types)],
                **further,
            },
            names,
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["doc", "own"]), st.text(max_size=3)),
        )
    ),
    max_leaves=8,
)


@given(shapes)
def test_the_shared_text_is_the_same_schema_again(shape: object) -> None:
    try:
        parsed = parse_avro(json.dumps(shape))
    except NotAvro:
        return
    text = canonical_text(parsed)
    again = parse_avro(text)
    assert canonical_text(again) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "name", "fields", "items", "symbols", "size", "default", "aliases", "namespace"]
                ),
                inner,
            )
        ),
    )
)
def test_whatever_json_comes_it_is_a_schema_or_a_problem(shape: object) -> None:
    try:
        parse_schema(AVRO, json.dumps(shape), {})
    except SchemaProblem:
        pass
