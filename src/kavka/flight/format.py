"""The form of a flight recording: a broker's inputs and its decisions, as bytes on its disk.

Decides the bytes alone. A ring is two files, the older and the newer; a file is blocks, a block is zlib over entries:

    block   offset  width
            0       4      MAGIC
            4       4      bytes of the payload
            8       4      CRC-32 of the two clocks and the payload
            12      8      wall clock when it was written, milliseconds since 1970
            20      8      the broker's own clock then, which never jumps (ReplicaManager.now_ms): entries tell times by
                           it, but for decisions of the controller
            28             the payload

    entry   FACT      type, u32 length, a JSON object: what is rare; "f" says what
            DECISION  type, u32 length, a why-record as `decisions.encode_decision` has it
            FETCH     type and `FETCH_FIELDS`: a follower's fetch at its leader
            CHECK     type and `CHECK_FIELDS`: the timer asked a leader who lags
            RAISED    as CHECK: the timer raised the high watermark

A reader that finds anything but a whole block goes on at the next MAGIC that begins one: a broker that was killed
leaves a torn block, and its next life writes on behind it.

Facts ("p" is a partition's number, which holds within a file):

    life       first in a file: broker, kavka's version, settings that decisions depend on; "again": it went on
    end        the broker stopped in order
    partition  a partition as it is: before the first entry that names its number
    lead, follow, stop    the controller's word
    proposal   what the FETCH or CHECK before it proposed
    answer     what became of a proposal
    brokers    who is alive, and who of them is shutting down, as the controller said
    asked, kept, judged    what the controller decided from (controller/term/input_recorder.py), and the outcome
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from kavka.decisions import DecisionKind, RecordedDecision, decode_decision, encode_decision
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replication.decide.isr_states import CommittedIsr, IsrProposal, IsrState, PendingExpand, PendingShrink
from kavka.replication.decide.partition_snapshot import PartitionSnapshot, RemoteSnapshot

FLIGHT_FILES: Final = ("kavka-flight.1.bin", "kavka-flight.0.bin")
"""A broker's ring in its first log directory: older, newer. Kafka's log loading passes over such files."""
MAGIC: Final = b"kfr1"
HEADER: Final = Struct(">4sIIqq")
CLOCKS: Final = Struct(">qq")
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
MAX_ENTRIES_BYTES: Final = 64 * 1024 * 1024
"""What a block may hold at most; beyond that it is none."""
COMPRESSION_LEVEL: Final = 1

FACT: Final = 1
FETCH: Final = 2
CHECK: Final = 3
RAISED: Final = 4
DECISION: Final = 5

TEXT: Final = Struct(">BI")
FETCH_FIELDS: Final = Struct(">BIiqqqqqqB")
"""type, partition, broker, its time, fetch offset, leader's log end, log start, broker epoch, high watermark, flags."""
CHECK_FIELDS: Final = Struct(">BIqqqB")
"""type, partition, time, log end, high watermark, flags."""

REPEATED: Final = 1
"""The latest of fetches that were all the same: the times moved, nothing else."""
REFUSED: Final = 2
PROPOSED: Final = 4
BROKEN: Final = 8
"""An invariant was found broken: the broker ended."""
RESIGNED: Final = 16

Fact = dict[str, Any]


class Fetch(NamedTuple):
    """A follower's fetch; `high_watermark` is the leader's after it."""

    partition: int
    broker_id: BrokerId
    at_ms: int
    offset: int
    leader_end_offset: int
    log_start_offset: int
    broker_epoch: int
    high_watermark: int
    flags: int


class Check(NamedTuple):
    """The timer looked at a leader's partition."""

    partition: int
    at_ms: int
    log_end_offset: int
    high_watermark: int
    flags: int
    only_raised: bool


Entry = Fetch | Check | Fact | RecordedDecision


class Block(NamedTuple):
    """Entries that were written at one time."""

    wall_ms: int
    clock_ms: int
    entries: bytes


class Cut(NamedTuple):
    """Bytes of a file that are no block: from where to where, and what is wrong with them."""

    position: int
    until: int
    why: str


