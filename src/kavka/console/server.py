"""ConsoleServer: the application on its port, for as long as it is wanted.

Decides how the port is taken (before anything is opened, so that a port that is taken costs nothing), and what it is
called. What ends the server is in `runtime.http_server`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kavka.console.app import create_app
from kavka.runtime.http.http_server import BACKLOG, configuration, serve_application
from kavka.runtime.loop import new_event_loop
from kavka.runtime.network.ports import listen_or_elsewhere
from kavka.runtime.tls.server_tls import ServerTls

if TYPE_CHECKING:
    from kavka.console.settings import ConsoleSettings

COLLECT_AFTER: Final = (50_000, 20, 100)
"""New objects before the collector looks at the youngest, and how many of its rounds make one of the older ones'."""


def bind(host: str, port: int, *, elsewhere: bool = False) -> socket.socket:
    """A socket that listens there; with `elsewhere` on any port where that one is taken. Raises AddressUnavailable."""
    return listen_or_elsewhere(host.strip("[]"), port, elsewhere=elsewhere, backlog=BACKLOG, what="the console")


def address_of(settings: ConsoleSettings, bound: socket.socket) -> str:
    """What a browser opens."""
    host = settings.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    return f"{'http' if settings.tls is None else 'https'}://{shown}:{bound.getsockname()[1]}/"


def serve(
    settings: ConsoleSettings, bound: socket.socket, *, on_ready: Callable[[str], None], while_input: bool = False
) -> None:
    """Serves until a signal comes, or with `while_input` until standard input ends.

    Raises ConfigError where nobody could log in; sqlite3.Error and OSError where its files cannot be had.
    """
    tls = None if settings.tls is None else ServerTls(settings.tls)
    app = create_app(settings)
    serving = serve_application(
        configuration(app),
        bound,
        tls=tls,
        on_ready=lambda: on_ready(address_of(settings, bound)),
        on_stopping=app.state.console.closing.set,
        while_input=while_input,
    )

    # Snapshots of ten thousand partitions are a hundred thousand objects without cycles, which the collector would look
    # through again and again, a third of a second each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving)
