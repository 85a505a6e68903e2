"""Does the time of an answer tell whether a user exists? Logins with wrong passwords, of users and of strangers.

    python -m benchmarks.strangers                 3,000 of each kind on kavka; about two minutes
    python -m benchmarks.strangers --kind kafka    on Apache Kafka 3.9

One broker; connection.failed.authentication.delay.ms is 0, and nobody has to wait for having failed, so that nothing
hides the time. Known and unknown names come in a random order, each on a connection of its own. For the answer to each
message of an exchange: the medians, and the chance that a known name's answer takes longer than an unknown one's. It is
0.5 where the time tells nothing. `z` says how far from that it is, in standard deviations (Mann and Whitney's test):
beyond 3 it is no accident. The row of tokens "for the first time" has a new token, or a new unknown id, each time.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.apache_kafka import ApacheKafka
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port
from tests.kit.sasl_script import Wire, add_user, wait_for_user
from tests.kit.token_script import create, logged_in, settings

from kavka.protocol.api import ApiKey
from kavka.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism

USER: Final = "alice"
STRANGER: Final = "alicf"
NEW_TOKENS: Final = 300
AT_ONCE: Final = {"connection.failed.authentication.delay.ms": "0"}
Say = Callable[[Wire, str], list[float]]
"""Logs in as somebody, with a wrong password; the seconds until the answer to each message."""


class Row(NamedTuple):
    """One answer: microseconds in the middle for both, the chance, and its distance from a half."""

    what: str
    known_us: float
    unknown_us: float
    chance: float
    z: float

    def __str__(self) -> str:
        figures = f"{self.known_us:9.0f} {self.unknown_us:9.0f} {self.chance:8.3f} {self.z:7.1f}"
        return f"{self.what:58}{figures}"


def compared(what: str, known: Sequence[float], unknown: Sequence[float]) -> Row:
    """Mann and Whitney's test; times that are equal count half."""
    ranked = sorted([(value, True) for value in known] + [(value, False) for value in unknown])
    ranks, position = 0.0, 0
    while position < len(ranked):
        end = position
        while end < len(ranked) and ranked[end][0] == ranked[position][0]:
            end += 1
        ranks += (position + 1 + end) / 2 * sum(is_known for _, is_known in ranked[position:end])
        position = end
    one, other = len(known), len(unknown)
    wins = ranks - one * (one + 1) / 2
    deviation = math.sqrt(one * other * (one + other + 1) / 12)
    middle = [statistics.median(times) * 1e6 for times in (known, unknown)]
    return Row(what, middle[0], middle[1], wins / (one * other), (wins - one * other / 2) / deviation)


def plain(wire: Wire, name: str) -> list[float]:
    """PLAIN: one message."""
    wire.handshake("PLAIN")
    return [_timed(wire, client_token(name, "wrong"))[0]]


def scram(mechanism: ScramMechanism, *, is_by_token: bool = False) -> Say:
    """SCRAM: two messages, with a proof that fits nothing; one where the broker ends it there."""
    size = 32 if mechanism is ScramMechanism.SHA_256 else 64

    def log_in(wire: Wire, name: str) -> list[float]:
        wire.handshake(mechanism.value)
        extension = ",tokenauth=true" if is_by_token else ""
        first_s, challenge = _timed(wire, f"n,,n={name},r=fyko+d2lbbFgONRv9qkxdawL{extension}".encode())
        if challenge is None:
            return [first_s]
        nonce = challenge.split(b",")[0].decode()
        proof = b64encode(random.randbytes(size)).decode()
        return [first_s, _timed(wire, f"c=biws,{nonce},p={proof}".encode())[0]]

    return log_in


def _timed(wire: Wire, token: bytes) -> tuple[float, bytes | None]:
    """Seconds until the answer, and the answer; None: the exchange has ended."""
    request = wire.request(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
    began = time.perf_counter()
    wire.send(request)
    said = wire.answer(ApiKey.SASL_AUTHENTICATE, 1)
    took = time.perf_counter() - began
    is_over = not isinstance(said, SaslAuthenticateResponse) or said.error_code
    return took, None if is_over else bytes(said.auth_bytes)


def measured(port: int, log_in: Say, known: Sequence[str], unknown: Sequence[str]) -> Mapping[bool, list[list[float]]]:
    """The times of all logins, in a random order, of known names and of the others."""
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    turns = [(True, name) for name in known] + [(False, name) for name in unknown]
    random.shuffle(turns)
    for is_known, name in turns:
        with Wire(port) as wire:
            found[is_known].append(log_in(wire, name))
    return found


def rows(what: str, found: Mapping[bool, list[list[float]]]) -> Iterator[str]:
    """A row for each answer that both had."""
    lengths = {is_known: {len(times) for times in logins} for is_known, logins in found.items()}
    for index in range(min(min(each) for each in lengths.values())):
        which = ("first answer", "second answer")[index]
        yield str(compared(f"{what}, {which}", *([times[index] for times in found[each]] for each in (True, False))))
    if lengths[True] != lengths[False]:
        yield f"{what}: {lengths[True]} answers to a known name, {lengths[False]} to an unknown one: each login tells"


@contextmanager
def broker(kind: str) -> Iterator[tuple[int, int]]:
    """The ports of its listeners: with logins, and without."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        if kind == "kafka":
            kafka = ApacheKafka(Path(directory) / "kafka", heap="-Xmx512M -Xms256M")
            kafka.set(settings(port, kafka.port) | AT_ONCE)
            with kafka:
                yield port, kafka.port
            return
        plain_port = free_port()
        own = settings(port, plain_port) | AT_ONCE | {"kavka.authentication.free.failures": "0"}
        with KavkaProcess(Path(directory) / "kavka", port=plain_port, settings=own) as kavka:
            yield port, kavka.port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=["kavka", "kafka"], default="kavka")
    parser.add_argument("--logins", type=int, default=3_000, help="of each kind (3,000)")
    chosen = parser.parse_args()
    with broker(chosen.kind) as (port, plain_port):
        add_user(plain_port, USER, f"{USER}-secret")
        wait_for_user(port, USER, f"{USER}-secret")
        with logged_in(port, USER) as wire:
            tokens = [create(wire)[0].token_id for _ in range(1 + NEW_TOKENS)]
        one, *new = tokens
        other = tokens[0][::-1]
        print(f"{'':58}{'known us':>9} {'unknown':>9} {'chance':>8} {'z':>7}", flush=True)
        exchanges: dict[str, tuple[Say, list[str], list[str]]] = {
            "PLAIN": (plain, [USER] * chosen.logins, [STRANGER] * chosen.logins)
        }
        for mechanism in ScramMechanism:
            by_token = scram(mechanism, is_by_token=True)
            exchanges |= {
                mechanism.value: (scram(mechanism), [USER] * chosen.logins, [STRANGER] * chosen.logins),
                f"{mechanism.value}, token for the first time": (by_token, new, [each[::-1] for each in new]),
                f"{mechanism.value}, token": (by_token, [one] * chosen.logins, [other] * chosen.logins),
            }
        for what, (log_in, known, unknown) in exchanges.items():
            for line in rows(what, measured(port, log_in, known, unknown)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
