from __future__ import annotations

from struct import pack

from kavka.errors import ProtocolViolation
from kavka.model import Chunk, FileSlice
from kavka.protocol.connection import (
    CLOSE_CONNECTION,
    JOINED_BYTES,
    NO_RESPONSE,
    ConnectionContext,
    Request,
    Response,
    ServerConnection,
    silence,
)
from kavka.protocol.frames import BufferPool
from tests.kit.garbage import left_behind

API_VERSIONS = 18
METADATA = 3


def request_bytes(correlation_id: int, body: bytes = b"", *, api_key: int = API_VERSIONS, version: int = 0) -> bytes:
    header = pack(">hhih", api_key, version, correlation_id, 4) + b"test"
    if api_key == METADATA and version >= 9:
        header += b"\0"
    return pack(">i", len(header) + len(body)) + header + body


def connection(*, maximum: int = 100_000) -> ServerConnection:
    context = ConnectionContext("127.0.0.1:9092-127.0.0.1:50000-0", "127.0.0.1", 50000, "PLAINTEXT")
    return ServerConnection(context, BufferPool(), maximum)


def receive(server: ServerConnection, data: bytes, *, limit: int = 100) -> list[Request]:
    shared = memoryview(bytearray(max(len(data), 1)))
    shared[: len(data)] = data
    return server.received(shared, len(data), limit)


def sent(server: ServerConnection) -> bytes:
    pieces: list[Chunk] = server.take_output()
    return b"".join(piece.tobytes() if isinstance(piece, FileSlice) else bytes(piece) for piece in pieces)


def answer(correlation_id: int, body: bytes) -> bytes:
    return pack(">ii", len(body) + 4, correlation_id) + body


def test_a_request_has_its_header_its_body_and_who_sent_it() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(7, b"body"))
    assert (request.header.api_key, request.header.api_version, request.header.correlation_id) == (API_VERSIONS, 0, 7)
    assert request.header.client_id == "test"
    assert bytes(request.body) == b"body"
    assert request.context is server.context
    assert request.context.principal == "User:ANONYMOUS"


def test_an_answer_at_once_carries_length_and_correlation_id() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(7))
    server.answer(request.header, Response((b"ab", bytearray(b"cd"), memoryview(b"ef"))))
    assert server.output_bytes == 14
    assert sent(server) == answer(7, b"abcdef")
    assert server.output_bytes == 0


def test_a_flexible_answer_has_tagged_fields_in_its_header_but_never_that_of_api_versions() -> None:
    server = connection()
    (flexible,) = receive(server, request_bytes(1, api_key=METADATA, version=12))
    server.answer(flexible.header, Response((b"x",)))
    assert sent(server) == pack(">iib", 6, 1, 0) + b"x"
    (api_versions,) = receive(server, request_bytes(2, b"\0\0\0\0", version=0))
    server.answer(api_versions.header._replace(api_version=3), Response((b"x",)))
    assert sent(server) == answer(2, b"x")


def test_a_small_answer_is_one_piece_and_a_large_one_is_not_copied() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(7))
    server.answer(request.header, Response((b"x" * JOINED_BYTES,)))
    assert len(server.take_output()) == 1
    large = b"x" * (JOINED_BYTES + 1)
    server.answer(request.header, Response((large,)))
    assert server.take_output()[1] is large


def test_answers_completed_in_any_order_leave_in_the_order_of_the_requests() -> None:
    server = connection()
    requests = receive(server, b"".join(request_bytes(index) for index in range(4)))
    slots = [server.defer(request.header) for request in requests[:3]]
    server.answer(requests[3].header, Response((b"3",)))
    server.complete(slots[2], Response((b"2",)))
    assert server.take_output() == []
    assert server.in_flight == 4
    server.complete(slots[0], Response((b"0",)))
    assert sent(server) == answer(0, b"0")
    assert server.in_flight == 3
    server.complete(slots[1], Response((b"1",)))
    assert sent(server) == answer(1, b"1") + answer(2, b"2") + answer(3, b"3")
    assert server.in_flight == 0


