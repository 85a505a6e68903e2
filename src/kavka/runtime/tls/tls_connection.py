"""A connection under TLS: what differs from one without, before and after its handshake.

Decides when a handshake begins, who is at the other end, and when plaintext is read though the socket is silent. It
must not know how keys are made (`tls_handshakes`), nor how records are encrypted (`tls_channel`).

    HELLO         bytes are held until the first record is whole; no SSLObject yet
    HANDSHAKING   the handshake thread has the SSLObject during a step, and the socket is not read meanwhile
    OPEN          `socket` is the TlsChannel; from here on it is a SocketConnection

I1  Nothing is answered in clear, whatever comes (T6): one log line says what it looks like, and the connection closes.
I2  The principal is set before the first request is read, and never again.
I3  Bytes that wait for the rest of their record, or for their turn on the handshake thread, count in the memory of
    half-received requests. Before its first answer a client has one record to say, its hello: no more is taken from it.
I4  A handshake goes on: more than UNANSWERED_RECORDS without an answer end it. OpenSSL passes over some kinds for ever,
    such as empty ones after a hello that announces early data, and each costs the loop as much as one that says much.
I5  A step of which it is known that it has no public-key work is done in the loop: in TLS 1.3, where no certificate is
    asked for, the client's last one. To hand it to the thread would take longer.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, Final

from kavka.errors import StorageError
from kavka.model import Chunk, FileSlice
from kavka.runtime.network.socket_connection import FILE_ERRORS, SliceTooShort, SocketConnection
from kavka.runtime.tls.tls_channel import SCRATCH_BYTES, TURN_BYTES, TlsChannel, TlsSession
from kavka.runtime.tls.tls_handshakes import step
from kavka.security.der import MalformedDer
from kavka.security.ssl_principal_rules import NoMatchingRule
from kavka.security.tls_records import (
    HEADER_BYTES,
    LARGEST_RECORD_BYTES,
    NotTls,
    ends_encrypted,
    require_hello,
    whole_records,
)

if TYPE_CHECKING:
    from kavka.protocol.connection import ConnectionContext
    from kavka.runtime.network.processor import Processor
    from kavka.runtime.tls.tls_handshakes import Handshakes, Outcome
    from kavka.runtime.tls.tls_listener import Spoken, TlsListener

HANDSHAKE: Final = 64
"""A reason to pause: a step of the handshake is under way."""
HELLO_BYTES: Final = HEADER_BYTES + LARGEST_RECORD_BYTES
"""What is received with one call before the handshake is over; before the first record is whole it is all."""
LAST_STEP_BYTES: Final = 1024
"""The same where the last step is done in the loop: it has 80 bytes, and a request may be behind it."""
UNANSWERED_RECORDS: Final = 64
"""A client's flight has up to six records, and some more where they are small: 16 KiB of certificates are 32 of 512."""
SLICE_BYTES: Final = 256 * 1024
"""How much of a file is read, encrypted and sent with one call."""
NO_TLS: Final = "connection closed: no TLS"
FAILED: Final = "connection closed: TLS handshake failed"
BROKEN: Final = "connection closed: broken TLS"


class TlsRoom:
    """What all TLS connections of one processor share."""

    __slots__ = ("handshakes", "received", "slices")

    def __init__(self, handshakes: Handshakes) -> None:
        self.handshakes = handshakes
        self.received = bytearray(SCRATCH_BYTES)
        self.slices = bytearray(SLICE_BYTES)


