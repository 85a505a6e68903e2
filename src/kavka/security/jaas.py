"""JAAS text: the login of one mechanism of one listener, as Kafka's sasl.jaas.config has it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="..." user_alice="...";

Decides what such a text means. The class of a login module is a word here that names a mechanism; no class is loaded,
and a module or option that kavka does not know is refused: it would not do what it says.

    I1  no message contains a value: it may be a password

Source: Kafka's JaasConfig, which reads with Java's StreamTokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kavka.security.secret import Secret

_PACKAGE: Final = "org.apache.kafka.common.security"
MODULES: Final = {
    f"{_PACKAGE}.plain.PlainLoginModule": "PLAIN",
    "PlainLoginModule": "PLAIN",
    f"{_PACKAGE}.scram.ScramLoginModule": "SCRAM",
    "ScramLoginModule": "SCRAM",
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
    "OAuthBearerLoginModule": "OAUTHBEARER",
    "com.sun.security.auth.module.Krb5LoginModule": "GSSAPI",
    "Krb5LoginModule": "GSSAPI",
}
"""Login modules that kavka knows, and what they are for."""
ZOOKEEPER_MODULES: Final = {"org.apache.zookeeper.server.auth.DigestLoginModule": "DIGEST"}
"""Those of a ZooKeeper server's users."""
ZOOKEEPER_LOGIN_MODULES: Final = {
    **ZOOKEEPER_MODULES,
    **{name: kind for name, kind in MODULES.items() if kind == "GSSAPI"},
}
"""Those of logins on ZooKeeper."""
_WITH_USERS: Final = ("PLAIN", "DIGEST")
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"
_TOKEN_AUTH: Final = "tokenauth"
TRUST_STORE: Final = (
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""Options of OAUTHBEARER: whom to believe to be the endpoint that has the keys."""
_CREDENTIALS: Final = ("clientId", "clientSecret", "scope")
_OF_TOKENS: Final = ("extension_", "unsecuredLogin")
_OF_KERBEROS: Final = (
    *("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName"),
    *("storeKey", "doNotPrompt", "refreshKrb5Config", "isInitiator", "renewTGT", "debug"),
)
"""Options of GSSAPI. Those of the second row are taken and change nothing: see `kerberos_login`."""
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | /[^\n]*
    | (?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*)
    | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class MalformedJaas(ValueError):
    """A text that is no login, or one that kavka cannot carry out."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login. `module` is PLAIN, SCRAM, OAUTHBEARER or GSSAPI. `username` and `password` are the broker's own, as a
    client of other brokers; `users` are those that may log in, with PLAIN; `trust_store` has options of OAUTHBEARER.
    `is_by_token`: with SCRAM, username and password are a delegation token's id and HMAC."""

    module: str
    username: str | None
    password: Secret | None
    users: Mapping[str, Secret]
    trust_store: Mapping[str, Secret] = field(default_factory=dict)
    is_by_token: bool = False
    options: Mapping[str, Secret] = field(default_factory=dict)
    """Of a client with OAUTHBEARER: where its tokens come from. Of GSSAPI: where tickets and keys are."""


def parse(text: str, modules: Mapping[str, str] = MODULES, *, is_clients: bool = False) -> Login:
    """The login of a text, with one of these modules; a client's may have more options. Raises MalformedJaas."""
    tokens = _tokens(text)
    if len(tokens) < 2:
        raise MalformedJaas("there is no login module with its control flag")
    module = modules.get(tokens[0][1])
    if module is None:
        known = ", ".join(name for name in modules if "." in name)
        raise MalformedJaas(f"login module {_shown(tokens[0])} is not known here; expected one of {known}")
    if tokens[1][1].lower() not in _FLAGS:
        raise MalformedJaas(f"the login module is not followed by one of {', '.join(_FLAGS)}")
    options, at = _options(tokens, module, is_clients=is_clients)
    if at >= len(tokens):
        raise MalformedJaas('the login does not end with ";"')
    if at + 1 < len(tokens):
        raise MalformedJaas("there is more than one login module")
    return _login(module, options)


def _options(tokens: Sequence[tuple[str, str]], module: str, *, is_clients: bool) -> tuple[dict[str, str], int]:
    """The options behind the flag, and where they end."""
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != ("sign", ";"):
        key = tokens[at]
        if key[0] == "sign" or tokens[at + 1 : at + 2] != [("sign", "=")] or tokens[at + 2 : at + 3] == []:
            raise MalformedJaas('an option is not of the form name="value"')
        if tokens[at + 2][0] == "sign":
            raise MalformedJaas(f"option {_shown(key)} has no value")
        if not _means_something(module, key[1], is_clients=is_clients):
            raise MalformedJaas(f"option {_shown(key)} has no meaning for {module} here")
        options[key[1]] = tokens[at + 2][1]
        at += 3
    return options, at


def _shown(token: tuple[str, str]) -> str:
    """A name in a message. What stands in quotes is a value in a wrong place (I1)."""
    kind, text = token
    return repr(text) if kind == "word" else "in quotes"


def _means_something(module: str, name: str, *, is_clients: bool) -> bool:
    if module == "OAUTHBEARER":
        return name in TRUST_STORE or (is_clients and (name in _CREDENTIALS or name.startswith(_OF_TOKENS)))
    if module == "GSSAPI":
        return name in _OF_KERBEROS
    if module == "SCRAM" and name == _TOKEN_AUTH:
        return True
    return name in ("username", "password") or (module in _WITH_USERS and name.startswith(_USER))


def _login(module: str, options: Mapping[str, str]) -> Login:
    users, trust_store = {}, {}
    for name in options:
        if module in _WITH_USERS and name.startswith(_USER):
            users[name.removeprefix(_USER)] = Secret(options[name])
        elif module == "OAUTHBEARER" and name in TRUST_STORE:
            trust_store[name] = Secret(options[name])
    password = options.get("password")
    token_auth = options.get(_TOKEN_AUTH, "false").lower()
    if token_auth not in ("true", "false"):
        raise MalformedJaas(f"option {_TOKEN_AUTH!r} is neither true nor false")
    is_by_token = token_auth == "true"
    own = None if password is None else Secret(password)
    others = {
        name: Secret(options[name])
        for name in options
        if module == "GSSAPI" or (module == "OAUTHBEARER" and name not in TRUST_STORE)
    }
    return Login(module, options.get("username"), own, users, trust_store, is_by_token, others)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise MalformedJaas(f'character {at + 1} begins nothing that a login consists of; quote values with ""')
        kind = found.lastgroup
        if kind in ("double", "single"):
            tokens.append(("text", _ESCAPE.sub(_unescaped, found[kind])))
        elif kind is not None:
            tokens.append((kind, found[kind]))
        at = found.end()
    return tokens


def _unescaped(escape: re.Match[str]) -> str:
    text = escape[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)
