"""What is valid by one JSON Schema, by another: Confluent's table of changes, and schemas that are made to do harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.schema_registry import pairwise
from kavka.schema_registry.schemas import JSON, SchemaProblem, parse_schema

ANY = True


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


INT, STR = {"type": "integer"}, {"type": "string"}
CLOSED = {"additionalProperties": False}
PARTLY = {"additionalProperties": {"type": "integer"}}
LIST = {"type": "object", "properties": {"v": INT, "next": {"$ref": "#"}}, "additionalProperties": False}
LIST_STR = {"type": "object", "properties": {"v": STR, "next": {"$ref": "#"}}, "additionalProperties": False}

FITS = [
    # old, new
    (INT, {"type": "number"}),
    (INT, True),
    (INT, {}),
    (False, INT),
    (STR, {"type": ["string", "null"]}),
    (STR, {"anyOf": [INT, STR]}),
    (STR, {"oneOf": [STR]}),
    ({"allOf": [STR, {"maxLength": 3}]}, STR),
    ({"anyOf": [INT, STR]}, {"anyOf": [STR, INT, {"type": "null"}]}),
    ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5}),
    ({"type": "string", "pattern": "a"}, STR),
    ({"type": "number", "minimum": 3}, {"type": "number", "minimum": 1.5}),
    ({"type": "integer", "multipleOf": 10}, {"type": "integer", "multipleOf": 5}),
    ({"enum": ["a"]}, {"enum": ["b", "a"]}),
    ({"const": 1}, {"const": 1.0}),
    ({"not": STR}, {"not": {"type": "string", "maxLength": 3}}),
    (obj({"a": INT}), obj({})),
    (obj({"a": INT}), obj({"a": INT, "b": ANY})),
    (obj({"a": INT}, **CLOSED), obj({"a": INT, "b": STR}, **CLOSED)),
    (obj({"a": INT}, **CLOSED), obj({"a": INT, "b": {"type": "string", "default": "x"}}, required=["b"], **CLOSED)),
    (obj({"a": INT}, **CLOSED), obj({"a": INT})),
    (obj({"a": INT}, required=["a"]), obj({"a": INT})),
    (obj({"a": INT}, **PARTLY), obj({"a": INT, "b": INT}, **PARTLY)),
    (obj({"a": INT, "b": INT}, **PARTLY), obj({"a": INT}, **PARTLY)),
    ({"type": "array", "items": INT}, {"type": "array", "items": {"type": "number"}}),
    ({"type": "array", "items": INT, "maxItems": 2}, {"type": "array"}),
    (
        {"type": "array", "items": [INT], "additionalItems": False},
        {"type": "array", "items": [INT, STR], "additionalItems": False},
    ),
    (LIST, LIST),
    ({"$ref": "#/definitions/a", "definitions": {"a": INT}}, {"type": "number"}),
    ({"title": "a", **INT}, {"title": "b", "description": "c", **INT}),
]
DOES_NOT = [
    (INT, STR, "TYPE_CHANGED"),
    ({"type": "number"}, INT, "TYPE_NARROWED"),
    ({"type": ["string", "null"]}, STR, "TYPE_CHANGED"),
    ({"anyOf": [INT, STR]}, {"anyOf": [STR]}, "SUM_TYPE_NARROWED"),
    ({"anyOf": [INT, STR]}, {"oneOf": [INT, STR]}, "COMBINED_TYPE_CHANGED"),
    ({"anyOf": [INT, STR]}, {"anyOf": [STR, {"type": "null"}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ({"allOf": [STR, {"maxLength": 9}]}, {"allOf": [STR, {"maxLength": 9}, {"minLength": 1}]}, "PRODUCT_TYPE_EXTENDED"),
    (STR, {"type": "string", "maxLength": 3}, "MAX_LENGTH_ADDED"),
    ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}, "MIN_LENGTH_INCREASED"),
    (STR, {"type": "string", "pattern": "a"}, "PATTERN_ADDED"),
    ({"type": "string", "pattern": "b"}, {"type": "string", "pattern": "a"}, "PATTERN_CHANGED"),
    ({"type": "number", "maximum": 9}, {"type": "number", "maximum": 8}, "MAXIMUM_DECREASED"),
    ({"type": "number"}, {"type": "number", "exclusiveMinimum": 8}, "EXCLUSIVE_MINIMUM_ADDED"),
    ({"type": "integer", "multipleOf": 5}, {"type": "integer", "multipleOf": 10}, "MULTIPLE_OF_EXPANDED"),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_CHANGED"),
    ({"const": "a"}, {"const": "b"}, "ENUM_ARRAY_CHANGED"),
    ({"not": {"type": "string", "maxLength": 3}}, {"not": STR}, "NOT_TYPE_EXTENDED"),
    (obj({"a": INT}), obj({"a": INT, "b": STR}), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (obj({"a": INT}), obj({"a": INT, "b": STR}, required=["b"]), "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (
        obj({"a": INT}, **CLOSED),
        obj({"a": INT, "b": STR}, required=["b"], **CLOSED),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    (obj({"a": INT}, **CLOSED), obj({}, **CLOSED), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (obj({"a": INT}), obj({"a": INT}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    (obj({}), obj({}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    (obj({"a": INT}), obj({}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    (obj({}), obj({"a": True}, required=["a"]), "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (obj({"a": INT}), obj({"a": INT}, **CLOSED), "ADDITIONAL_PROPERTIES_REMOVED"),
    (obj({"a": INT}), obj({"a": INT}, **PARTLY), "ADDITIONAL_PROPERTIES_NARROWED"),
    (
        obj({"a": INT}, **PARTLY),
        obj({"a": INT, "b": STR}, **PARTLY),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (obj({"a": STR}, **PARTLY), obj({}, **PARTLY), "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
    (obj({}), obj({}, dependencies={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED"),
    (obj({}), obj({}, minProperties=1), "MIN_PROPERTIES_ADDED"),
    ({"type": "array"}, {"type": "array", "items": INT}, "SCHEMA_ADDED"),
    ({"type": "array", "items": INT}, {"type": "array", "items": STR}, "TYPE_CHANGED"),
    ({"type": "array", "items": [INT]}, {"type": "array", "items": [INT, STR]}, "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    (
        {"type": "array", "prefixItems": [INT], "items": False},
        {"type": "array", "prefixItems": [STR], "items": False},
        "TYPE_CHANGED",
    ),
    (LIST, LIST_STR, "TYPE_CHANGED"),
    (
        obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": INT}),
        obj({"a": {"$ref": "#/definitions/y"}}, definitions={"y": STR}),
        "TYPE_CHANGED",
    ),
]


def reasons(old: Any, new: Any) -> list[str]:
    return parse_schema(JSON, json.dumps(new), {}).misfits(parse_schema(JSON, json.dumps(old), {}))


@pytest.mark.parametrize(("old", "new"), FITS)
def test_what_still_accepts_all_that_was_accepted(old: Any, new: Any) -> None:
    assert reasons(old, new) == []


@pytest.mark.parametrize(("old", "new", "kind"), DOES_NOT)
def test_what_accepts_less_says_why(old: Any, new: Any, kind: str) -> None:
    assert any(f"errorType:'{kind}'" in each for each in reasons(old, new)), reasons(old, new)


def test_references_between_texts() -> None:
    item = json.dumps(obj({"n": INT}, **CLOSED))
    order = json.dumps({"type": "array", "items": {"$ref": "item.json"}})
    old = parse_schema(JSON, order, {"item.json": item})
    assert parse_schema(JSON, order, {"item.json": item}).misfits(old) == []
    other = parse_schema(JSON, order, {"item.json": item.replace("integer", "string")})
    assert any("TYPE_CHANGED" in each for each in other.misfits(old))
    with pytest.raises(SchemaProblem, match="leads nowhere"):
        parse_schema(JSON, order, {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("5", "an object, true or false"),
        ('{"type": "strin"}', "strin"),
        ('{"type": 5}', "/type"),
        ('{"properties": []}', "/properties"),
        ('{"$ref": "#/definitions/none"}', "leads nowhere"),
        ('{"$ref": "http://127.0.0.1:1/x.json"}', "leads nowhere"),
        ('{"$ref": "file:///etc/passwd"}', "leads nowhere"),
        ('{"$ref": "#"}', "leads back to itself"),
        ('{"$schema": ["x"]}', "/.schema: this is not a string"),
        ('{"$schema": 5}', "/.schema: this is not a string"),
        ('{"pattern": "a{99999999999999999999}"}', "cannot be used"),
        ("[" * 100_000, "not JSON"),
        ('{"not":' * 150 + "{}" + "}" * 150, "nested more than"),
    ],
)
def test_what_is_no_schema_says_why(text: str, why: str) -> None:
    with pytest.raises(SchemaProblem, match=why):
        parse_schema(JSON, text, {})


@pytest.mark.parametrize(
    "make",
    [
        lambda: {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "enum": [each for i in range(20_000) for each in (i, "")],
        },
        lambda: {"required": [{} for _ in range(40_000)]},
        lambda: {"dependencies": {"x": [[i, ""] for i in range(40_000)]}},
        lambda: {"dependencies": {"enum": [[i, ""] for i in range(40_000)]}},
        lambda: {"properties": {"examples": {"required": [{} for _ in range(40_000)]}}},
    ],
    ids=["enum", "required", "dependencies", "a dependency by the name of enum", "a property by the name of examples"],
)
def test_long_lists_are_not_searched_for_repetitions_for_ever(make: Callable[[], Any]) -> None:
    schema = make()
    began = time.process_time()
    with pytest.raises(SchemaProblem, match="too long"):
        parse_schema(JSON, json.dumps(schema), {})
    assert time.process_time() - began < 5


def test_a_long_list_of_texts_or_numbers_is_a_schema() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    for values in ([str(i) for i in range(20_000)], list(range(20_000))):
        assert parse_schema(JSON, json.dumps({"$schema": draft, "enum": values}), {}).text
    mixed = [None, *map(str, range(5_000))]
    assert parse_schema(JSON, json.dumps({"enum": mixed, "examples": mixed, "properties": {"enum": STR}}), {}).text


def test_a_combination_that_holds_itself_ends() -> None:
    with pytest.raises(SchemaProblem):
        parse_schema(JSON, '{"anyOf": [{"$ref": "#"}, {"type": "string"}]}', {})


def test_a_pattern_that_could_search_for_ever_is_not_tried() -> None:
    old = obj({"a" * 100: STR}, patternProperties={"^(a+)+$": STR}, **CLOSED)
    new = obj({}, patternProperties={"^(a+)+$": STR}, **CLOSED)
    began = time.process_time()
    assert any("is not looked at" in each for each in reasons(old, new))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "pattern", ["(a|a)" * 39 + "b", "(?:a|a)" * 3 + "(a|a)" * 30 + "b", ".*.*.*b", "x|^" + "a*" * 3 + "b"]
)
def test_patterns_are_tried_for_a_bounded_time(pattern: str) -> None:
    names = {"a" * 190 + str(i): STR for i in range(2_000)}
    old = obj(names, patternProperties={pattern: STR}, **CLOSED)
    new = obj({}, patternProperties={pattern: STR}, **CLOSED)
    began = time.process_time()
    assert any("is not looked at" in each for each in reasons(old, new))
    assert time.process_time() - began < 5


def test_many_patterns_are_tried_on_many_names_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "MOST_WORK", pairwise.MOST_WORK // 5)
    patterns = {f"^a*a*b{i}": STR for i in range(500)}
    old = obj({"a" * 150 + str(i): STR for i in range(500)}, patternProperties=patterns, **CLOSED)
    began = time.process_time()
    with pytest.raises(SchemaProblem, match="too large to be compared"):
        reasons(old, obj({}, patternProperties=patterns, **CLOSED))
    assert time.process_time() - began < 10


def test_a_pattern_with_alternatives_is_tried() -> None:
    pattern = {"^(x|y|z)[A-Z]+_(on|off)?$": STR}
    assert not reasons(obj({"yAB_on": STR}, **CLOSED), obj({}, patternProperties=pattern, **CLOSED))


def test_combinations_of_combinations_are_not_compared_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "MOST_WORK", pairwise.MOST_WORK // 5)

    def schema(step: int) -> Any:
        return {
            "anyOf": [
                {"anyOf": [{"type": "string", "maxLength": step * 1_000 * i + j + 1} for j in range(60)]}
                for i in range(60)
            ]
        }

    began = time.process_time()
    with pytest.raises(SchemaProblem, match="too large to be compared"):
        reasons(schema(1), schema(2))
    assert time.process_time() - began < 15


def test_long_names_do_not_make_long_reasons() -> None:
    def schema(kind: str) -> Any:
        return obj({"n" * 300_000: obj({f"p{i}": {"type": kind} for i in range(1_000)})})

    assert sum(map(len, reasons(schema("string"), schema("integer")))) < 100_000


def test_long_enums_are_compared_in_no_time() -> None:
    began = time.process_time()
    assert not reasons({"enum": [str(i) for i in range(50_000)]}, {"enum": [str(i) for i in range(50_000)]})
    assert time.process_time() - began < 5


def test_definitions_that_all_refer_to_each_other_are_compared_in_no_time() -> None:
    names = [f"d{i}" for i in range(20)]

    def schema(leaf: dict[str, Any]) -> dict[str, Any]:
        every = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in names] + [leaf]}
        return {
            "definitions": {name: obj({"of": every, "id": {"const": name}}, **CLOSED) for name in names},
            "$ref": "#/definitions/d0",
        }

    began = time.process_time()
    assert reasons(schema(INT), schema(INT)) == []
    assert reasons(schema(INT), schema(STR))
    assert time.process_time() - began < 5


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
schemas = st.recursive(
    st.sampled_from(
        [
            True,
            False,
            {},
            INT,
            STR,
            {"type": "null"},
            {"type": "number", "maximum": 1},
            {"type": "string", "maxLength": 1},
            {"enum": ["a", 1]},
            {"const": "a"},
            {"type": ["string", "null"]},
        ]
    ),
    lambda inner: (
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
        | st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner)
        | st.builds(lambda a: {"not": a}, inner)
        | st.builds(
            lambda properties, required, rest: obj(properties, required=sorted(required), additionalProperties=rest),
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.sets(st.sampled_from("ab")),
            inner,
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
    ),
    max_leaves=5,
)


@given(schemas, schemas, st.lists(values, min_size=1, max_size=8))
def test_what_fits_accepts_every_value_that_the_old_schema_accepted(old: Any, new: Any, found: list[Any]) -> None:
    """Not the other way round: what does not fit by these rules may accept the same all the same."""
    if reasons(old, new):
        return
    before, after = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
    for value in found:
        assert not before.is_valid(value) or after.is_valid(value)
