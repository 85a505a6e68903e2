"""A provider of OpenID Connect for tests, over TLS: its users need no password, and it answers as it is told.

It checks what a provider has to: the client, its secret, the address to return to, the code and its challenge.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import ssl
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from tests.kit.certificates import Authority
from tests.kit.token_issuer import claims, key_set, token

CLIENT, SECRET = "kavka-console", "canary:secret/4711"


class LoginProvider:
    """`told`: what discovery says otherwise; None leaves it out. `said`: claims of ID tokens otherwise. `make`: a token
    of claims. `kids`: its keys. `manner`: "well", "silent", "lies", or the status of all answers. `asked`: the paths
    that were asked for, `forms`: what the token endpoint was sent."""

    def __init__(self, directory: Path) -> None:
        self.told: dict[str, Any] = {}
        self.said: dict[str, Any] = {}
        self.make: Callable[[Mapping[str, Any]], str] = token
        self.kids: tuple[str, ...] = ("RS256-1",)
        self.manner = "well"
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.stopped = threading.Event()
        authority = Authority("authority of the provider")
        self.authorities = directory / "provider-ca.pem"
        self.authorities.write_text(authority.certificate, encoding="ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = authority.sign("provider", names=("localhost", "127.0.0.1")).write(directory / "provider.pem")
        context.load_cert_chain(file)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def issuer(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/realm"

    def settings(self, address: str, *, more: str = "", rules: str = "") -> str:
        """The table of a console at `address`."""
        return (
            f'[sso]\nissuer = "{self.issuer}"\nclient_id = "{CLIENT}"\nclient_secret = "{SECRET}"\n'
            f'address = "{address}"\nauthorities = "{self.authorities}"\nlabel = "Example"\n{more}\n'
            + (rules or '[[sso.rule]]\ngroup = "kafka-ops"\nrights = ["operator on *"]\n')
        )

    def discovery(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/logout",
            "code_challenge_methods_supported": ["plain", "S256"],
            **self.told,
        }
        return {name: value for name, value in found.items() if value is not None}

    def authorize(self, url: str) -> dict[str, str]:
        """Somebody logs in at the address that a console sends to: what the provider sends them back with."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert asked["client_id"] == CLIENT
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def way_back(self, url: str) -> str:
        """The address that the browser is sent to after the login."""
        asked = dict(parse_qsl(urlsplit(url).query))
        return f"{asked['redirect_uri']}?{urlencode(self.authorize(url))}"

    def exchange(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """What the token endpoint answers."""
        if authorization.startswith("Basic "):
            who = b64decode(authorization.removeprefix("Basic ")).decode().split(":")
            client, secret = map(unquote_plus, who)
        else:
            client, secret = form.get("client_id", ""), form.get("client_secret", "")
        if (client, secret) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(form.get("code", ""), None)
        challenge = urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if (
            asked is None
            or asked["redirect_uri"] != form.get("redirect_uri")
            or asked["code_challenge"] != challenge.decode()
            or form.get("grant_type") != "authorization_code"
        ):
            return 400, {"error": "invalid_grant"}
        said = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "u-1",
            "nonce": asked["nonce"],
            "preferred_username": "ada",
            "groups": ["staff", "kafka-ops"],
            "scope": None,
            **self.said,
        }
        return 200, {"access_token": "canary-access", "token_type": "Bearer", "id_token": self.make(claims(**said))}

    def keys(self) -> bytes:
        return key_set(*self.kids)

    def __enter__(self) -> LoginProvider:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(provider: LoginProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                pass  # The other side has gone.

        def do_GET(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/realm")
            if self._is_told_otherwise(path):
                return
            match path:
                case "/.well-known/openid-configuration":
                    self._answer(200, json.dumps(provider.discovery()).encode())
                case "/keys":
                    self._answer(200, provider.keys())
                case "/authorize":
                    page = f'<!doctype html><title>Provider</title><a href="?{urlsplit(self.path).query}&yes=1">Ada</a>'
                    if "yes" in parse_qs(urlsplit(self.path).query):
                        self._answer(302, b"", Location=provider.way_back(f"{provider.issuer}{self.path}"))
                    else:
                        self._answer(200, page.encode(), kind="text/html")
                case "/logout":
                    self._answer(200, b"<!doctype html><title>Provider</title>Logged out", kind="text/html")
                case _:
                    self._answer(404, b"")

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            if self._is_told_otherwise(urlsplit(self.path).path.removeprefix("/realm")):
                return
            provider.forms.append(form)
            status, answer = provider.exchange(form, self.headers.get("Authorization", ""))
            self._answer(status, json.dumps(answer).encode())

        def _is_told_otherwise(self, path: str) -> bool:
            provider.asked.append(path)
            if provider.manner == "silent":
                provider.stopped.wait()
            elif provider.manner == "lies":
                self._answer(200, b"<html>canary</html>")
            elif provider.manner != "well":
                self._answer(int(provider.manner), b"canary")
            return provider.manner != "well"

        def _answer(self, status: int, content: bytes, *, kind: str = "application/json", **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
