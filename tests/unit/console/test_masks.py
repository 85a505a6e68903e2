"""Masks: which fields they cover, what takes a record's place, and that nothing of it is left."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("fastavro")

from kavka.client.consumer import ConsumerRecord
from kavka.console.masks import MASK, Mask, TopicMask, mask_of, parse_mask
from kavka.console.messages.masking import HIDDEN, MOST_NODES, Seen, seen
from kavka.console.rights import Rights, parse_grant
from kavka.console.settings import parse_settings, with_bootstrap
from kavka.errors import ConfigError
from kavka.records.batch import TimestampType
from kavka.schema_registry.formats import Schema, parse_schema

CANARY = "canary-4711"


def under(
    fields: str | list[str],
    value: bytes | None = b"{}",
    *,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    schema: Schema | None = None,
) -> Seen:
    record = ConsumerRecord("t", 0, 1, 2, key, value, headers, TimestampType.CREATE_TIME, 3)
    return seen(record, TopicMask([fields] if isinstance(fields, str) else fields), key=None, value=schema)


def masked(field: str, value: Any) -> Any:
    found = under(field, json.dumps(value).encode()).record.value
    assert found is not None
    return found if found == HIDDEN else json.loads(found)


class TestFields:
    """Which of them a pattern covers."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("value.a", {"a": CANARY}),
            ("value.a", {"a": {"b": CANARY}}),
            ("value.a", {"a": [CANARY, {"x": CANARY}]}),
            ("value.a.b", {"a": {"b": CANARY}}),
            ("value.a.b", {"a": [{"b": CANARY}, [{"b": CANARY}]]}),
            ("value.a.b", {"a.b": CANARY}),
            ("value.a.b", {"a": json.dumps({"b": CANARY})}),
            ("value.a.b", {"a": "  " + json.dumps([{"b": CANARY}])}),
            ("value.a.b", [{"a": {"b": CANARY}}]),
            ("value.a", {"a.b": CANARY}),
            ("value.*.b", {"x": {"b": CANARY}, "y": {"b": CANARY}}),
            ("value.card*", {"cardNumber": CANARY, "card": CANARY}),
            ("value.card_number", {"cardNumber": CANARY, "CARD-NUMBER": CANARY}),
            ("value.cardNumber", {"card_number": CANARY}),
            ("value.**.iban", {"iban": CANARY, "a": [{"b": {"IBAN": CANARY}}]}),
            ("value.a.**.iban", {"a": {"iban": CANARY, "b": {"c": {"iban": CANARY}}}}),
            ("value.a.**", {"a": CANARY}),
            ("value.**", {"a": CANARY}),
            ("value.cards.*.number", {"cards": [{"number": CANARY}]}),
            ("value.cards.*.number", {"cards": {"first": {"number": CANARY}}}),
            ("value.cards.*", {"cards": [CANARY, [CANARY]]}),
            ("value.cards.1", {"cards": ["x", CANARY]}),
            ("value.cards.0.number", {"cards": [{"number": CANARY}]}),
            ("value.**.cards.?.number", {"a": {"cards": [{"number": CANARY}]}}),
            ("value.*.*.number", [{"x": {"number": CANARY}}, [{"number": CANARY}]]),
            ("value.*", [CANARY, {"a": CANARY}]),
            ("value.*.password", {"db.main": {"password": CANARY}}),
            ("value.*.password", {"db.main.password": CANARY}),
            ("value.a.*.password", {"a": {"db.main.eu": {"password": CANARY}}}),
            ("value.db*.password", {"db.main": {"password": CANARY}}),
            ("value.card?number", {"card_number": CANARY, "card-number": CANARY, "card number": CANARY}),
            ("value.card?holder_name", {"card_holder-name": CANARY}),
            ("value.stra\u00dfe_k\u00f6ln", {"Strasse_Ko\u0308ln": CANARY, "STRASSE-K\u00d6LN": CANARY}),
            ("value.a.b", {"a": json.dumps(json.dumps({"b": CANARY}))}),
            ("value.a.b", {"a": "\ufeff" + json.dumps({"b": CANARY})}),
            ("value.**.pin", {"[shop.v1.pin]": CANARY}),
            ("value", CANARY),
            ("value", {"a": CANARY}),
        ],
    )
    def test_what_a_pattern_covers_is_gone(self, field: str, value: Any) -> None:
        found = masked(field, value)
        assert CANARY not in str(found)
        assert MASK in str(found)

    @pytest.mark.parametrize(
        "text",
        [
            "0x" + json.dumps({"b": CANARY}).encode().hex(),
            b64encode(json.dumps({"b": CANARY}).encode()).decode(),
            b64encode(json.dumps([{"b": CANARY}], indent=2).encode()).decode(),
        ],
    )
    def test_json_in_bytes_of_a_schema_is_masked_whole(self, text: str) -> None:
        assert masked("value.a.b", {"a": text, "c": text}) == {"a": MASK, "c": text}

    @pytest.mark.parametrize("text", ["W3C", "0x00ff", "0xyz", "Bern", "'quoted'", '"quoted"', "eyes", "", "Ä" * 50])
    def test_other_texts_stay(self, text: str) -> None:
        assert masked("value.a.b", {"a": text}) == {"a": text}

    def test_a_pattern_for_one_place_in_a_list_leaves_the_others(self) -> None:
        assert masked("value.a.1", {"a": [1, 2, 3], "b": [1, 2]}) == {"a": [1, MASK, 3], "b": [1, 2]}
        assert masked("value.*.x", {"a": {"b": {"x": 1}}, "a.b": {"y": 1}}) == {"a": {"b": {"x": 1}}, "a.b": {"y": 1}}

    def test_what_it_does_not_cover_stays(self) -> None:
        value = {"a": {"b": 1, "c": [1.5, None, True]}, "b": "x"}
        assert masked("value.a.b", value) == {"a": {"b": MASK, "c": [1.5, None, True]}, "b": "x"}
        assert masked("value.a.b.c", value) == value
        assert masked("value.x.**.b", value) == value
        assert masked("key.a", value) == value

    @pytest.mark.parametrize("value", [None, 0, "", "x" * 100, [], {}, {"deep": [1]}])
    def test_what_stands_for_it_tells_nothing(self, value: Any) -> None:
        assert masked("value.a", {"a": value, "b": 1}) == {"a": MASK, "b": 1}

    def test_masks_of_one_topic_add_up(self) -> None:
        masks = [
            Mask(("value.a",), topics=("pay-*",)),
            Mask(("value.b", "key"), cluster="prod"),
            Mask(("value.c",), cluster="test"),
        ]
        found = mask_of(masks, "prod", "pay-1")
        assert found is not None
        assert found.fields == ("value.a", "value.b", "key")
        assert mask_of(masks, "other", "orders") is None
        assert mask_of([], "prod", "pay-1") is None


