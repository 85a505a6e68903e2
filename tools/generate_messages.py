#!/usr/bin/env python3
"""Writes src/kavka/protocol/messages/ from the field tables in Kafka's jars.

    tools/generate_messages.py            writes the modules
    tools/generate_messages.py --check    exits with 1 and a diff if the modules are not what would be written
    tools/generate_messages.py --jars D   the jars are in D/3.9.2/jars and D/4.3.1/jars, where the message harness of
                                          the conformance tests puts them, and not in the peers' directories

Kafka's jars carry one table of fields per message. Two releases are read: 3.9, the last that speaks the ZooKeeper
line's messages (LeaderAndIsr, UpdateMetadata, ...) and their oldest versions, and 4.3, which dropped those and added
newer ones. A message's versions are the union of both. A field exists in a version if the release that knows this
version says so; where both know it they must agree, or the generator stops.

What is taken are names, types, versions and defaults: facts of the wire. Descriptions are left behind.

Invariants:
kavka's own fields (OWN_FIELDS) are tagged, so that every other program passes over them (KIP-482).

I1. For each message, release and version the merged table gives the very layout of that release's own table, but for
    tagged fields of kavka's own.
I2. The output depends on the jars alone, so `--check` can compare byte by byte.
"""

from __future__ import annotations

import argparse
import difflib
import json
import keyword
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MESSAGES = ROOT / "src" / "kavka" / "protocol" / "messages"
API_KEYS = ROOT / "src" / "kavka" / "protocol" / "api_keys.py"

OLD, NEW = "3.9.2", "4.3.1"
JARS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-storage",
)
FROM_STORAGE = {"ProducerSnapshot"}
"""The storage jar also holds the tables of tiered storage, whose records no broker of ours writes."""

RENAMED = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
"""Messages of 3.9 that go by another name in 4.x. Version 0 has the same bytes in both."""

RENAMED_FIELDS = {
    ("VoteRequest", "candidate_epoch"): "replica_epoch",
    ("VoteRequest", "candidate_id"): "replica_id",
    ("VoteRequest", "candidate_directory_id"): "replica_directory_id",
}
"""Fields of 3.9 that go by another name in 4.x, at the same place on the wire."""

UNSTABLE_IN_OLD = re.compile(r"Share(Group|Fetch|Acknowledge)|(Initialize|Read|Write|Delete)ShareGroupState")
"""Share groups (KIP-932) were unfinished in 3.9 and behind a flag: only the 4.x tables count."""

