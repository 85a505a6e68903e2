"""A peer that says what a test wants, in whatever pieces and however slowly: no server of HTTP would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def speaker(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that takes a request and then says what `speak` says. Yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.recv(65_536)
                    speak(peer)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
