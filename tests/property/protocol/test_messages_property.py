"""Every message and version: what is written is read again, and bytes that lie never do more than raise.

The messages come from their tables (kavka.protocol.samples); hypothesis draws them, so that a failure shrinks.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.errors import ProtocolViolation
from kavka.protocol import messages
from kavka.protocol.codec import decode, encode, encode_chunks, min_max_versions
from kavka.protocol.primitives import records_bytes
from kavka.protocol.samples import sample
from kavka.protocol.schema import Message

EVERY_MESSAGE = sorted(messages.MODULES)
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Few examples each, because there are some 250 messages."""
MUTATIONS = 40
PREFIXES = 400
"""A longer message is cut at this many places, evenly spread."""


def message_type(name: str) -> type[Message]:
    found: type[Message] = getattr(messages, name)
    return found


def versions(name: str) -> range:
    lowest, highest = min_max_versions(message_type(name))
    return range(lowest, highest + 1)


def seeded(name: str, version: int, number: int = 0) -> random.Random:
    return random.Random(f"{name} {version} {number}")


@pytest.mark.parametrize("name", EVERY_MESSAGE)
@given(data=st.data())
@QUICK
def test_a_message_survives_the_wire(name: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(name)))
    message = sample(message_type(name), version, data.draw(st.randoms(use_true_random=False)))
    encoded = encode(message, version)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert decode(message_type(name), buffer, version) == message
    assert b"".join(records_bytes(chunk) for chunk in encode_chunks(message, version)) == encoded


@pytest.mark.parametrize("name", EVERY_MESSAGE)
def test_every_proper_prefix_is_a_violation(name: str) -> None:
    for version in versions(name):
        encoded = encode(sample(message_type(name), version, seeded(name, version)), version)
        step = max(1, len(encoded) // PREFIXES)
        for length in range(0, len(encoded), step):
            with pytest.raises(ProtocolViolation):
                decode(message_type(name), encoded[:length], version)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
def test_bytes_behind_a_message_are_a_violation_but_behind_a_request(name: str) -> None:
    for version in versions(name):
        message = message_type(name)()
        encoded = encode(message, version)
        if message_type(name)._schema.kind == "request":
            assert decode(message_type(name), encoded + b"\0", version) == message
            continue
        with pytest.raises(ProtocolViolation):
            decode(message_type(name), encoded + b"\0", version)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
@given(garbage=st.binary(max_size=200), data=st.data())
@QUICK
def test_garbage_is_a_violation_or_a_message(name: str, garbage: bytes, data: st.DataObject) -> None:
    decodes_or_violates(name, data.draw(st.sampled_from(versions(name))), garbage)


@pytest.mark.parametrize("name", EVERY_MESSAGE)
def test_a_damaged_message_is_a_violation_or_a_message(name: str) -> None:
    for version in versions(name):
        dice = seeded(name, version, 1)
        encoded = encode(sample(message_type(name), version, dice), version)
        for _ in range(MUTATIONS if encoded else 0):
            decodes_or_violates(name, version, damaged(encoded, dice))


def damaged(encoded: bytes, dice: random.Random) -> bytes:
    """One byte changed, to values that make lengths lie; or a few bytes left out or doubled."""
    at = dice.randrange(len(encoded))
    match dice.randrange(4):
        case 0:
            return encoded[:at] + bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF))]) + encoded[at + 1 :]
        case 1:
            return encoded[:at] + dice.choice((b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff")) + encoded[at + 1 :]
        case 2:
            return encoded[:at] + encoded[at + dice.randint(1, 4) :]
        case _:
            return encoded[:at] + encoded[at : at + dice.randint(1, 8)] + encoded[at:]


def decodes_or_violates(name: str, version: int, garbage: bytes) -> None:
    """Whatever is accepted is a message: written again and read again it gives the same bytes."""
    try:
        message = decode(message_type(name), garbage, version)
    except ProtocolViolation:
        return
    written = encode(message, version)
    assert encode(decode(message_type(name), written, version), version) == written
