"""The same bytes as Kafka's own message classes, for every message and version.

Messages are made up from a seed. A small Java program (harness/) gets each of them twice: as JSON, from which Kafka's
class is filled and written, and as the bytes that kavka wrote, which Kafka's class has to read. So both directions are
compared with both releases, wherever a release knows the version.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kavka.protocol import messages
from kavka.protocol.codec import decode, encode, encode_chunks, min_max_versions
from kavka.protocol.samples import sample
from kavka.protocol.schema import Field, Message, Struct

HARNESS = Path(__file__).parent / "harness"
ROOT = Path(__file__).resolve().parents[3]
BUILDS = ROOT / ".cache" / "message-harness"
GENERATOR = ROOT / "tools" / "generate_messages.py"
RELEASES = ("3.9.2", "4.3.1")
SAMPLES_PER_VERSION = 12
BUILD_SECONDS = 300
RUN_SECONDS = 120

NAMES_IN_OLD = {
    ("VoteRequest", "replicaEpoch"): "candidateEpoch",
    ("VoteRequest", "replicaId"): "candidateId",
    ("VoteRequest", "replicaDirectoryId"): "candidateDirectoryId",
    ("ListConfigResourcesResponse", "configResources"): "clientMetricsResources",
    ("ListConfigResourcesResponse", "resourceName"): "name",
}
"""Fields that 3.9 calls by another name than 4.x."""
UNKNOWN_TO_OLD = {
    ("TopicPartitions", "assignment_epochs"),
    ("ConsumerGroupMetadataValue", "metadata_hash"),
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp"),
    ("OffsetCommitValue", "topic_id"),
    ("TransactionLogValue", "previous_producer_id"),
    ("TransactionLogValue", "next_producer_id"),
    ("TransactionLogValue", "next_producer_epoch"),
    ("TransactionLogValue", "client_transaction_version"),
}
"""Tagged fields that 4.x added to a version that 3.9 has as well: there they are left at their defaults."""
FIRST_OWN_TAG = 10_000
"""Tagged fields from here on are kavka's own; Kafka's classes pass over them."""
MESSAGES_IN_OLD = {
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
}

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(BUILD_SECONDS + RUN_SECONDS),
    pytest.mark.skipif(
        not (shutil.which("mvn") and shutil.which("java") and shutil.which("javac")),
        reason="comparing with Kafka's message classes needs a JDK (17 or newer) and Maven on the PATH",
    ),
]


class Sample(NamedTuple):
    """One message to compare, and what the harness has to be told about it."""

    message: Message
    version: int
    encoded: bytes

    def __str__(self) -> str:
        return f"{type(self.message).__name__} v{self.version}"


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [Sample(message, version, encode(message, version)) for message, version in made_up_messages()]


@pytest.mark.parametrize("release", RELEASES)
def test_every_message_has_the_bytes_of_kafkas_classes(release: str, samples: list[Sample]) -> None:
    known = versions_of(release)
    asked = [suited(each, release) for each in samples if (type(each.message).__name__, each.version) in known]
    answers = ask_kafka(release, asked)
    compared: set[tuple[str, int]] = set()
    differences = []
    for each, answer in zip(asked, answers, strict=True):
        if answer == "absent":
            continue
        compared.add((type(each.message).__name__, each.version))
        difference = difference_of(each, answer)
        if difference is not None:
            differences.append(f"{each}: {difference}")
    assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences[:20])
    assert compared == known, "the harness did not know the versions that the modules name"


def test_every_version_is_known_to_one_release() -> None:
    known = versions_of(RELEASES[0]) | versions_of(RELEASES[1])
    assert known == {(name, version) for name, version in all_versions()}


def suited(each: Sample, release: str) -> Sample:
    """The sample without the fields that this release does not know."""
    if not release.startswith("3."):
        return each
    message = decode(type(each.message), each.encoded, each.version)
    return Sample(message, each.version, encode(message, each.version)) if forgot_new_fields(message) else each


def forgot_new_fields(struct: Struct) -> bool:
    forgot = False
    for field in struct._fields:
        value = getattr(struct, field.name)
        if (type(struct).__name__, field.name) in UNKNOWN_TO_OLD:
            setattr(struct, field.name, field.new_default())
            forgot = True
        elif isinstance(value, Struct):
            forgot |= forgot_new_fields(value)
        elif field.kind == "array" and isinstance(field.element, type):
            for item in value or ():
                forgot |= forgot_new_fields(item)
    return forgot


def test_the_modules_are_what_the_jars_say() -> None:
    for release in RELEASES:
        built_harness(release)
    checked = subprocess.run(
        [sys.executable, str(GENERATOR), "--check", "--jars", str(BUILDS)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert checked.returncode == 0, (
        f"run tools/generate_messages.py:\n{checked.stdout[:4_000]}{checked.stderr[-4_000:]}"
    )


def difference_of(each: Sample, answer: str) -> str | None:
    written, _, reading = answer.partition(" ")
    if written == "error":
        return answer
    if written != each.encoded.hex():
        return f"Kafka writes {written}, kavka {each.encoded.hex()}"
    if reading != "same":
        return "Kafka reads kavka's bytes as another message"
    if decode(type(each.message), bytes.fromhex(written), each.version) != each.message:
        return "kavka reads Kafka's bytes as another message"
    if b"".join(bytes(chunk) for chunk in encode_chunks(each.message, each.version)) != each.encoded:  # type: ignore[arg-type]
        return "the chunks are not the bytes"
    return None


def all_versions() -> Iterator[tuple[str, int]]:
    for name in messages.MODULES:
        lowest, highest = min_max_versions(getattr(messages, name))
        yield from ((name, version) for version in range(lowest, highest + 1))


def made_up_messages() -> Iterator[tuple[Message, int]]:
    """All defaults first, then made-up ones."""
    for name, version in all_versions():
        message_type: type[Message] = getattr(messages, name)
        yield message_type(), version
        for number in range(SAMPLES_PER_VERSION):
            made = sample(message_type, version, random.Random(f"{name} {version} {number}"))
            forget_own_fields(made)
            yield made, version


def forget_own_fields(struct: Struct) -> None:
    for field in struct._fields:
        value = getattr(struct, field.name)
        if is_own(field):
            setattr(struct, field.name, field.new_default())
        elif isinstance(value, Struct):
            forget_own_fields(value)
        elif field.kind == "array" and isinstance(field.element, type):
            for item in value or ():
                forget_own_fields(item)


def is_own(field: Field) -> bool:
    return field.tag is not None and field.tag >= FIRST_OWN_TAG


def versions_of(release: str) -> set[tuple[str, int]]:
    """What a release knows, as the modules' docstrings say it: `Apache Kafka 3.9.2: 0-11; ...`."""
    known = set()
    for name in messages.MODULES:
        module = __import__(f"kavka.protocol.messages.{messages.MODULES[name]}", fromlist=["__doc__"])
        for part in str(module.__doc__).replace("\n", ";").split(";"):
            head, colon, versions = part.strip().rstrip(".").partition(": ")
            if colon and head == f"Apache Kafka {release}":
                low, _, high = versions.partition("-")
                known |= {(name, version) for version in range(int(low), int(high or low) + 1)}
    return known