FIRST_OWN_TAG = 10_000
"""Kafka numbers its tags from 0 on, one after the other; those of kavka's own begin far above."""
RECORDS_ONLY = {
    "name": "KavkaRecordsOnly",
    "type": "bool",
    "taggedVersions": "0+",
    "tag": FIRST_OWN_TAG,
    "ignorable": True,
}
SHARE_RUN = [
    {"name": "FirstOffset", "type": "int64", "versions": "0+"},
    {"name": "LastOffset", "type": "int64", "versions": "0+"},
    {"name": "State", "type": "int8", "versions": "0+"},
    {"name": "BeingWritten", "type": "int8", "versions": "0+", "default": "-1"},
    {"name": "DeliveryCount", "type": "int16", "versions": "0+"},
    {"name": "MemberId", "type": "string", "versions": "0+"},
    {"name": "LockLeftMs", "type": "int64", "versions": "0+", "default": "-1"},
]
SHARE_RECORDS = {
    "name": "KavkaRecords",
    "type": "KavkaShareRecords",
    "taggedVersions": "0+",
    "tag": FIRST_OWN_TAG,
    "ignorable": True,
    "fields": [
        {"name": "EndOffset", "type": "int64", "versions": "0+"},
        {"name": "InFlight", "type": "int32", "versions": "0+"},
        {"name": "RunCount", "type": "int32", "versions": "0+"},
        {"name": "Runs", "type": "[]KavkaShareRun", "versions": "0+", "fields": SHARE_RUN},
    ],
}
NUMBER = {
    "name": "KavkaNumber",
    "type": "int64",
    "versions": "0+",
    "taggedVersions": "0+",
    "tag": FIRST_OWN_TAG,
    "default": "-1",
    "ignorable": True,
}
BROKER_EPOCH = {**NUMBER, "name": "KavkaBrokerEpoch", "tag": FIRST_OWN_TAG + 1}
COORDINATOR_EPOCH = {**NUMBER, "name": "KavkaCoordinatorEpoch", "type": "int32", "tag": FIRST_OWN_TAG + 2}
COORDINATORS_TOPIC = {
    "name": "KavkaCoordinatorsTopic",
    "type": "uuid",
    "versions": "0+",
    "taggedVersions": "0+",
    "tag": FIRST_OWN_TAG + 3,
    "ignorable": True,
}
LEAVING = {
    "name": "KavkaIsShuttingDown",
    "type": "bool",
    "versions": "6+",
    "taggedVersions": "6+",
    "tag": FIRST_OWN_TAG,
    "ignorable": True,
}
DUE_LETTERS_ASKED = {**RECORDS_ONLY, "name": "KavkaDueLetters"}
DUE_LETTERS = {
    **SHARE_RECORDS,
    "name": "KavkaDueLetters",
    "type": "KavkaStatesWithDueLetters",
    "fields": [
        {"name": "StatePartitions", "type": "[]int32", "versions": "0+"},
        {"name": "GroupIds", "type": "[]string", "versions": "0+"},
    ],
}
CLIENTS_OF = {
    "name": "KavkaClientsOf",
    "type": "[]string",
    "versions": "0+",
    "taggedVersions": "0+",
    "nullableVersions": "0+",
    "tag": FIRST_OWN_TAG,
    "default": "null",
    "ignorable": True,
}
CLIENT_WRITING = [
    {"name": "PartitionIndex", "type": "int32", "versions": "0+"},
    {"name": "ProducerId", "type": "int64", "versions": "0+", "default": "-1"},
    {"name": "LastWriteMs", "type": "int64", "versions": "0+"},
    {"name": "BytesIn", "type": "int64", "versions": "0+"},
]
CLIENT_TOPIC = [
    {"name": "Name", "type": "string", "versions": "0+"},
    {"name": "Writes", "type": "[]KavkaClientWriting", "versions": "0+", "fields": CLIENT_WRITING},
    {"name": "Reads", "type": "[]int32", "versions": "0+"},
]
CLIENTS = {
    **CLIENTS_OF,
    "name": "KavkaClients",
    "type": "[]KavkaClient",
    "fields": [
        {"name": "ConnectionId", "type": "string", "versions": "0+"},
        {"name": "ClientId", "type": "string", "versions": "0+"},
        {"name": "Host", "type": "string", "versions": "0+"},
        {"name": "Port", "type": "int32", "versions": "0+"},
        {"name": "ListenerName", "type": "string", "versions": "0+"},
        {"name": "Principal", "type": "string", "versions": "0+"},
        {"name": "SoftwareName", "type": "string", "versions": "0+"},
        {"name": "SoftwareVersion", "type": "string", "versions": "0+"},
        {"name": "Topics", "type": "[]KavkaClientTopic", "versions": "0+", "fields": CLIENT_TOPIC},
    ],
}
HAS_MORE_CLIENTS = {**RECORDS_ONLY, "name": "KavkaHasMoreClients", "tag": FIRST_OWN_TAG + 1}
OF_A_LEADER = [(("topics", "partitions"), each) for each in (NUMBER, BROKER_EPOCH)]
OF_A_COORDINATOR = [
    (("topics", "partitions"), each) for each in (NUMBER, BROKER_EPOCH, COORDINATOR_EPOCH, COORDINATORS_TOPIC)
]
OWN_FIELDS: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]] = {
    "DeleteShareGroupStateRequest": OF_A_COORDINATOR,
    "DescribeClusterRequest": [((), CLIENTS_OF)],
    "DescribeClusterResponse": [((), CLIENTS), ((), HAS_MORE_CLIENTS)],
    "DescribeShareGroupOffsetsRequest": [((), RECORDS_ONLY)],
    "DescribeShareGroupOffsetsResponse": [((), RECORDS_ONLY), (("groups", "topics", "partitions"), SHARE_RECORDS)],
    "InitializeShareGroupStateRequest": OF_A_COORDINATOR,
    "ReadShareGroupStateRequest": OF_A_LEADER,
    "ReadShareGroupStateSummaryRequest": [((), DUE_LETTERS_ASKED)],
    "ReadShareGroupStateSummaryResponse": [((), DUE_LETTERS)],
    "UpdateMetadataRequest": [(("live_brokers",), LEAVING)],
    "WriteShareGroupStateRequest": OF_A_LEADER,
}
"""By message: the arrays in which a field stands, and the field, in the form of Kafka's tables. What a share group's
leaders know of records that are in flight, and which clients read and write at a broker: no API of Kafka's tells it.
Which groups have dead letters that are due. The order in which one leader, or one coordinator of groups, asks for
something to be done to a state. And which brokers are shutting down."""