class TestRecords:
    """What takes a record's place."""

    @pytest.mark.parametrize(
        "value",
        [
            CANARY.encode(),
            b"\xff\x00" + CANARY.encode(),
            b'{"b": "canary-4711", "a": ',
            json.dumps(CANARY).encode(),
            b"4711",
            b'\x00\x00\x00\x00\x07{"a": "canary-4711"}',
            b'{"b": "canary-4711"} x',
            b"\xef\xbb\xbf" + json.dumps({"b": CANARY}).encode(),
            json.dumps({"b": CANARY}).encode("utf-16"),
            b"[" * 100_000 + b"]" * 100_000,
            b'{"b": ' + b"1" * 5_000 + b', "c": "canary-4711"}',
            json.dumps({"b": CANARY, "c": [0] * (MOST_NODES + 1)}).encode(),
            json.dumps({"b": CANARY, "c": "x" * (2 * 1024 * 1024)}).encode(),
        ],
    )
    def test_what_is_not_understood_is_hidden_whole(self, value: bytes) -> None:
        found = under("value.a", value)
        assert (found.record.value, found.unread) == (HIDDEN, ("value",))

    def test_what_would_take_long_to_mask_is_hidden_whole(self) -> None:
        """A record of 49,000 names of 16 words each held the console for a minute under fifty patterns."""
        fields = [f"value.*.f{number}.*.x" for number in range(50)]
        names = {f"{number}." + "a." * 15 + "x": CANARY for number in range(2_000)}
        found = under(fields, json.dumps(names).encode())
        assert (found.record.value, found.unread) == (HIDDEN, ("value",))

    def test_null_and_empty_are_told(self) -> None:
        assert under("value.a", None).record.value is None
        assert under(["value", "key"], b"", key=None).record[4:6] == (None, b"")

    def test_of_a_name_that_is_there_twice_nothing_is_left(self) -> None:
        found = under("value.a", b'{"a": "canary-4711", "\\u0061": "canary-4711", "b": "canary-4711", "b": 1}')
        assert found.record.value == b'{"a": "***", "b": 1}'

    def test_numbers_and_texts_stay_as_they_were_written(self) -> None:
        value = '{"a": 1, "n": 1.10, "big": 12345678901234567.89, "e": 1E5, "t": "Ä\\n", "half": "\\ud800"}'
        found = under("value.a", value.encode()).record.value
        assert found is not None
        assert b'"n": 1.10, "big": 12345678901234567.89, "e": 1E5' in found
        assert json.loads(found)["half"] == "\ud800"

    def test_key_and_value_are_two(self) -> None:
        found = under("key.a", b'{"a": 1.0}', key=b'{"a": 1.0}').record
        assert (found.key, found.value) == (b'{"a": "***"}', b'{"a": 1.0}')

    def test_headers_are_masked_by_name(self) -> None:
        headers = (("X-Token", b"canary"), ("trace.id", b"t"), ("empty", None), ("x_token", b"canary"))
        found = under("headers.x-token", headers=headers).record
        assert found.headers == (("X-Token", HIDDEN), ("trace.id", b"t"), ("empty", None), ("x_token", HIDDEN))
        assert dict(under("headers.trace.*", headers=headers).record.headers)["trace.id"] == HIDDEN
        assert dict(under("headers", headers=headers).record.headers)["trace.id"] == HIDDEN

    def test_avro_is_masked_by_its_schema(self) -> None:
        import io

        import fastavro

        text = json.dumps(
            {
                "type": "record",
                "name": "P",
                "fields": [
                    {"name": "id", "type": "int"},
                    {"name": "card", "type": ["null", {"type": "map", "values": "string"}]},
                ],
            }
        )
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), {"id": 7, "card": {"number": CANARY}})
        data = b"\x00\x00\x00\x00\x07" + out.getvalue()
        schema = parse_schema(7, "AVRO", text, {})
        found = under("value.card.number", data, schema=schema)
        assert found.record.value == b'{"id": 7, "card": {"number": "***"}}'
        assert under("value.card.number", data[:-1], schema=schema).record.value == HIDDEN, "it is cut"
        assert under("value.card.number", data).record.value == HIDDEN, "nobody has the schema"

    def test_protobuf_without_names_of_fields_is_hidden_whole(self) -> None:
        schema = parse_schema(7, "PROTOBUF", "", {})
        data = b"\x00\x00\x00\x00\x07\x00\x0a\x0b" + CANARY.encode()
        assert under("value.card", data, schema=schema).record.value == HIDDEN


