"""`kavka why denied`: commands that would allow what was denied: the narrowest rights, and all that one use needs.

A broker sees one request at a time: a program that may not even see its topic is refused before it says what it came
for. So the rights follow from all that one principal was denied: what is missing for the group that it reads with goes
into the same command as what is missing for the topic. Where nothing tells reading from writing, both are shown.

    I1  a right on the cluster comes last, and none is shown where one on a topic does: whoever may write to some topic
        gets a producer's id without IdempotentWrite

Pure: decisions in, lines out. Must not know brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kavka.broker.authorization.denials import command
from kavka.decisions import Decision
from kavka.security.acls import OPERATIONS_BY_WORD, Operation
from kavka.security.resource_patterns import ResourceType

SOME_TOPIC = "TOPIC"
"""Stands for the topic that a producer did not name yet."""
_TYPES = {each.word: each for each in ResourceType}
_LOOKS = ("METADATA", "DESCRIBE_TOPIC_PARTITIONS", "FIND_COORDINATOR", "LIST_OFFSETS")
"""APIs with which clients begin whatever they do."""
_INCLUDE_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
_USE = {ResourceType.GROUP: Operation.READ, ResourceType.TRANSACTIONAL_ID: Operation.WRITE}
"""What clients do with the things whose coordinator they look for."""


class _Missing(NamedTuple):
    """A right that a request asked for; `only_looks` where it was the first of a conversation."""

    operation: Operation
    kind: ResourceType
    name: str
    only_looks: bool


def principal_named(text: str) -> str:
    """A principal as lists write it: `alice` is `User:alice`."""
    return text if ":" in text else f"User:{text}"


def allowing(denials: Iterable[Decision]) -> Iterator[str]:
    """Command lines that would allow what was denied, those of one principal together."""
    removals: dict[str, None] = {}
    missing: dict[str, dict[_Missing, None]] = {}
    for denial in denials:
        evidence = denial.evidence
        remedy = str(evidence.get("remedy", ""))
        if remedy.startswith("kavka acls remove"):
            removals[remedy] = None
        elif remedy:
            operation, kind = OPERATIONS_BY_WORD[str(evidence["operation"])], _TYPES[str(evidence["resource_type"])]
            right = _Missing(operation, kind, str(evidence["resource"]), evidence.get("api") in _LOOKS)
            missing.setdefault(str(evidence["principal"]), {})[right] = None
    yield from removals
    for principal, rights in missing.items():
        yield from _of(principal, rights)


def _of(principal: str, rights: Iterable[_Missing]) -> Iterator[str]:
    asked = list(rights)
    produces = any(not each.name for each in asked)
    consumes = any(each.kind is ResourceType.GROUP for each in asked)
    needed: dict[tuple[ResourceType, str], set[Operation]] = {}
    unclear = []
    for each in asked:
        if not each.name:
            continue
        place = (each.kind, each.name)
        if each.operation is not Operation.DESCRIBE or not each.only_looks:
            needed.setdefault(place, set()).add(each.operation)
        elif each.kind in _USE:
            needed.setdefault(place, set()).add(_USE[each.kind])
        elif each.kind is ResourceType.TOPIC and (produces or consumes):
            uses = {Operation.WRITE} if produces else {Operation.READ}
            needed.setdefault(place, set()).update(uses)
        else:
            unclear.append(place)
    if produces and not any(Operation.WRITE in needed[place] for place in needed if place[0] is ResourceType.TOPIC):
        needed[ResourceType.TOPIC, SOME_TOPIC] = {Operation.WRITE}
    for operations, places in _together(needed):
        line = command(principal, operations, places)
        is_open = (ResourceType.TOPIC, SOME_TOPIC) in places and produces
        yield f"{line}   # {SOME_TOPIC}: what it writes to" if is_open else line
    for place in unclear:
        if needed.get(place, set()) & _INCLUDE_DESCRIBE:
            continue
        if place[0] is not ResourceType.TOPIC:
            yield command(principal, (Operation.DESCRIBE,), (place,))
            continue
        yield f"{command(principal, (Operation.READ,), (place,))}   # to read; with a group, add --group NAME"
        if not place[1].startswith("__"):  # The brokers' own topics are for brokers to write.
            yield f"{command(principal, (Operation.WRITE,), (place,))}   # to write"


def _together(
    needed: dict[tuple[ResourceType, str], set[Operation]],
) -> Iterator[tuple[tuple[Operation, ...], list[tuple[ResourceType, str]]]]:
    """What gets the same operations goes into one command; the cluster comes last (I1)."""
    by_operations: dict[tuple[bool, tuple[Operation, ...]], list[tuple[ResourceType, str]]] = {}
    for place, wanted in needed.items():
        operations = set(wanted)
        if operations & _INCLUDE_DESCRIBE:
            operations.discard(Operation.DESCRIBE)
        key = (place[0] is ResourceType.CLUSTER, tuple(sorted(operations)))
        by_operations.setdefault(key, []).append(place)
    for (_, words), places in sorted(by_operations.items(), key=lambda each: each[0][0]):
        yield words, places
