"""SCRAM: both sides prove that they know a password, or what was made of it, without sending it.

    -> client-first   n,[a=authzid],n=user,r=nonce[,extensions]
    <- server-first   r=nonce continued,s=salt,i=iterations
    -> client-final   c=channel binding,r=nonce continued,p=proof
    <- server-final   v=the server's signature

What a server keeps of a password, and how many iterations that must have, is in `scram_credentials`.

    I1  the nonce of client-final is the whole nonce of server-first (CVE-2024-56128: Kafka looked at its end only;
        librdkafka before 2.6.1 sends its own nonce twice, which 3.9 takes and 4 refuses)
    I2  an unknown user is answered as a known one, with a salt that stays the same, and fails at the proof (Kafka ends
        a step earlier, which tells who exists); so does one whose credential cannot be used. Whether somebody exists
        changes no length, no code and no text of an answer, and no hash that is computed for it
    I3  nobody acts for somebody else: an authzid other than the name is refused
    I4  a client is never made to compute for minutes: iterations are bounded
    I5  proofs and signatures are compared in constant time; passwords show in no repr
    I6  what is kept of a client between its messages has a bound: MAX_FIRST_BYTES
    I7  who logs in with a delegation token is the token's owner, for as long as the token is good; one whose time is
        over lets nobody in (Kafka lets in, and ends the connection at the next request)

Source: RFC 5802 and 7677, KIP-84, KIP-554; Kafka's ScramSaslServer, ScramMessages,
ScramFormatter. Kafka takes names of ASCII only, and knows no channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Protocol

from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.scram_credentials import DEFAULT_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism, salted

MAX_CLIENT_ITERATIONS: Final = 1_000_000
MAX_FIRST_BYTES: Final = 8 * 1024
"""Of a client's first message. It is kept until the proof came, of whoever calls; real ones have some hundred bytes."""

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


@dataclass(frozen=True, slots=True)
class Found:
    """The credential that a name has, or one that stands in for it. `is_usable`: false where its own has too few
    iterations. `owner`: the name is a delegation token's, and who has it is this user, for as long as `rest_ms` says
    when it is asked; negative: the token's time is over."""

    credential: ScramCredential
    is_known: bool = True
    is_usable: bool = True
    owner: str | None = None
    rest_ms: Callable[[], int] | None = None


class TokenLogins(Protocol):
    """Delegation tokens, with which clients log in as with a name and a password: the id and the HMAC (KIP-48)."""

    def salt(self, mechanism: ScramMechanism, token_id: str) -> bytes:
        """The salt of its credential, whether there is such a token or not."""
        ...

    def labour(self, mechanism: ScramMechanism, token_id: str) -> Callable[[], ScramCredential] | None:
        """What computes the credential, on any thread, whether there is such a token or not; None: it is at hand."""
        ...

    def find(self, mechanism: ScramMechanism, token_id: str, computed: ScramCredential | None) -> Found:
        """The token's credential, or the one that it would have. `computed` is what `labour` gave."""
        ...


