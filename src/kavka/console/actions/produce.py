"""Writing a record by hand: key, value, headers, partition, or a tombstone.

Decides how what is typed becomes bytes. Must not know pages. The partition is chosen when the preview is made, so that
what was shown is what is written.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.client.partitioner import partition_for_key
from kavka.client.producer import Producer
from kavka.client.settings import ProducerSettings
from kavka.console.actions.action import (
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    quoted,
    text,
    whole,
)
from kavka.console.actions.into_topic import DELIVERY_TIMEOUT_MS, IntoTopic, partition_count
from kavka.console.messages.decoding import decode
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch
    from kavka.records.record import Header

FORMS = ("text", "json", "hex", "base64")
MOST_HEADERS = 100


class Produce(IntoTopic):
    name, title = "produce", "Produce a record"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        topic = await partition_count(watch, text(values, "topic", "the topic"))
        return (
            Field("topic", "Topic", "hidden", values["topic"]),
            Field("key", "Key", "area", values.get("key", ""), "Empty: no key."),
            Field("key_form", "The key is", "choice", values.get("key_form", "text"), "", FORMS),
            Field("value", "Value", "area", values.get("value", "")),
            Field("value_form", "The value is", "choice", values.get("value_form", "text"), "", FORMS),
            Field(
                "tombstone",
                "No value at all (a tombstone: compaction removes its key)",
                "box",
                values.get("tombstone", ""),
            ),
            Field("headers", "Headers", "area", values.get("headers", ""), "One name: value in each line."),
            Field(
                "partition",
                "Partition",
                "number",
                values.get("partition", ""),
                f"0 to {topic - 1}. Empty: the key decides, or without one chance.",
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        count = await partition_count(watch, text(values, "topic", "the topic"))
        key, value, headers = self._record(values)
        partition = self._partition(values, key, count)
        shown_key, shown_value = decode(key), decode(value)
        rows = [
            Change("partition", "", "any" if partition is None else str(partition)),
            Change("key", "", shown_key.preview if key is not None else "(none)"),
            Change(
                "value", "", f"{shown_value.preview} ({len(value):,} bytes)" if value is not None else "(tombstone)"
            ),
            *(Change(f"header {name}", "", (content or b"").decode("utf-8", "replace")) for name, content in headers),
        ]
        warnings = []
        if value is None:
            text_ = "A tombstone: if the topic is compacted, all earlier records of this key are removed."
            warnings.append(Warned("warn", Statement(text_)))
        topic = values["topic"]
        where = "" if partition is None else f" --partition {partition}"
        return Preview(
            f"topic {topic}",
            Statement("One record is written to {topic}, with acks=all.", {"topic": topic}),
            tuple(rows),
            tuple(warnings),
            (
                f"kavka produce {quoted(topic)} -b {watch.settings.bootstrap}{where} < record.txt",
                f"kafka-console-producer.sh --bootstrap-server {watch.settings.bootstrap} --topic {quoted(topic)}",
            ),
            # For the audit log, which is read by those who may not read the topic: sizes, no contents.
            wanted=f"{_size('key', key)}, {_size('value', value)}, {len(headers)} headers",
            button="Write it",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        count = await partition_count(watch, text(values, "topic", "the topic"))
        key, value, headers = self._record(values)
        made = ProducerSettings(linger_ms=0, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
        async with Producer(watch.cluster, made) as producer:
            pending = await producer.send(
                values["topic"], value, key=key, headers=headers, partition=self._partition(values, key, count)
            )
            await producer.flush()
            await pending

    def _record(self, values: Values) -> tuple[bytes | None, bytes | None, list[Header]]:
        key = values.get("key", "")
        value = None if values.get("tombstone") else as_bytes(values.get("value", ""), values.get("value_form", "text"))
        if value is None and not key:
            raise ActionRefused("a tombstone needs the key that it stands for")
        return (
            as_bytes(key, values.get("key_form", "text")) if key else None,
            value,
            headers_of(values.get("headers", "")),
        )

    def _partition(self, values: Values, key: bytes | None, count: int) -> int | None:
        if values.get("partition"):
            return whole(values, "partition", "the partition", most=count - 1)
        return None if key is None else partition_for_key(key, count)


def _size(what: str, data: bytes | None) -> str:
    return f"no {what}" if data is None else f"{what} of {len(data):,} bytes"


def as_bytes(said: str, form: str) -> bytes:
    """What was typed. A browser sends lines ended by CRLF; they become LF. Raises ActionRefused.

    >>> as_bytes("00 ff", "hex"), as_bytes("AP8=", "base64"), as_bytes("a\\r\\nb", "text")
    (b'\\x00\\xff', b'\\x00\\xff', b'a\\nb')
    """
    said = said.replace("\r\n", "\n")
    match form:
        case "text":
            return said.encode("utf-8", "surrogatepass")
        case "json":
            try:
                json.loads(said)
            except json.JSONDecodeError as problem:
                raise ActionRefused(
                    f"this is not valid JSON from line {problem.lineno}, column {problem.colno} on"
                ) from problem
            except (ValueError, RecursionError) as problem:
                raise ActionRefused(f"this is not valid JSON: {problem}") from problem
            return said.encode("utf-8", "surrogatepass")
        case "hex":
            try:
                return bytes.fromhex(said)
            except ValueError as problem:
                raise ActionRefused(f"this is not valid hex: {problem}") from problem
        case "base64":
            try:
                return base64.b64decode("".join(said.split()), validate=True)
            except (binascii.Error, ValueError) as problem:
                raise ActionRefused(f"this is not valid base64: {problem}") from problem
        case _:
            raise ActionRefused(f"{form[:20]!r} is not a form: choose one of {', '.join(FORMS)}")


def headers_of(said: str) -> list[Header]:
    """name: value lines. Raises ActionRefused.

    >>> headers_of("trace: 1:2\\nempty:")
    [('trace', b'1:2'), ('empty', b'')]
    """
    found: list[Header] = []
    for line in said.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ActionRefused(f"{line[:80]!r} is not name: value")
        found.append((name.strip(), value.strip().encode("utf-8", "surrogatepass")))
    if len(found) > MOST_HEADERS:
        raise ActionRefused(f"at most {MOST_HEADERS} headers")
    return found