def encode_block(entries: bytes | bytearray, wall_ms: int, clock_ms: int) -> bytes:
    payload = zlib.compress(entries, COMPRESSION_LEVEL)
    crc = zlib.crc32(payload, zlib.crc32(CLOCKS.pack(wall_ms, clock_ms)))
    return HEADER.pack(MAGIC, len(payload), crc, wall_ms, clock_ms) + payload


_JSON: Final = json.JSONEncoder(check_circular=False, separators=(",", ":"))


def encode_fact(fact: Mapping[str, Any]) -> bytes:
    data = _JSON.encode(fact).encode()
    return TEXT.pack(FACT, len(data)) + data


def encode_recorded(recorded: RecordedDecision) -> bytes:
    data = encode_decision(recorded)
    return TEXT.pack(DECISION, len(data)) + data


def blocks(data: bytes) -> Iterator[Block | Cut]:
    """The blocks of a file, in order, and what between them is none."""
    position = 0
    while position < len(data):
        found = _block_at(data, position)
        if isinstance(found, Block):
            yield found
            position += HEADER.size + HEADER.unpack_from(data, position)[1]
            continue
        following = data.find(MAGIC, position + 1)
        while following >= 0 and not isinstance(_block_at(data, following), Block):
            following = data.find(MAGIC, following + 1)
        until = following if following >= 0 else len(data)
        yield Cut(position, until, found)
        position = until


def _block_at(data: bytes, position: int) -> Block | str:
    """The block there, or why there is none."""
    if not data.startswith(MAGIC, position):
        found = data[position : position + len(MAGIC)]
        if found[:-1] == MAGIC[:-1] and found[-1:].isdigit():
            known = MAGIC[-1:].decode()
            return f"its format is {found[-1:].decode()}, and this version of kavka reads format {known}"
        return "no block begins there"
    if len(data) - position < HEADER.size:
        return f"the file ends {len(data) - position} bytes into a block"
    _magic, size, crc, wall_ms, clock_ms = HEADER.unpack_from(data, position)
    payload = data[position + HEADER.size : position + HEADER.size + size]
    if size > MAX_PAYLOAD_BYTES:
        return f"a block of {size:,} bytes is longer than any"
    if len(payload) < size:
        return f"the file ends {len(data) - position:,} bytes into a block of {HEADER.size + size:,}"
    if zlib.crc32(payload, zlib.crc32(CLOCKS.pack(wall_ms, clock_ms))) != crc:
        return f"a block of {HEADER.size + size:,} bytes has another checksum"
    try:
        inflate = zlib.decompressobj()
        entries = inflate.decompress(payload, MAX_ENTRIES_BYTES)
    except zlib.error as problem:
        return f"a block cannot be inflated: {problem}"
    if not inflate.eof:
        return "a block is longer than any when it is inflated"
    return Block(wall_ms, clock_ms, entries)


def verdict_name(name: str) -> str:
    """What a judgement of a proposed ISR is called in every build: `ProposalRefused` was `Refused` once."""
    return name.removeprefix("Proposal")


class MalformedEntry(ValueError):
    """A whole block with something in it that nobody writes."""


def entries(data: bytes) -> Iterator[Entry]:
    """The entries of a block. Raises MalformedEntry."""
    position = 0
    try:
        while position < len(data):
            kind = data[position]
            if kind == FETCH:
                _, number, broker, *rest = FETCH_FIELDS.unpack_from(data, position)
                yield Fetch(number, BrokerId(broker), *rest)
                position += FETCH_FIELDS.size
            elif kind in (CHECK, RAISED):
                _, number, at_ms, end, high_watermark, flags = CHECK_FIELDS.unpack_from(data, position)
                yield Check(number, at_ms, end, high_watermark, flags, kind == RAISED)
                position += CHECK_FIELDS.size
            elif kind in (FACT, DECISION):
                _, size = TEXT.unpack_from(data, position)
                text = data[position + TEXT.size : position + TEXT.size + size]
                position += TEXT.size + size
                yield decode_decision(text) if kind == DECISION else _fact(text)
            else:
                raise MalformedEntry(f"an entry of type {kind} at {position}")
    except (ValueError, struct.error) as problem:
        raise MalformedEntry(f"at {position} of a block: {problem}") from problem