def ask_kafka(release: str, samples: list[Sample]) -> list[str]:
    """What Kafka's classes say to each sample, in order."""
    build = built_harness(release)
    questions = "".join(json.dumps(question(release, each)) + "\n" for each in samples)
    ran = subprocess.run(
        ["java", "-cp", f"{build}/classes{os.pathsep}{build}/jars/*", "kavka.MessageHarness"],
        input=questions,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    return ran.stdout.splitlines()


def built_harness(release: str) -> Path:
    """The harness compiled against one release; Maven fetches Kafka's jars the first time."""
    build = BUILDS / release
    sources = [HARNESS / "pom.xml", *HARNESS.glob("src/**/*.java")]
    stamp = build / "complete"
    if stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources):
        return build
    build.mkdir(parents=True, exist_ok=True)
    profile = ["-Pshare"] if not release.startswith("3.") else []
    arguments = [f"-Dkafka.version={release}", f"-DbuildDirectory={build}", *profile, "package"]
    made = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(HARNESS / "pom.xml"), *arguments],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert made.returncode == 0, f"Maven could not build the harness:\n{made.stdout[-4_000:]}{made.stderr[-4_000:]}"
    stamp.touch()
    return build


def question(release: str, each: Sample) -> dict[str, Any]:
    name = type(each.message).__name__
    old = release.startswith("3.")
    # 4.x calls the number before a coordinator's key the type of the record, and gives the key version 0.
    typed = each.message._schema.kind == "coordinator-key" and not old
    return {
        "message": MESSAGES_IN_OLD.get(name, name) if old else name,
        "version": 0 if typed else each.version,
        "json": json_of_struct(each.message, each.version, NAMES_IN_OLD if old else {}, name),
        "hex": each.encoded.hex(),
    }


def json_of_struct(struct: Struct, version: int, renamed: dict[tuple[str, str], str], message: str) -> dict[str, Any]:
    fields = {}
    for field in struct._fields:
        value = getattr(struct, field.name)
        absent = version in field.tagged and value is None and version not in field.nullable
        if version in field.versions and not absent and not is_own(field):
            name = camel(field.name)
            fields[renamed.get((message, name), name)] = json_of(field, value, version, renamed, message)
    return fields


def json_of(field: Field, value: Any, version: int, renamed: dict[tuple[str, str], str], message: str) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes() | memoryview():
            return base64.b64encode(value).decode()
        case Struct():
            return json_of_struct(value, version, renamed, message)
        case list():
            return [json_of(field, item, version, renamed, message) for item in value]
    raise AssertionError(f"{field.name}: {value!r} has no JSON")


def camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)
