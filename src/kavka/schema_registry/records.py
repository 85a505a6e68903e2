"""Records of the topic `_schemas`: keys and values, in Confluent's format.

Decides what bytes stand for what change. Must not know what a change means (state.py).

    key                                                                  value
    {"keytype":"SCHEMA","subject":S,"version":V,"magic":1}               a version of a subject; null: it never was
    {"keytype":"DELETE_SUBJECT","subject":S,"magic":0}                   its versions up to `version` are soft deleted
    {"keytype":"CLEAR_SUBJECT","subject":S,"magic":0}                    everything of the subject is gone
    {"keytype":"CONFIG","subject":S,"magic":0}                           compatibilityLevel; without subject, of all
    {"keytype":"MODE","subject":S,"magic":0}                             mode; without subject, of all
    {"keytype":"NOOP","magic":0}                                         highestIds of contexts, see below
    {"keytype":"CONTEXT",...}, others                                    nothing that this registry keeps

An id whose schema is deleted for good would be free again once compaction has taken its records: records of other
topics may still name it. So whoever deletes the highest one also writes down how high it was. Confluent's registry
passes over a NOOP whatever its value is.

The topic is compacted by key, and keys are bytes: attributes stand in this order, without spaces.

Source: Confluent Schema Registry, "_schemas topic" (SchemaKey, SchemaValue and their siblings).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

MOST_ID: Final = (1 << 31) - 1
HIGHEST_IDS: Final = "highestIds"


class Reference(NamedTuple):
    """What a schema refers to: the name that it uses, and the version of a subject that is meant."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject. `text`: the schema; `further`: metadata and ruleSet, as JSON, as they came."""

    subject: str
    version: int
    number: int
    """The id."""
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    deleted: bool = False
    further: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaGone:
    """A version is deleted for good."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SubjectDeleted:
    """The versions of a subject up to this one are soft deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SubjectCleared:
    subject: str


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """Settings of a subject, or of all ("") ; None: there are none any more."""

    subject: str
    config: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ModeSet:
    """The mode of a subject, or of all (""); None: it has none of its own any more."""

    subject: str
    mode: str | None


@dataclass(frozen=True, slots=True)
class HighestIds:
    """The highest id that each context had so far."""

    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NothingKept:
    """A record that changes nothing here. `why` is empty where it is known that it need not."""

    why: str = ""


Change: TypeAlias = (
    SchemaVersion | SchemaGone | SubjectDeleted | SubjectCleared | ConfigSet | ModeSet | HighestIds | NothingKept
)


def decode(key: bytes | None, value: bytes | None) -> Change:
    """What a record says. Whatever is in it, a change comes out."""
    try:
        found = _object(key)
        content = None if value is None else _object(value)
        return _decode(found, content)
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        return NothingKept(f"{type(problem).__name__}: {problem}")


def _decode(key: dict[str, Any], value: dict[str, Any] | None) -> Change:
    kind = key["keytype"]
    subject = key.get("subject") or ""
    if not isinstance(subject, str):
        raise ValueError(f"the subject is {subject!r}")
    match kind:
        case "SCHEMA":
            version = _number(key, "version")
            if not subject:
                raise ValueError("a version of no subject")
            return SchemaGone(subject, version) if value is None else _version(subject, version, value)
        case "DELETE_SUBJECT":
            return NothingKept() if value is None else SubjectDeleted(subject, _number(value, "version"))
        case "CLEAR_SUBJECT":
            return NothingKept() if value is None else SubjectCleared(subject)
        case "CONFIG":
            return ConfigSet(subject, value)
        case "MODE":
            mode = None if value is None else value.get("mode")
            if mode is not None and not isinstance(mode, str):
                raise ValueError(f"the mode is {mode!r}")
            return ModeSet(subject, mode)
        case "NOOP" if value is not None and value.get(HIGHEST_IDS):
            numbers = value[HIGHEST_IDS]
            if not isinstance(numbers, dict):
                raise ValueError(f"{HIGHEST_IDS} is no object")
            return HighestIds({context: _number(numbers, context) for context in numbers})
        case "NOOP" | "CONTEXT":
            return NothingKept()
        case _:
            return NothingKept(f"unknown keytype {kind!r}")


def _version(subject: str, version: int, value: dict[str, Any]) -> SchemaVersion:
    text, kind = value["schema"], value.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not isinstance(kind, str):
        raise ValueError("schema or schemaType is not a text")
    references = []
    for each in value.get("references") or ():
        reference = Reference(each["name"], each["subject"], _number(each, "version"))
        if not isinstance(reference.name, str) or not isinstance(reference.subject, str):
            raise ValueError("a reference whose name or subject is not a text")
        references.append(reference)
    return SchemaVersion(
        subject,
        version,
        _number(value, "id"),
        kind,
        text,
        tuple(references),
        value.get("deleted") is True,
        further_of(value),
    )


def further_of(value: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Metadata and rules as they are kept: they are passed on, and nobody here looks into them."""
    return tuple(
        (name, json.dumps(value[name], ensure_ascii=False, separators=(",", ":")))
        for name in ("metadata", "ruleSet")
        if value.get(name)
    )


def _number(found: Mapping[str, Any], name: str) -> int:
    number = found[name]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MOST_ID:
        raise ValueError(f"{name} is {number!r}")
    return number


def _object(data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise ValueError("no key")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object of JSON")
    return found


def encode(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value of a record that says so."""
    match change:
        case SchemaVersion():
            return _schema_key(change.subject, change.version), _json(_schema_value(change))
        case SchemaGone(subject, version):
            return _schema_key(subject, version), None
        case SubjectDeleted(subject, version):
            return _key("DELETE_SUBJECT", subject), _json({"subject": subject, "version": version})
        case SubjectCleared(subject):
            return _key("CLEAR_SUBJECT", subject), _json({"subject": subject})
        case ConfigSet(subject, config):
            value = None if config is None else _json({**({"subject": subject} if subject else {}), **config})
            return _key("CONFIG", subject), value
        case ModeSet(subject, mode):
            value = None if mode is None else _json({**({"subject": subject} if subject else {}), "mode": mode})
            return _key("MODE", subject), value
        case HighestIds(numbers):
            return _json({"keytype": "NOOP", "magic": 0}), _json({HIGHEST_IDS: dict(numbers)})
        case NothingKept():
            return _json({"keytype": "NOOP", "magic": 0}), None


def _schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _key(kind: str, subject: str) -> bytes:
    return _json({"keytype": kind, **({"subject": subject} if subject else {}), "magic": 0})


def _schema_value(change: SchemaVersion) -> dict[str, Any]:
    value: dict[str, Any] = {"subject": change.subject, "version": change.version, "id": change.number}
    if change.kind != "AVRO":
        value["schemaType"] = change.kind
    if change.references:
        value["references"] = [each._asdict() for each in change.references]
    for name, text in change.further:
        value[name] = json.loads(text)
    return {**value, "schema": change.text, "deleted": change.deleted}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
