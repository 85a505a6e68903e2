"""The mechanism DIGEST-MD5 as ZooKeeper uses it, both sides: who knows a password, shown without sending it.

Decides whether a message is well-formed and proves what it must. Must not know connections. It is old and weak: whoever
listens can guess the password at leisure, so that it belongs under TLS. Names and passwords are ASCII here: beyond
that, implementations disagree about what is hashed.

I1  Whatever the other side sends, the outcome is a value or a SaslFailed, and no message of it contains a password.
I2  The server compares digests in a time that does not tell where they differ, and does the same work for a user that
    does not exist.
I3  A client acts for itself only: an authorization id that is not its own name is refused.
I4  Each side has a nonce of its own in every exchange, and a server's is used once.

Source: RFC 2831; ZooKeeper's SecurityUtils and SaslServerCallbackHandler for its names of service and realm.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kavka.security.secret import Secret

REALM: Final = "zk-sasl-md5"
URI: Final = f"zookeeper/{REALM}"
MAX_MESSAGE_BYTES: Final = 4096
"""What RFC 2831 allows a response to have; a challenge may have half of it."""
NONCE_BYTES: Final = 20
_DIRECTIVE: Final = re.compile(
    r'[ \t\r\n]*([a-zA-Z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",\s=]+))[ \t\r\n]*(?:,|$)', re.DOTALL
)
_NUMBER: Final = "00000001"
_NOBODY: Final = Secret("")


class SaslFailed(Exception):
    """The exchange has failed, with the reason."""


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """Who a client is. `new_nonce` gives random text."""

    username: str
    password: Secret
    new_nonce: Callable[[], str]

    async def log_in(self, host: str, ask: Callable[[bytes], Awaitable[bytes]]) -> None:
        """One exchange with a server; `ask` sends a token, and gives the server's. Raises SaslFailed."""
        client = DigestClient(self.username, self.password, self.new_nonce())
        response = client.respond(await ask(b""))
        client.finish(await ask(response))


class DigestClient:
    """A client's side. `nonce` is random text of its own."""

    def __init__(self, username: str, password: Secret, nonce: str) -> None:
        self._username = username
        self._password = password
        self._cnonce = nonce
        self._expected = ""

    def respond(self, challenge: bytes) -> bytes:
        """The answer to the server's challenge. Raises SaslFailed."""
        found = directives(challenge)
        nonce = found.get("nonce", "")
        if not nonce or found.get("algorithm") != "md5-sess":
            raise SaslFailed("the server's challenge has no nonce, or another algorithm than md5-sess")
        if "auth" not in found.get("qop", "auth").split(","):
            raise SaslFailed("the server wants more than authentication (qop)")
        realm = found.get("realm", "")
        values = _Values(self._username, realm, self._password, nonce, self._cnonce, self._username)
        self._expected = _digest(":", values)
        fields = [
            "charset=utf-8",
            f"username={_quoted(self._username)}",
            f"realm={_quoted(realm)}",
            f"nonce={_quoted(nonce)}",
            f"nc={_NUMBER}",
            f"cnonce={_quoted(self._cnonce)}",
            f"digest-uri={_quoted(URI)}",
            "maxbuf=65536",
            f"response={_digest('AUTHENTICATE:', values)}",
            "qop=auth",
            f"authzid={_quoted(self._username)}",
        ]
        return ",".join(fields).encode("ascii", "strict")

    def finish(self, message: bytes) -> None:
        """Raises SaslFailed unless the server has proved that it knows the password, too."""
        proof = directives(message).get("rspauth", "")
        if not self._expected or not hmac.compare_digest(proof, self._expected):
            raise SaslFailed("the server does not know the password: it is not the one that it seems to be")


class DigestServer:
    """A server's side of one exchange. `nonce` is random text that was never used before."""

    def __init__(self, users: Mapping[str, Secret], nonce: str) -> None:
        self._users = users
        self._nonce = nonce

    def challenge(self) -> bytes:
        fields = [f"realm={_quoted(REALM)}", f"nonce={_quoted(self._nonce)}", 'qop="auth"']
        return ",".join([*fields, "charset=utf-8", "algorithm=md5-sess"]).encode()

    def answer(self, response: bytes) -> tuple[str, bytes]:
        """Who the client is, and the proof that this server knows the password, too. Raises SaslFailed."""
        if not self._nonce:
            raise SaslFailed("the exchange is over")
        nonce, self._nonce = self._nonce, ""
        found = directives(response)
        username, cnonce = found.get("username", ""), found.get("cnonce", "")
        wanted = {"nonce": nonce, "nc": _NUMBER, "realm": REALM, "digest-uri": URI, "qop": "auth"}
        wrong = [name for name, value in wanted.items() if found.get(name, "auth" if name == "qop" else "") != value]
        if not cnonce:
            wrong.append("cnonce")
        authzid = found.get("authzid", "")
        if authzid not in ("", username):
            wrong.append("authzid")
        if wrong:
            raise SaslFailed(f"the client's response has no {', '.join(wrong)} that belongs here")
        password = self._users.get(username)
        values = _Values(username, REALM, password or _NOBODY, nonce, cnonce, authzid)
        is_right = hmac.compare_digest(found.get("response", "").lower(), _digest("AUTHENTICATE:", values))
        if not is_right or not password:
            raise SaslFailed("unknown user, or wrong password")
        return username, f"rspauth={_digest(':', values)}".encode()


def directives(message: bytes) -> dict[str, str]:
    """The name=value pairs of a message. Raises SaslFailed."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslFailed(f"a message of {len(message)} bytes, at most {MAX_MESSAGE_BYTES}")
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise SaslFailed("a message that is not ASCII") from None
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise SaslFailed("a message that is not a list of name=value")
        name = match[1].lower()
        if name in found:
            raise SaslFailed(f"{name} twice in one message")
        found[name] = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
        at = match.end()
    return found


class _Values(NamedTuple):
    username: str
    realm: str
    password: Secret
    nonce: str
    cnonce: str
    authzid: str


def _digest(prefix: str, values: _Values) -> str:
    username, realm, password, nonce, cnonce, authzid = values
    secret = _md5(f"{username}:{realm}:{password.reveal()}".encode())
    first = secret + f":{nonce}:{cnonce}".encode() + (f":{authzid}".encode() if authzid else b"")
    hashes = f"{_md5(first).hex()}:{nonce}:{_NUMBER}:{cnonce}:auth:{_md5(f'{prefix}{URI}'.encode()).hex()}"
    return _md5(hashes.encode()).hex()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