class TlsConnection(SocketConnection):
    """One socket with TLS, and the state of its protocol."""

    __slots__ = (
        "_channel",
        "_counted",
        "_held",
        "_is_last_step_light",
        "_listener",
        "_raw",
        "_reading_on",
        "_room",
        "_session",
        "_spoken",
        "_unanswered",
        "is_stepping",
    )

    turn_bytes = TURN_BYTES

    def __init__(
        self, processor: Processor, connected: socket.socket, context: ConnectionContext, listener: TlsListener
    ) -> None:
        super().__init__(processor, connected, context)
        self._raw = connected
        self._listener = listener
        self._room = listener.room(processor)
        self._session: TlsSession | None = None
        self._channel: TlsChannel | None = None
        self._held = b""
        self.is_stepping = False
        """Whether a step of its handshake is under way on the thread, or waits for its turn."""
        self._is_last_step_light = False
        self._unanswered = 0
        """Records of its handshake that came since something was answered."""
        self._counted = 0
        self._reading_on = False
        self._spoken: Spoken | None = None
        """Once the handshake is over, and counted among those that are open."""

    def start(self) -> None:
        self._room.handshakes.enter(self)
        super().start()

    @property
    def security_protocol(self) -> str:
        return "SSL" if self.protocol.gate is None else "SASL_SSL"

    @property
    def address(self) -> str:
        return self.protocol.context.client_host

    @property
    def is_unknown(self) -> bool:
        return self._channel is None or super().is_unknown

    @property
    def anonymous_bytes(self) -> int:
        return super().anonymous_bytes if self._channel is not None else self._counted

    def has_unread(self) -> bool:
        """Whether the client has sent something that is not read yet."""
        try:
            return bool(self._raw.recv(1, socket.MSG_PEEK))
        except OSError:
            return False  # Nothing, or it is gone.

    # Before the handshake is over

    def session(self) -> TlsSession:
        """OpenSSL's state, made when it is first asked for."""
        if self._session is None:
            self._session = TlsSession(self._listener.context, server_side=True)
        return self._session

    def _shake(self) -> None:
        view = memoryview(self._room.received)
        most = LAST_STEP_BYTES if self._is_last_step_light else HELLO_BYTES - len(self._held)
        try:
            count = self._raw.recv_into(view[:most])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not count:
            self.close()
            return
        self.active_at = self._processor.loop.time()
        data = self._held + bytes(view[:count])
        try:
            if self._session is None:
                require_hello(data, self.security_protocol)
            end, records = whole_records(data, len(data))
        except NotTls as error:
            self._refuse(NO_TLS, str(error))
            return
        self._unanswered += records
        self._held = data[end:]
        self._count_held(len(data))
        if end and self._is_last_step_light:
            self.on_step(step(self.session(), data[:end]))
        elif end:
            self.is_stepping = True
            self._room.handshakes.go_on(self, data[:end])

    def on_step(self, outcome: Outcome) -> None:
        """A step of the handshake is done."""
        if self.closed:
            return
        self.is_stepping = False
        self._count_held(len(self._held))
        if outcome.output and not self._send_whole(outcome.output):
            self.close()
            return
        if outcome.failure is not None:
            self._refuse(FAILED, failure_text(outcome.failure))
        elif outcome.is_over:
            self._open()
        elif not outcome.output and self._unanswered > UNANSWERED_RECORDS:
            self._refuse(FAILED, f"{self._unanswered} records in a row that do not go on with it")
        else:
            if outcome.output:
                self._unanswered = 0
            if ends_encrypted(outcome.output):
                self._is_last_step_light = self.session().tls.context.verify_mode is ssl.CERT_NONE
            self._room.handshakes.answered(self, is_step=bool(outcome.output))
            self.resume(HANDSHAKE)

    def on_late(self) -> None:
        """The time for the handshake is over."""
        self._processor.log.warning(
            "connection closed: no TLS handshake in time",
            listener=self.protocol.context.listener_name,
            setting="kavka.tls.handshake.timeout.ms",
        )
        self.close()

    def _open(self) -> None:
        session = self.session()
        try:
            self.protocol.context.principal = self._listener.principal(session.tls)
        except (NoMatchingRule, MalformedDer, ValueError) as error:
            self._refuse(FAILED, str(error))
            return
        self.socket = self._channel = TlsChannel(self._raw, session, self._room.received, self._held)
        self._held = b""
        counts = self._listener.counts(self._processor)
        counts.succeeded += 1
        self._spoken = self._listener.spoken(session.tls)
        counts.open[self._spoken] += 1
        self._room.handshakes.leave(self)
        self.resume(HANDSHAKE)

    def _send_whole(self, output: bytes) -> bool:
        """A handshake is smaller than a socket's buffer: where it does not fit, something is wrong with the client."""
        try:
            return self._raw.send(output) == len(output)
        except OSError:
            return False

    def _refuse(self, event: str, why: str) -> None:
        self._listener.counts(self._processor).failed += 1
        self._tell(event, why)
        self.close()

    def _tell(self, event: str, why: str) -> None:
        context = self.protocol.context
        self._processor.log.warning(
            event, client=f"{context.client_host}:{context.client_port}", listener=context.listener_name, why=why
        )

    # Reading

    def _on_readable(self) -> None:
        channel = self._channel
        if channel is None:
            if self.is_stepping:
                # Who speaks out of turn is read after the step. To leave the loop for each step would cost more.
                self.pause(HANDSHAKE)
            else:
                self._shake()
            return
        super()._on_readable()
        if not self.closed:
            self._count_held(len(channel.held))
            self._read_on()
        elif channel.failure is not None:
            self._tell(BROKEN, failure_text(channel.failure))

    def resume(self, reason: int) -> None:
        super().resume(reason)
        if self._channel is not None and not self.closed:
            self._read_on()

    def _read_on(self) -> None:
        """The socket is silent about what was received already (T1)."""
        if not self._reading_on and not self.paused and self._channel is not None and self._channel.has_more:
            self._reading_on = True
            self._processor.loop.call_soon(self._read_hidden)

    def _read_hidden(self) -> None:
        self._reading_on = False
        if not self.closed and not self.paused:
            self._on_readable()

    def _count_held(self, held: int) -> None:
        self._processor.pool.lent_bytes += held - self._counted
        self._counted = held

    # Writing

    def _send_piece(self, data: bytes) -> None:
        super()._send_piece(data)
        if not self.closed and self._sending is None and self._unsent():
            self._sending = deque()
            self._wait_writable()

    def _send_queue(self) -> None:
        if self._channel is not None:
            try:
                if not self._channel.flush():
                    self._wait_writable()
                    return
            except OSError:
                self.close()
                return
        super()._send_queue()

    def _on_sent(self) -> None:
        if self._unsent():
            self._wait_writable()  # The queue is empty, and ciphertext of it is not with the kernel yet (T2).
        else:
            super()._on_sent()

    def _wait_writable(self) -> None:
        unsent = self._unsent()
        self._sending_bytes += unsent
        super()._wait_writable()
        self._sending_bytes -= unsent

    def _unsent(self) -> int:
        return len(self._channel.unsent) if self._channel is not None else 0

    def _send_slice(self, queue: deque[Chunk], piece: FileSlice) -> tuple[int, int]:
        if self._channel is not None and not self._channel.flush():
            raise BlockingIOError
        wanted = min(piece.length, SLICE_BYTES)
        view = memoryview(self._room.slices)[:wanted]
        try:
            count = os.preadv(piece.file.fileno(), [view], piece.position)
        except OSError as error:
            if error.errno not in FILE_ERRORS:
                raise
            raise StorageError(piece.file.path, os.strerror(error.errno)) from error
        if not count:
            raise SliceTooShort(f"nothing at position {piece.position}, where {piece.length} bytes were expected")
        sent = self.socket.send(view[:count])
        if sent == piece.length:
            queue.popleft()
        else:
            queue[0] = FileSlice(piece.file, piece.position + sent, piece.length - sent)
        return sent, sent

    # Ending

    def close(self) -> None:
        if self.closed:
            return
        self._count_held(0)
        if self._spoken is not None:
            self._listener.counts(self._processor).open[self._spoken] -= 1
        super().close()
        self._room.handshakes.leave(self)


def failure_text(error: OSError) -> str:
    """What failed, in words that say on whose side to look."""
    if not isinstance(error, ssl.SSLError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _CERTIFICATE_REASONS.get(error.verify_code, error.verify_message)
        return f"the client's certificate cannot be verified: {why}"
    reason = error.reason or str(error)
    return _REASONS.get(reason, reason.lower().replace("_", " "))


_CERTIFICATE_REASONS: Final = {
    10: "it has expired, or that of the authority that signed it, which ssl.truststore.location may have",
    66: "its key is too short: RSA needs 2,048 bits",
    67: "the key of the authority that signed it is too short: RSA needs 2,048 bits",
    68: "it is signed with a digest that is too weak, such as SHA-1",
}
"""By OpenSSL's numbers (X509_V_ERR_*), where its own words would send a reader to the wrong certificate, or nowhere."""
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and ssl.client.auth=required asks for one",
    "NO_SHARED_CIPHER": "client and listener have no cipher suite in common, or the listener has no certificate",
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that ssl.enabled.protocols names",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the listener's certificate (alert unknown_ca)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refused the listener's certificate (alert certificate_unknown): it "
    "does not trust its issuer, or expects another host name",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refused the listener's certificate (alert bad_certificate)",
}