def test_no_response_keeps_its_place_and_sends_nothing() -> None:
    server = connection()
    requests = receive(server, b"".join(request_bytes(index) for index in range(3)))
    server.answer(requests[0].header, NO_RESPONSE)
    assert server.output_bytes == 0
    slot = server.defer(requests[1].header)
    server.answer(requests[2].header, Response((b"2",)))
    server.complete(slot, NO_RESPONSE)
    assert sent(server) == answer(2, b"2")


def test_an_empty_answer_is_an_answer() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(5))
    server.answer(request.header, Response(()))
    assert sent(server) == answer(5, b"")


def test_closing_waits_for_its_turn_and_nothing_leaves_after_it() -> None:
    server = connection()
    requests = receive(server, b"".join(request_bytes(index) for index in range(3)))
    slot = server.defer(requests[0].header)
    server.answer(requests[1].header, CLOSE_CONNECTION)
    server.answer(requests[2].header, Response((b"2",)))
    assert not server.closing
    server.complete(slot, Response((b"0",)))
    assert server.closing
    assert sent(server) == answer(0, b"0")


def test_the_end_comes_after_the_answers_that_are_owed() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(0))
    slot = server.defer(request.header)
    server.end()
    assert not server.closing
    server.complete(slot, Response((b"0",)))
    assert server.closing
    assert sent(server) == answer(0, b"0")
    idle = connection()
    idle.end()
    assert idle.closing


def test_requests_before_a_bad_header_are_good() -> None:
    server = connection()
    bad = pack(">ihh", 4, API_VERSIONS, 0)
    requests = receive(server, request_bytes(1) + request_bytes(2) + bad + request_bytes(3))
    assert [request.header.correlation_id for request in requests] == [1, 2]
    assert isinstance(server.violation, ProtocolViolation)


def test_who_sends_no_request_leaves_nothing_to_the_garbage_collector() -> None:
    """Each left its connection, with what that holds, until the next collection."""

    def misled() -> None:
        server = connection()
        assert receive(server, pack(">i", 8) + b"\xff" * 8) == []
        assert server.violation is not None
        server.close()

    assert left_behind(ServerConnection, misled) == 0


def test_a_frame_over_the_limit_is_a_violation() -> None:
    server = connection(maximum=50)
    requests = receive(server, request_bytes(1) + request_bytes(2, bytes(100)))
    assert len(requests) == 1
    assert "socket.request.max.bytes" in str(server.violation)


def test_the_longest_mute_of_the_answers_counts() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(5))
    server.answer(request.header, Response((b"a",), mute_ms=100))
    server.answer(request.header, Response((b"b",), mute_ms=30))
    assert server.mute_ms == 100


def test_an_answer_that_is_not_sent_mutes_as_well() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(5))
    server.answer(request.header, silence(70))
    assert (server.mute_ms, server.output_bytes) == (70, 0)
    assert silence(0) is NO_RESPONSE


def test_an_answer_after_the_close_is_dropped() -> None:
    server = connection()
    (request,) = receive(server, request_bytes(5))
    slot = server.defer(request.header)
    server.close()
    server.complete(slot, Response((b"late",)))
    server.answer(request.header, Response((b"late",)))
    assert server.take_output() == []


def test_a_file_slice_counts_with_its_length() -> None:
    class File:
        def fileno(self) -> int:
            return -1

        def read_at(self, position: int, length: int) -> bytes:
            return b"0123456789"[position : position + length]

    server = connection()
    (request,) = receive(server, request_bytes(5))
    server.answer(request.header, Response((b"ab", FileSlice(File(), 2, 3))))
    assert server.output_bytes == 8 + 5
    assert sent(server) == answer(5, b"ab234")


class Waiting:
    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


def test_what_a_connection_holds_is_cancelled_when_it_ends_and_nothing_else_is() -> None:
    context = ConnectionContext("id", "127.0.0.1", 50000, "PLAINTEXT")
    held, released, late = Waiting(), Waiting(), Waiting()
    context.hold(held)
    context.hold(released)
    context.release(released)
    context.end()
    context.hold(late)
    context.release(late)
    assert (held.cancelled, released.cancelled, late.cancelled) == (1, 0, 1)
