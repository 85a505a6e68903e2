"""A browser of sorts for ASGI applications, without sockets: one request in, the whole answer out, cookies kept."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from starlette.types import ASGIApp, Message


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class AsgiClient:
    """Sends to `app` as from `host`; `cookies` are those that a browser would have by now."""

    def __init__(self, app: ASGIApp, *, host: str = "127.0.0.1:8090", address: str = "127.0.0.1") -> None:
        self.app = app
        self.host = host
        self.address = address
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        kept = {"content-type": "application/x-www-form-urlencoded", **headers}
        return self.send("POST", path, body=urlencode(form).encode(), headers=kept)

    def send(self, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return asyncio.run(self.exchange(method, path, body=body, headers=headers))

    async def exchange(
        self, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request, on the running event loop. A header of None-like '' is left out."""
        sent = {"host": self.host, "content-length": str(len(body)), **(headers or {})}
        if self.cookies:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        where, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(where),
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": (self.address, 50_000),
            "server": ("127.0.0.1", 8090),
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        begun: list[Message] = []
        chunks: list[bytes] = []

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await asyncio.Event().wait()
            raise AssertionError("nothing more comes")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
            else:
                chunks.append(message.get("body", b""))

        await self.app(scope, receive, send)
        found: dict[str, str] = {}
        for name, value in begun[0]["headers"]:
            found[name.decode()] = value.decode("latin-1")
            if name == b"set-cookie":
                cookie, _, _ = value.decode().partition(";")
                cookie_name, _, cookie_value = cookie.partition("=")
                self.cookies[cookie_name] = cookie_value
        return Answer(begun[0]["status"], found, b"".join(chunks))
