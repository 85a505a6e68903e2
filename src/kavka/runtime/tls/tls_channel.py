"""A TLS channel: a socket whose bytes are encrypted, behind the calls that connections make of a socket.

Decides when ciphertext is read, how much is encrypted at a time, and what an error looks like. It must not know
what is said, nor how the handshake went: it begins when that is over.

I1  (T1) No hidden data: `has_more` tells that there is plaintext though the socket is silent. Whoever reads asks it.
I2  (T2) `unsent` is ciphertext that the kernel did not take. While there is any, nothing more is encrypted, and a
    connection is not closed for having nothing left to say.
I3  (T3) OpenSSL is given whole records only; the rest waits in `held`.
I4  (T5) One call encrypts at most TURN_BYTES, and decrypts what one receive of RECEIVE_BYTES brought.
I5  (T7) Records that bring no plaintext are counted: FRUITLESS_RECORDS in a row are an error (key updates, empty ones).
    Key updates among others ask for answers, which nobody needs to take: more than OWED_BYTES of them are an error.

`ssl.SSLObject` over `MemoryBIO` and not `SSLSocket`: no socket call is made inside OpenSSL, so that a step of a
handshake may run on another thread and half a record costs nothing. In a bare loop it takes 15 to 25 % less CPU, too.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from kavka.security.tls_records import LARGEST_RECORD_BYTES, NotTls, whole_records

TURN_BYTES: Final = 1024 * 1024
RECEIVE_BYTES: Final = 64 * 1024
"""Ciphertext received with one call; 256 KiB are slower (the second-level cache)."""
SCRATCH_BYTES: Final = RECEIVE_BYTES + LARGEST_RECORD_BYTES + 5
FRUITLESS_RECORDS: Final = 16
OWED_BYTES: Final = 16 * 1024
"""Answers of OpenSSL's own that the other side did not take. One to a key update has 27 bytes, and a peer needs such an
update after gigabytes."""
_JOINED_BYTES: Final = 256 * 1024
"""So many bytes of several pieces are joined before they are encrypted."""

Bytes = bytes | bytearray | memoryview


class TlsSession:
    """OpenSSL's state of one connection, with what it is fed and what it puts out."""

    __slots__ = ("incoming", "outgoing", "tls")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_side=server_side, server_hostname=server_hostname
        )

    def step(self, records: bytes) -> tuple[bool, bytes]:
        """Goes on with the handshake; says whether it is over, and what to send. Raises ssl.SSLError.

        What is to be sent after an error, an alert, is left in `outgoing`.
        """
        self.incoming.write(records)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False, self.outgoing.read()
        return True, self.outgoing.read()


class TlsChannel:
    """One connection after its handshake. `scratch` is for ciphertext that comes in, SCRATCH_BYTES shared by many."""

    __slots__ = (
        "_fruitless",
        "_incoming",
        "_outgoing",
        "_over",
        "_owed_bytes",
        "_scratch",
        "_socket",
        "_tls",
        "failure",
        "held",
        "unsent",
    )

    def __init__(self, connected: socket.socket, session: TlsSession, scratch: bytearray, held: bytes = b"") -> None:
        self._socket = connected
        self._tls = session.tls
        self._incoming = session.incoming
        self._outgoing = session.outgoing
        self._scratch = scratch
        self._fruitless = 0
        self._over = False
        self._owed_bytes = 0
        self.held = held
        """The beginning of a record that is not whole yet."""
        self.unsent: memoryview | bytes = b""
        self.failure: OSError | None = None
        """What was wrong with the records that came; None for what the network does."""

    @property
    def has_more(self) -> bool:
        """Whether there are whole records, or plaintext, that were not read yet."""
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def recv_into(self, target: memoryview, /) -> int:
        """Plaintext into `target`; 0 at the end. Raises BlockingIOError where there is none yet, else OSError."""
        filled = self._decrypt(target)
        if filled or self._over:
            return filled
        records = self._receive()
        if records < 0:
            return 0
        filled = self._decrypt(target)
        if filled:
            self._fruitless = 0
            return filled
        if self._over:
            return 0
        self._fruitless += records
        if self._fruitless >= FRUITLESS_RECORDS:
            self.failure = ConnectionAbortedError(f"{self._fruitless} TLS records in a row without any data")
            raise self.failure
        raise BlockingIOError

    def _receive(self) -> int:
        """Takes ciphertext from the socket; how many whole records came, -1 at the end."""
        held = self.held
        begun = len(held)
        view = memoryview(self._scratch)
        view[:begun] = held
        count = self._socket.recv_into(view[begun : begun + RECEIVE_BYTES])
        if not count:
            return -1
        end = begun + count
        try:
            position, records = whole_records(self._scratch, end)
        except NotTls as error:
            self.failure = ConnectionAbortedError(str(error))
            raise self.failure from error
        if position:
            self._incoming.write(view[:position])
        self.held = bytes(view[position:end])
        return records

    def _decrypt(self, target: memoryview) -> int:
        filled, size = 0, len(target)
        tls, incoming = self._tls, self._incoming
        try:
            # Nothing is read for a second time to learn that there is no more: the exception that says so takes longer
            # than the record of a small request.
            while filled < size and (incoming.pending or tls.pending()):
                count = tls.read(size - filled, target[filled:])
                if not count:
                    self._over = True
                    break
                filled += int(count)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._over = True
        except ssl.SSLError as error:
            self.failure = error
            with suppress(OSError):
                self._push()  # the alert
            raise
        if self._outgoing.pending:
            self._answer()
        return filled

    def _answer(self) -> None:
        """Sends what OpenSSL has to say about what came."""
        owed_bytes = self._owed_bytes + self._outgoing.pending
        self._push()
        self._owed_bytes = owed_bytes if self.unsent else 0
        if self._owed_bytes > OWED_BYTES:
            self.failure = ConnectionAbortedError("key updates whose answers are not taken")
            raise self.failure

    def send(self, data: Bytes, flags: int = 0, /) -> int:
        """Encrypts and sends; how much of `data` was taken. Raises BlockingIOError while there is `unsent`."""
        if self.unsent and not self.flush():
            raise BlockingIOError
        size = min(len(data), TURN_BYTES)
        write = self._tls.write
        position = write(data if size == len(data) else memoryview(data)[:size])
        if position < size:
            view = memoryview(data)
            while position < size:
                position += write(view[position:size])
        self._push(flags)
        return size

    def sendmsg(
        self, pieces: Iterable[Bytes], ancillary: Iterable[tuple[int, int, bytes]] = (), flags: int = 0, /
    ) -> int:
        """As `send`, of the first pieces."""
        taken: list[Bytes] = []
        size = 0
        for piece in pieces:
            if size and size + len(piece) > _JOINED_BYTES:
                break
            taken.append(piece)
            size += len(piece)
        return self.send(taken[0] if len(taken) == 1 else b"".join(taken), flags)

    def flush(self) -> bool:
        """Sends what the kernel did not take before; whether all of it has left."""
        if self.unsent:
            try:
                sent = self._socket.send(self.unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self.unsent = self.unsent[sent:]
        return not self.unsent

    def _push(self, flags: int = 0) -> None:
        data = self._outgoing.read()
        if self.unsent:
            self.unsent = bytes(self.unsent) + data
            return
        try:
            sent = self._socket.send(data, flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self.unsent = memoryview(data)[sent:]

    def getsockopt(self, level: int, option: int, /) -> int:
        return self._socket.getsockopt(level, option)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Says goodbye where that is possible at once, and closes the socket."""
        if not self.unsent:
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            with suppress(OSError):
                self._socket.send(self._outgoing.read())
        self._socket.close()