def _fact(text: bytes) -> Fact:
    fact = json.loads(text)
    if not isinstance(fact, dict) or not isinstance(fact.get("f"), str):
        raise MalformedEntry(f"no fact: {text[:80]!r}")
    return fact


# -- values in facts


def state_fields(state: LeaderAndIsr) -> list[Any]:
    return [state.leader, state.leader_epoch, list(state.isr), state.partition_epoch]


def state_of(fields: Sequence[Any]) -> LeaderAndIsr:
    leader, leader_epoch, isr, partition_epoch = fields
    return LeaderAndIsr(BrokerId(leader), leader_epoch, broker_ids(isr), partition_epoch)


def broker_ids(ids: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)


def snapshot_fields(snapshot: PartitionSnapshot) -> Fact:
    isr = snapshot.isr
    pending = None if isinstance(isr, CommittedIsr) else isr.proposal
    return {
        "role": snapshot.role,
        "state": state_fields(snapshot.state),
        "replicas": snapshot.replicas,
        "adding": snapshot.adding,
        "removing": snapshot.removing,
        "min": snapshot.min_insync_replicas,
        "start": snapshot.leader_epoch_start_offset,
        "isr": isr.isr,
        "joining": isr.joining if isinstance(isr, PendingExpand) else None,
        "leaving": isr.leaving if isinstance(isr, PendingShrink) else None,
        "pending": None if pending is None else _proposal_fields(pending),
        "in_flight": None if snapshot.in_flight is None else _proposal_fields(snapshot.in_flight),
        "same": snapshot.in_flight is pending,
        "newest": snapshot.newest_epoch,
        "remotes": snapshot.remotes,
        "floor": snapshot.hw_floor,
        "may": snapshot.may_propose_ms,
        "told": [(kind.value, at_ms, interval_ms) for kind, at_ms, interval_ms in snapshot.last_recorded],
        "untold": [(kind.value, count) for kind, count in snapshot.suppressed],
    }


def snapshot_of(fact: Fact, topic_partition: TopicPartition, topic_id: uuid.UUID) -> PartitionSnapshot:
    pending = _proposal_of(fact["pending"], topic_partition, topic_id)
    in_flight = pending if fact["same"] else _proposal_of(fact["in_flight"], topic_partition, topic_id)
    members = broker_ids(fact["isr"])
    isr: IsrState = CommittedIsr(members)
    if pending is not None and fact["joining"] is not None:
        isr = PendingExpand(members, BrokerId(fact["joining"]), pending)
    elif pending is not None:
        isr = PendingShrink(members, broker_ids(fact["leaving"]), pending)
    return PartitionSnapshot(
        fact["role"],
        state_of(fact["state"]),
        broker_ids(fact["replicas"]),
        broker_ids(fact["adding"]),
        broker_ids(fact["removing"]),
        fact["min"],
        fact["start"],
        isr,
        in_flight,
        fact["newest"],
        tuple(RemoteSnapshot(*each) for each in fact["remotes"]),
        fact["floor"],
        fact["may"],
        tuple((DecisionKind(kind), at_ms, interval_ms) for kind, at_ms, interval_ms in fact["told"]),
        tuple((DecisionKind(kind), count) for kind, count in fact["untold"]),
    )


def _proposal_fields(proposal: IsrProposal) -> Fact:
    return {
        "leader": proposal.leader,
        "leader_epoch": proposal.leader_epoch,
        "partition_epoch": proposal.partition_epoch,
        "new_isr": proposal.new_isr,
        "decision": encode_decision(RecordedDecision("", proposal.decision)).decode(),
    }


def _proposal_of(fact: Fact | None, topic_partition: TopicPartition, topic_id: uuid.UUID) -> IsrProposal | None:
    if fact is None:
        return None
    return IsrProposal(
        topic_partition,
        topic_id,
        BrokerId(fact["leader"]),
        fact["leader_epoch"],
        fact["partition_epoch"],
        tuple((BrokerId(broker_id), epoch) for broker_id, epoch in fact["new_isr"]),
        decode_decision(fact["decision"]).decision,
    )