class TestSettings:
    """What is read from the settings file, and what is refused."""

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            ("", "fields is None, expected a list"),
            ("fields = []", "fields is [], expected a list"),
            ('fields = "value.a"', "fields is 'value.a', expected a list"),
            ("fields = [1]", "expected a list of texts"),
            ('fields = ["customer.email"]', "'customer.email' is no field"),
            ('fields = ["value."]', "'value.' is no field"),
            ('fields = ["value..a"]', "has a name that is empty"),
            ('fields = ["value._"]', "has a name that is empty"),
            ('fields = ["value.a[0]"]', "has a blank or a bracket"),
            ('fields = ["value.a b"]', "has a blank or a bracket"),
            ('fields = ["value.a"]\ntopics = "x"', "topics is 'x'"),
            ('fields = ["value.a"]\ncluster = ""', "cluster is ''"),
            ('fields = ["value.a"]\nfield = "x"', "unknown setting 'field'"),
        ],
    )
    def test_a_mask_that_would_not_hold_is_refused(self, table: str, words: str) -> None:
        with pytest.raises(ConfigError) as refused:
            parse_settings(f"[[mask]]\n{table}", where="console.toml")
        assert str(refused.value).startswith("console.toml: [[mask]]: ")
        assert words in str(refused.value)

    def test_a_mask_is_read(self) -> None:
        found = parse_settings('[[mask]]\ntopics = ["pay-*"]\nfields = ["value.a", "key"]').masks
        assert found == (Mask(("value.a", "key"), "*", ("pay-*",)),)
        assert parse_mask({"fields": ["headers"]}).is_on("any", "topic")

    def test_a_mask_for_no_cluster_is_refused(self) -> None:
        mask = '[[mask]]\ncluster = "prdo-*"\nfields = ["value.a"]\n'
        cluster = '[[cluster]]\nname = "prod-eu"\nbootstrap = "127.0.0.1:9092"\n'
        with pytest.raises(ConfigError, match="cluster is 'prdo-\\*', which fits none of prod-eu"):
            parse_settings(cluster + mask)
        assert parse_settings(cluster + mask.replace("prdo", "prod")).masks
        with pytest.raises(ConfigError, match="which fits none of local"):
            with_bootstrap(parse_settings(mask), ["127.0.0.1:9092"])

    def test_the_bounds_hold(self) -> None:
        with pytest.raises(ConfigError, match="201 masks"):
            parse_settings('[[mask]]\nfields = ["key"]\n' * 201)
        with pytest.raises(ConfigError, match="101 fields"):
            parse_settings(f"[[mask]]\nfields = {['key'] * 101}")
        with pytest.raises(ConfigError, match="more than 20"):
            parse_settings(f'[[mask]]\nfields = ["value{".a" * 21}"]')

    def test_who_is_shown_what_is_masked(self) -> None:
        rights = Rights(
            [parse_grant("viewer on prod, topics pay-*, values, unmasked"), parse_grant("admin on *, values")]
        )
        assert str(rights[0]) == "viewer on prod, topics pay-*, values, unmasked"
        assert rights.reads_unmasked("prod", "pay-1")
        assert not rights.reads_unmasked("prod", "orders"), "a grant counts whole"
        assert not rights.reads_unmasked("test", "pay-1")
        with pytest.raises(ValueError, match="takes values beside it"):
            parse_grant("admin on *, unmasked")