class ScramServer:
    """The server's side of one exchange. `find` gives the credential of a user; `nonce` is fresh. `tokens`: None where
    there are none."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], Found],
        nonce: str,
        tokens: TokenLogins | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._tokens = tokens
        self._computed: ScramCredential | None = None
        self._is_by_token = False
        self._nonce = nonce
        self._client_nonce = ""
        self._user = ""
        self._first = ""
        self._channel = b""
        self._found: Found | None = None

    def step(self, token: bytes) -> Step:
        return self._answer_final(token) if self._first else self._answer_first(token)

    def labour(self, token: bytes) -> Callable[[], None] | None:
        """The credential of a delegation token is computed when it is needed first, which takes milliseconds: for the
        proof, and for every proof alike. Who fails there has made a guess, and cannot have it computed for long."""
        tokens = self._tokens
        if not self._is_by_token or tokens is None or not self._first or self._read_final(token) is None:
            return None
        compute = tokens.labour(self._mechanism, self._user)
        if compute is None:
            return None

        def work() -> None:
            self._computed = compute()

        return work

    def _answer_first(self, token: bytes) -> Step:
        message = _first(token)
        if message is None:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        user = self._user = _unescaped(message["name"])
        self._is_by_token = _names_token(message)
        if self._is_by_token:
            if self._tokens is None:
                raise AuthenticationFailed(FailureReason.UNKNOWN_TOKEN)
            salt, iterations = self._tokens.salt(self._mechanism, user), DEFAULT_ITERATIONS
        else:
            found = self._found = self._find(user)
            salt, iterations = found.credential.salt, found.credential.iterations
        if message["authzid"] is not None and _unescaped(message["authzid"]) != user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailed(FailureReason.OTHER_IDENTITY, told, self._known(self._found))
        self._client_nonce = message["nonce"]
        self._nonce = self._client_nonce + self._nonce
        answer = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}"
        self._first = f"{message['bare']},{answer}"
        self._channel = message["gs2"].encode()
        return Step(answer.encode())

    def _read_final(self, token: bytes) -> re.Match[str] | None:
        """The client's last message, if it belongs to this exchange, whatever its nonce is."""
        message = _CLIENT_FINAL.fullmatch(token.decode(errors="replace"))
        return message if message is not None and b64decode(message["channel"]) == self._channel else None

    def _answer_final(self, token: bytes) -> Step:
        message, found = self._read_final(token), self._found
        if message is None:
            raise AuthenticationFailed(FailureReason.MALFORMED, user=self._known(found))
        if not hmac.compare_digest(message["nonce"], self._nonce):
            is_twice = message["nonce"] == self._client_nonce + self._nonce
            reason = FailureReason.NONCE_TWICE if is_twice else FailureReason.MALFORMED
            raise AuthenticationFailed(reason, user=self._known(found))
        if found is None:
            assert self._tokens is not None, "without tokens their exchanges end at the first message"
            found = self._tokens.find(self._mechanism, self._user, self._computed)
        name, credential = self._mechanism.hash_name, found.credential
        signed = f"{self._first},{message['without_proof']}".encode()
        proof = b64decode(message["proof"])
        signature = hmac.digest(credential.stored_key, signed, name)
        padded = proof.ljust(len(signature), b"\0")
        client_key = bytes(one ^ other for one, other in zip(padded, signature, strict=False))
        is_right = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        known = self._known(found)
        if not found.is_known or not _is_usable(found) or not is_right or len(proof) != len(signature):
            raise AuthenticationFailed(self._reason(found), user=known)
        rest_ms = None if found.rest_ms is None else found.rest_ms()
        if rest_ms is not None and rest_ms < 0:
            raise AuthenticationFailed(FailureReason.EXPIRED_TOKEN, user=known)
        own = hmac.digest(credential.server_key, signed, name)
        return Step(b"v=" + b64encode(own), known, rest_ms, self._is_by_token)

    def _reason(self, found: Found) -> FailureReason:
        if not found.is_known:
            return FailureReason.UNKNOWN_TOKEN if self._is_by_token else FailureReason.UNKNOWN_USER
        return FailureReason.WRONG_PASSWORD if _is_usable(found) else FailureReason.UNUSABLE_CREDENTIAL

    def _known(self, found: Found | None) -> str | None:
        """Who the client says it is, where there is such a user or token. A token is looked for with its proof only."""
        if found is None or not found.is_known:
            return None
        return self._user if found.owner is None else found.owner


def _is_usable(found: Found) -> bool:
    return found.is_usable and found.credential.iterations >= MIN_ITERATIONS


def _first(token: bytes) -> re.Match[str] | None:
    return _CLIENT_FIRST.fullmatch(token.decode(errors="replace")) if len(token) <= MAX_FIRST_BYTES else None


def _names_token(message: re.Match[str]) -> bool:
    """Whether the name is a delegation token's. Of an extension that comes twice the last counts, as in Kafka."""
    parts = (part.partition("=") for part in str(message["extensions"]).split(","))
    return {name: value for name, _, value in parts}.get("tokenauth", "").lower() == "true"


def client_exchange(
    mechanism: ScramMechanism, user: str, password: str, nonce: str, *, is_by_token: bool = False
) -> Generator[bytes, bytes, None]:
    """The client's side: yields its messages, is sent the server's, and ends when the server has proved itself.

    `nonce`: fresh, printable, without a comma. `is_by_token`: user and password are the id and the HMAC, in base64, of
    a delegation token. Raises ValueError with what is wrong about the server's message.
    """
    name = mechanism.hash_name
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={escaped},r={nonce}{',tokenauth=true' if is_by_token else ''}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(server_first)
    try:
        combined, salt, iterations = fields["r"], b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"the broker's challenge {server_first!r} is not a SCRAM challenge") from error
    if not combined.startswith(nonce) or combined == nonce:
        raise ValueError("the broker's nonce does not continue the client's")
    if not 0 < iterations <= MAX_CLIENT_ITERATIONS:
        raise ValueError(f"the broker asks for {iterations} iterations, at most {MAX_CLIENT_ITERATIONS} are allowed")
    salted_password = salted(mechanism, password, salt, iterations)
    client_key = hmac.digest(salted_password, b"Client Key", name)
    without_proof = f"c={b64encode(b'n,,').decode()},r={combined}"
    message = f"{first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_final = (yield f"{without_proof},p={b64encode(proof).decode()}".encode()).decode(errors="replace")
    expected = b64encode(hmac.digest(hmac.digest(salted_password, b"Server Key", name), message, name))
    if not hmac.compare_digest(_fields(server_final).get("v", "").encode(), expected):
        raise ValueError("the broker does not know the password either: its signature is wrong")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
