"""However the bytes are cut and the answers are completed, the requests are the same and the answers in order."""

from __future__ import annotations

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from kavka.model import Chunk, FileSlice
from kavka.protocol.connection import ConnectionContext, Response, ServerConnection
from kavka.protocol.frames import BufferPool

BODIES = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(1000, 20_000).map(lambda size: bytes([size & 255]) * size)),
    min_size=1,
    max_size=12,
)


def request_bytes(correlation_id: int, body: bytes) -> bytes:
    header = pack(">hhih", 18, 0, correlation_id, -1)
    return pack(">i", len(header) + len(body)) + header + body


class Peer:
    """A server connection with what a processor does around it, and a socket that gives bytes in chosen steps."""

    def __init__(self, shared_bytes: int) -> None:
        self.server = ServerConnection(ConnectionContext("id", "host", 1, "PLAINTEXT"), BufferPool(), 1 << 20)
        self.shared = bytearray(shared_bytes)
        self.seen: list[tuple[int, bytes]] = []

    def receive(self, data: bytes, steps: list[int], limits: list[int]) -> None:
        turn = 0
        while data and self.server.violation is None:
            shared = memoryview(self.shared)
            target = self.server.reader.target(shared)
            count = min(len(data), len(target), steps[turn % len(steps)])
            target[:count] = data[:count]
            data = data[count:]
            requests = self.server.received(shared, count, limits[turn % len(limits)])
            while requests or self.server.reader.backlog is not None:
                self.seen.extend((request.header.correlation_id, bytes(request.body)) for request in requests)
                turn += 1
                requests = self.server.more(limits[turn % len(limits)])
            turn += 1
            del target
            self.server.reader.release()
            self.shared[:] = b"\xee" * len(self.shared)


@given(
    BODIES,
    st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(64, 9000),
)
def test_any_cut_of_the_stream_gives_the_same_requests(
    bodies: list[bytes], steps: list[int], limits: list[int], shared_bytes: int
) -> None:
    data = b"".join(request_bytes(index, body) for index, body in enumerate(bodies))
    cut = Peer(shared_bytes)
    cut.receive(data, steps, limits)
    assert cut.seen == list(enumerate(bodies))
    assert cut.server.reader.held_bytes == 0


@given(BODIES.map(lambda bodies: [body[:60] for body in bodies]), st.integers(1, 3))
def test_byte_by_byte_is_as_good_as_whole(bodies: list[bytes], limit: int) -> None:
    data = b"".join(request_bytes(index, body) for index, body in enumerate(bodies))
    single, whole = Peer(512), Peer(1 << 16)
    single.receive(data, [1], [limit])
    whole.receive(data, [len(data)], [limit])
    assert single.seen == whole.seen == list(enumerate(bodies))


@given(st.binary(min_size=1, max_size=400), st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_garbage_gives_the_same_requests_and_the_same_end_however_it_is_cut(garbage: bytes, steps: list[int]) -> None:
    whole, cut = Peer(1 << 16), Peer(100)
    whole.receive(garbage, [len(garbage)], [50])
    cut.receive(garbage, steps, [2])
    assert cut.seen == whole.seen
    assert type(cut.server.violation) is type(whole.server.violation)


@given(st.data(), st.integers(1, 20))
def test_answers_leave_in_order_whatever_the_order_of_completion(data: st.DataObject, count: int) -> None:
    peer = Peer(1 << 16)
    raw = b"".join(request_bytes(index, b"") for index in range(count))
    shared = memoryview(bytearray(raw))
    requests = peer.server.received(shared, len(raw), count)
    at_once = data.draw(st.sets(st.integers(0, count - 1)))
    slots = {}
    for index, request in enumerate(requests):
        if index in at_once:
            peer.server.answer(request.header, Response((b"%d" % index,)))
        else:
            slots[index] = peer.server.defer(request.header)
    output: list[Chunk] = list(peer.server.take_output())
    for index in data.draw(st.permutations(sorted(slots))):
        peer.server.complete(slots[index], Response((b"%d" % index,)))
        output.extend(peer.server.take_output())
    wanted = b"".join(pack(">ii", 4 + len(b"%d" % index), index) + b"%d" % index for index in range(count))
    assert b"".join(bytes(piece) for piece in output if not isinstance(piece, FileSlice)) == wanted
    assert peer.server.in_flight == 0