INT32_MAX = 2**31 - 1
PRIMITIVES = {
    "bool": ("boolean", "bool"),
    "int8": ("int8", "int"),
    "int16": ("int16", "int"),
    "uint16": ("uint16", "int"),
    "int32": ("int32", "int"),
    "uint32": ("uint32", "int"),
    "int64": ("int64", "int"),
    "float64": ("float64", "float"),
    "uuid": ("uuid", "UUID"),
    "string": ("string", "str"),
    "bytes": ("binary", "bytes"),
    "records": ("record_batches", "Records"),
}
"""Wire type -> (specifier in schema.py, Python type)."""


# --- reading ---------------------------------------------------------------------------------------------------------


class VersionSet:
    """Versions as a predicate, cut to those of the message when written."""

    def __init__(self, text: str) -> None:
        self.low, self.high = 1, 0
        if text not in ("", "none"):
            low, plus, high = text.partition("+") if text.endswith("+") else text.partition("-")
            self.low = int(low)
            self.high = INT32_MAX if plus == "+" else int(high or low)

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high


@dataclass
class Column:
    """One field, merged from both releases. The version sets are explicit."""

    name: str
    kind: str
    versions: set[int]
    nullable: set[int]
    tagged: set[int]
    tag: int | None
    default: Any
    ignorable: bool
    flexible: bool
    type_name: str = ""
    columns: list[Column] = field(default_factory=list)


@dataclass
class Table:
    """One message, merged from both releases."""

    name: str
    kind: str
    api_key: int | None
    versions: set[int]
    flexible_from: int | None
    columns: list[Column]
    lines: dict[str, set[int]]


def jars_of(release: str, jars: Path | None) -> Path:
    """The directory with the jars of one release."""
    if jars is not None:
        return jars / release / "jars"
    home = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "kavka-peers"))
    harness = ROOT / ".cache" / "message-harness" / release / "jars"
    peers = home / f"kafka-{release}"
    return harness if harness.exists() and not peers.exists() else peers


def read_release(release: str, jars: Path | None) -> dict[str, dict[str, Any]]:
    """Every table of one Kafka release, by the name of its message."""
    tables: dict[str, dict[str, Any]] = {}
    directory = jars_of(release, jars)
    for jar_name in JARS:
        path = directory / f"{jar_name}-{release}.jar"
        if not path.exists():
            if jar_name == "kafka-share-coordinator" and release == OLD:
                continue
            sys.exit(
                f"{path} is missing: run `pytest tests/conformance/protocol`, which fetches it through Maven, "
                f"or set PEERS_HOME to the directory that holds kafka-{release}/"
            )
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                if re.fullmatch(r"(common/)?message/\w+\.json", entry):
                    table = json.loads(strip_comments(jar.read(entry).decode()))
                    if jar_name != "kafka-storage" or table["name"] in FROM_STORAGE:
                        tables[table["name"]] = table
    return tables


def strip_comments(text: str) -> str:
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda match: match.group(1) or "", text, flags=re.DOTALL)


def expand(text: str | None, valid: set[int]) -> set[int]:
    return {version for version in valid if version in VersionSet(text or "")}


def columns_of(fields: list[dict[str, Any]], structs: dict[str, list[dict[str, Any]]], valid: set[int]) -> list[Column]:
    """The columns of one release's table. A field that is only ever tagged may name its tagged versions alone."""
    columns = []
    for spec in fields:
        versions = expand(spec.get("versions") or spec["taggedVersions"], valid)
        kind, type_name = spec["type"], ""
        base = kind.removeprefix("[]")
        if base not in PRIMITIVES:
            type_name = base
            kind = "[]struct" if kind.startswith("[]") else "struct"
        inner = spec.get("fields") or structs.get(type_name, [])
        columns.append(
            Column(
                name=snake(spec["name"]),
                kind=kind,
                versions=versions,
                nullable=expand(spec.get("nullableVersions"), versions),
                tagged=expand(spec.get("taggedVersions"), versions),
                tag=int(spec["tag"]) if "tag" in spec else None,
                default=default_of(spec),
                ignorable=bool(spec.get("ignorable", False)),
                flexible=spec.get("flexibleVersions") != "none",
                type_name=type_name,
                columns=columns_of(inner, structs, valid) if type_name else [],
            )
        )
    return columns


def default_of(spec: dict[str, Any]) -> Any:
    kind, given = spec["type"], spec.get("default")
    if given == "null":
        return None
    if kind == "bool":
        return str(given).lower() == "true" if given is not None else False
    if kind in ("int8", "int16", "uint16", "int32", "uint32", "int64"):
        return int(str(given), 0) if given not in (None, "") else 0
    if kind == "float64":
        return float(given) if given not in (None, "") else 0.0
    if kind == "string":
        return given if given is not None else ""
    if kind in ("bytes", "records"):
        return b"" if kind == "bytes" else None
    if kind == "uuid":
        return "ZERO_UUID"
    return "EMPTY"


# --- merging ---------------------------------------------------------------------------------------------------------


def merge(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Table:
    """The union of the two releases' tables of one message."""
    lines: dict[str, set[int]] = {}
    merged: list[Column] = []
    flexible_from = None
    for release, spec in ((OLD, old), (NEW, new)):
        if spec is None:
            continue
        valid = all_versions(spec)
        lines[release] = valid
        columns = release_columns(spec, valid)
        if release == OLD:
            rename(name, columns)
        merged = merge_columns(merged, columns) if merged else columns
        if spec.get("flexibleVersions", "none") != "none":
            lowest = VersionSet(spec["flexibleVersions"]).low
            if flexible_from not in (None, lowest):
                sys.exit(f"{name}: flexible from {flexible_from} in one release and from {lowest} in the other")
            flexible_from = lowest
    described = new if new is not None else old
    assert described is not None
    table = Table(
        name=name,
        kind=described["type"],
        api_key=described.get("apiKey"),
        versions=set().union(*lines.values()),
        flexible_from=flexible_from,
        columns=merged,
        lines=lines,
    )
    for release, spec in ((OLD, old), (NEW, new)):
        if spec is not None:
            prove_same_layout(table, release, spec)
    add_own_fields(table)
    return table


def add_own_fields(table: Table) -> None:
    for arrays, spec in OWN_FIELDS.get(table.name, ()):
        columns = table.columns
        for name in arrays:
            columns = next(column.columns for column in columns if column.name == name)
        columns.extend(columns_of([spec], {}, table.versions))


def all_versions(spec: dict[str, Any]) -> set[int]:
    valid = VersionSet(spec["validVersions"])
    return set(range(valid.low, valid.high + 1)) if valid else set()


def release_columns(spec: dict[str, Any], valid: set[int]) -> list[Column]:
    structs = {common["name"]: common["fields"] for common in spec.get("commonStructs", [])}
    return columns_of(spec["fields"], structs, valid)


def rename(message: str, columns: list[Column]) -> None:
    for column in columns:
        column.name = RENAMED_FIELDS.get((message, column.name), column.name)
        rename(message, column.columns)


def merge_columns(old: list[Column], new: list[Column]) -> list[Column]:
    """The columns of both in an order that keeps each one's own; columns without a version vanish."""
    by_name = {column.name: column for column in old}
    new_names = {column.name for column in new}
    merged: list[Column] = []
    waiting = list(old)
    for column in new:
        earlier = by_name.get(column.name)
        if earlier is None:
            merged.append(column)
            continue
        while waiting and waiting[0].name != column.name:
            skipped = waiting.pop(0)
            if skipped.name not in new_names:
                merged.append(skipped)
            else:
                sys.exit(f"{skipped.name} and {column.name} stand in another order in the two releases")
        waiting.pop(0)
        merged.append(merge_column(earlier, column))
    merged.extend(waiting)
    return merged


def merge_column(old: Column, new: Column) -> Column:
    if old.kind != new.kind or (old.tag is not None and new.tag is not None and old.tag != new.tag):
        sys.exit(f"{new.name}: {old.kind} with tag {old.tag} in {OLD}, {new.kind} with tag {new.tag} in {NEW}")
    return Column(
        name=new.name,
        kind=new.kind,
        versions=old.versions | new.versions,
        nullable=old.nullable | new.nullable,
        tagged=old.tagged | new.tagged,
        tag=new.tag if new.tag is not None else old.tag,
        default=new.default,
        ignorable=new.ignorable or old.ignorable,
        flexible=new.flexible and old.flexible,
        type_name=new.type_name,
        columns=merge_columns(old.columns, new.columns),
    )


def prove_same_layout(table: Table, release: str, spec: dict[str, Any]) -> None:
    own = release_columns(spec, table.lines[release])
    if release == OLD:
        rename(table.name, own)
    for version in sorted(table.lines[release]):
        if not same_layout(own, table.columns, version):
            sys.exit(f"{table.name} v{version} has another layout in {release}")


def same_layout(own: list[Column], merged: list[Column], version: int) -> bool:
    """Whether `merged` puts on the wire what `own` says; a tagged field may be new, since readers skip those."""
    return all(
        mine is not None
        and other is not None
        and (mine.name, mine.kind, version in mine.nullable) == (other.name, other.kind, version in other.nullable)
        and same_layout(mine.columns, other.columns, version)
        for mine, other in paired(own, merged, version)
    )


def paired(own: list[Column], merged: list[Column], version: int) -> Iterator[tuple[Column | None, Column | None]]:
    mine = [column for column in own if version in column.versions]
    others = [column for column in merged if version in column.versions]
    yield from zip_longest(
        (column for column in mine if version not in column.tagged),
        (column for column in others if version not in column.tagged),
    )
    by_tag = {column.tag: column for column in others if version in column.tagged}
    for column in mine:
        if version in column.tagged:
            yield column, by_tag.get(column.tag)


def merged_tables(jars: Path | None) -> list[Table]:
    old, new = read_release(OLD, jars), read_release(NEW, jars)
    tables = []
    for name in sorted(set(old) | set(new)):
        if name in RENAMED:
            continue
        older, newer = old.get(name), new.get(name)
        if newer is not None and not all_versions(newer):
            newer = None
        if older is not None and UNSTABLE_IN_OLD.search(name):
            older = None
        if newer is not None and newer["type"] == "coordinator-key":
            newer = numbered_as_written(newer)
        if older is not None or newer is not None:
            tables.append(merge(name, older, newer))
    return tables


def numbered_as_written(spec: dict[str, Any]) -> dict[str, Any]:
    """A coordinator's key with the number that stands before it in the log as its version.

    So 3.9 has it. 4.x calls this number the record's type and gives each key a version 0; the bytes are the same.
    """
    number = str(spec["apiKey"])
    if spec["validVersions"] != "0" or any(field["versions"] not in ("0", "0+") for field in spec["fields"]):
        sys.exit(f"{spec['name']}: a key of version 0 alone was expected")
    fields = [{**field, "versions": number} for field in spec["fields"]]
    return {**spec, "validVersions": number, "fields": fields}


# --- writing ---------------------------------------------------------------------------------------------------------


def snake(name: str) -> str:
    """TopicId -> topic_id, ISR and ETag alike; a keyword of Python gets an underscore behind it."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return text + "_" if keyword.iskeyword(text) else text


def text_of(versions: set[int], valid: set[int]) -> str:
    """`0-2,5+`: ranges within the message's versions; `+` if one reaches the newest."""
    parts = []
    for low, high in ranges(versions):
        if high == max(valid):
            parts.append(f"{low}+")
        else:
            parts.append(str(low) if low == high else f"{low}-{high}")
    return ",".join(parts)


def ranges(versions: set[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(versions)
    start = 0
    for index, version in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != version + 1:
            yield ordered[start], version
            start = index + 1


def span(versions: set[int]) -> str:
    return " and ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges(versions))


@dataclass
class Module:
    """One module of messages/: the text of its classes and the names it has to import."""

    table: Table
    classes: list[str] = field(default_factory=list)
    written: dict[str, list[Any]] = field(default_factory=dict)
    specifiers: set[str] = field(default_factory=set)
    uses_uuid: bool = False
    uses_zero_uuid: bool = False
    uses_records: bool = False

    def render(self) -> str:
        table = self.table
        arguments = [f'kind="{table.kind}"', f'versions="{span_argument(table.versions)}"']
        if table.flexible_from is not None:
            arguments.append(f'flexible="{table.flexible_from}+"')
        if table.api_key is not None:
            arguments.append(f"api_key={table.api_key}")
        self.add_class(table.name, f"Message, {', '.join(arguments)}", table.columns)
        parts = [f'"""{docstring(table)}"""\n\nfrom __future__ import annotations\n']
        if self.uses_uuid:
            parts.append("\nfrom uuid import UUID\n")
        imported = {"Message"} | self.specifiers
        if len(self.written) > 1:
            imported.add("Struct")
        if self.uses_zero_uuid:
            imported.add("ZERO_UUID")
        if self.uses_records:
            imported.add("Records")
        parts.append(f"\nfrom kavka.protocol.schema import {', '.join(sorted(imported))}\n")
        return "".join(parts) + "".join(self.classes)

    def add_class(self, name: str, bases: str, columns: list[Column]) -> None:
        shape = [(c.name, c.kind, c.type_name, sorted(c.versions)) for c in columns]
        if name in self.written:
            if self.written[name] != shape:
                sys.exit(f"{self.table.name}: two structs are called {name} and differ")
            return
        for column in columns:
            if column.columns and column.versions:
                self.add_class(column.type_name, "Struct", column.columns)
        self.written[name] = shape
        lines = [self.line(column) for column in columns if column.versions] or ["    pass"]
        self.classes.append(f"\n\nclass {name}({bases}):\n" + "\n".join(lines) + "\n")

    def line(self, column: Column) -> str:
        arguments = [f'"{text_of(column.versions, self.table.versions)}"']
        item = column.kind.removeprefix("[]")
        is_array = column.kind.startswith("[]")
        nullable = bool(column.nullable)
        # A tagged struct is None while its tag is absent; if it may also be null, None is that, as Kafka has it.
        absent = column.kind == "struct" and column.tagged == column.versions and bool(column.tagged) and not nullable
        if is_array:
            specifier = "array"
            element = column.type_name or f'"{item}"'
            python = f"list[{column.type_name or PRIMITIVES[item][1]}]"
            arguments.insert(0, element)
            self.uses_uuid |= item == "uuid"
        elif item == "struct":
            specifier, python = "struct", column.type_name
            arguments.insert(0, column.type_name)
        else:
            specifier, python = PRIMITIVES[item]
            self.uses_uuid |= item == "uuid"
            self.uses_zero_uuid |= item == "uuid"
            self.uses_records |= item == "records"
        if column.default is None or nullable or absent:
            python += " | None"
        if nullable:
            arguments.append(f'nullable="{text_of(column.nullable, self.table.versions)}"')
        if column.tag is not None and column.tagged:
            arguments.append(f"tag={column.tag}")
            if column.tagged != column.versions:
                arguments.append(f'tagged="{text_of(column.tagged, self.table.versions)}"')
        arguments.append(default_argument(column, is_array=is_array, absent=absent))
        if column.ignorable:
            arguments.append("ignorable=True")
        if not column.flexible:
            arguments.append("flexible=False")
        self.specifiers.add(specifier)
        return f"    {column.name}: {python} = {specifier}({', '.join(arguments)})"


def default_argument(column: Column, *, is_array: bool, absent: bool) -> str:
    if column.default is None or absent:
        return "default=None"
    if is_array:
        return "default_factory=list"
    if column.kind == "struct":
        return f"default_factory={column.type_name}"
    if column.default == "ZERO_UUID":
        return "default=ZERO_UUID"
    return f"default={json.dumps(column.default) if isinstance(column.default, str) else repr(column.default)}"


def span_argument(versions: set[int]) -> str:
    parts = list(ranges(versions))
    if len(parts) != 1:
        sys.exit(f"versions with a gap: {parts}")
    low, high = parts[0]
    return str(low) if low == high else f"{low}-{high}"


KINDS = {
    "request": "request",
    "response": "response",
    "header": "header of every message",
    "data": "stored value",
    "coordinator-key": "coordinator's key",
    "coordinator-value": "coordinator's value",
}


def plural(versions: set[int]) -> str:
    return "version" if len(versions) == 1 else "versions"


def docstring(table: Table) -> str:
    what = KINDS[table.kind]
    if table.api_key is not None:
        number = "API key" if table.kind in ("request", "response") else "record type"
        what += f", {number} {table.api_key}"
    flexible = "never flexible" if table.flexible_from is None else f"flexible from {table.flexible_from}"
    known = "; ".join(f"Apache Kafka {release}: {span(versions)}" for release, versions in table.lines.items())
    note = "The version is the number that stands before the key in the log.\n" * (table.kind == "coordinator-key")
    return (
        f"{table.name}: {what}, {plural(table.versions)} {span(table.versions)}, {flexible}.\n\n"
        f"{known}.\n{note}Written by tools/generate_messages.py; do not edit.\n"
    )


def index_module(tables: list[Table]) -> str:
    """messages/__init__.py: every message by name, imported when first asked for."""
    imports = "".join(
        f"    from kavka.protocol.messages.{snake(table.name)} import {table.name} as {table.name}\n"
        for table in tables
    )
    rows = "".join(f'        "{table.name}": "{snake(table.name)}",\n' for table in tables)
    return f'''"""All messages by name; a message's module is imported when it is first asked for: start-up stays fast.

    from kavka.protocol.messages import ProduceRequest
    from kavka.protocol.messages.produce_request import PartitionProduceData

No import names most of these modules: `protocol.api` looks up the two messages of an API by name, with the first
request of it. All of Kafka's messages are here, so that every client and every broker can be understood.

Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
{imports}
MODULES: Final[dict[str, str]] = (
    {{
{rows}    }}
)
"""The module of each message."""


def __getattr__(name: str) -> Any:
    module = MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    message_type = getattr(import_module(f"{{__name__}}.{{module}}"), name)
    globals()[name] = message_type
    return message_type
'''


def keys_module(tables: list[Table]) -> str:
    """api_keys.py: the numbers of the APIs and their versions, without importing any message."""
    requests = sorted((table for table in tables if table.kind == "request"), key=lambda table: table.api_key or 0)
    members, rows = [], []
    for table in requests:
        name = table.name.removesuffix("Request")
        members.append(f"    {snake(name).upper()} = {table.api_key}\n")
        rows.append(
            f'    ({table.api_key}, "{name}", {min(table.versions)}, {max(table.versions)}, {table.flexible_from}),\n'
        )
    return f'''"""The numbers of Kafka's APIs, and for each of them the versions that can be encoded and decoded.

Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ApiKey(IntEnum):
    """The number that a request begins with."""

{"".join(members)}

ROWS: Final[tuple[tuple[int, str, int, int, int | None], ...]] = (
{"".join(rows)})
"""API key, name, oldest version, newest version, first flexible version or None."""
'''


def generated(jars: Path | None) -> dict[Path, str]:
    """Every module that is written, formatted as the project formats."""
    tables = merged_tables(jars)
    files = {MESSAGES / f"{snake(table.name)}.py": Module(table).render() for table in tables}
    files[MESSAGES / "__init__.py"] = index_module(tables)
    files[API_KEYS] = keys_module(tables)
    return dict(zip(files, format_all(files), strict=True))


def format_all(files: dict[Path, str]) -> list[str]:
    """Runs the project's formatter over all modules at once, in a scratch directory."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in files.items():
            (Path(scratch) / f"{path.parent.name}__{path.name}").write_text(text)
        settings = ["--config", str(ROOT / "pyproject.toml")]
        ruff = [sys.executable, "-m", "ruff"]
        subprocess.run([*ruff, "check", "-q", "--fix", "--select", "I", *settings, scratch], check=True)
        subprocess.run([*ruff, "format", "-q", *settings, scratch], check=True)
        return [(Path(scratch) / f"{path.parent.name}__{path.name}").read_text() for path in files]


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes src/kavka/protocol/messages/ from the tables in Kafka's jars.")
    parser.add_argument("--check", action="store_true", help="compare only; exit with 1 and a diff if they differ")
    parser.add_argument("--jars", type=Path, help="directory with <release>/jars/ of both releases")
    arguments = parser.parse_args()
    files = generated(arguments.jars)
    stale = [path for path in MESSAGES.glob("*.py") if path not in files] if MESSAGES.exists() else []
    if arguments.check:
        return compare(files, stale)
    MESSAGES.mkdir(exist_ok=True)
    for path in stale:
        path.unlink()
    for path, text in files.items():
        path.write_text(text)
    print(f"{len(files)} modules written below {MESSAGES.parent.relative_to(ROOT)}")
    return 0


def compare(files: dict[Path, str], stale: list[Path]) -> int:
    differences = [f"{path.relative_to(ROOT)} is not generated any more\n" for path in stale]
    for path, text in files.items():
        found = path.read_text() if path.exists() else ""
        name = str(path.relative_to(ROOT))
        differences += difflib.unified_diff(
            found.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"{name} (checked in)",
            f"{name} (generated)",
        )
    sys.stdout.writelines(differences)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
