"""Choices: what a visitor chooses before a run, and each click during it; both can be written into a link.

I1  a run is decided by its choices, its clicks, the version of kavka and that of Python: nothing else
I2  what a link says is checked here: a run never sees a value outside of its bounds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

MAX_BROKERS: Final = 5
MAX_CLICKS: Final = 500
MAX_MS: Final = 10 * 60_000
"""A run ends after ten virtual minutes: its trace stays small."""
MAX_RATE: Final = 60
MAX_BURST: Final = 100
MAX_SEED: Final = 2**31
MAX_DELAY_MS: Final = 5_000
ZOOKEEPER: Final = "zk"
ACKS: Final[Mapping[str, int]] = {"all": -1, "1": 1, "0": 0}
_BROKER: Final = ("kill", "start", "pause", "resume", "session", "isolate", "rejoin")
_LINK: Final = ("cut", "heal", "slow", "fast")
_COUNT: Final = ("write", "rate")
_PLAIN: Final = ("unclean", "preferred")
_NAMED: Final = ("acks",)


class BadChoice(ValueError):
    """A choice or a click that cannot be; the message says which, and what can."""


@dataclass(frozen=True, slots=True)
class Choices:
    """A cluster with one partition, before anything happens to it."""

    seed: int = 1
    brokers: int = 3
    replicas: int = 3
    min_in_sync: int = 2
    """`min.insync.replicas`."""
    acks: str = "all"
    """Of the producer: all, 1 or 0."""
    lag_policy: str = "time"
    """`kavka.replica.lag.policy`: time, or messages as before Kafka 0.9."""
    lag_ms: int = 2_000
    """`replica.lag.time.max.ms`."""
    lag_messages: int = 4
    """`kavka.replica.lag.max.messages`, of the policy messages."""
    unclean: bool = False
    """`unclean.leader.election.enable`."""
    rate: int = 1
    """Records a second that the producer sends; 0: only when asked to."""
    delay_ms: int = 10
    """How long a packet takes from one node to another."""

    def __post_init__(self) -> None:
        _within("seed", self.seed, 0, MAX_SEED)
        _within("brokers", self.brokers, 1, MAX_BROKERS)
        _within("replicas", self.replicas, 1, self.brokers)
        _within("min_in_sync", self.min_in_sync, 1, self.replicas)
        _within("lag_ms", self.lag_ms, 500, 30_000)
        _within("lag_messages", self.lag_messages, 1, 1_000)
        _within("rate", self.rate, 0, MAX_RATE)
        _within("delay_ms", self.delay_ms, 1, 200)
        _one_of("acks", self.acks, ACKS)
        _one_of("lag_policy", self.lag_policy, ("time", "messages"))

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Choices:
        """From JSON. Unknown names and wrong types are refused."""
        known = {field.name: field.default for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise BadChoice(f"{name}: no such choice")
            if type(value) is not type(known[name]):
                raise BadChoice(f"{name}: {value!r}, expected {type(known[name]).__name__}")
        return cls(**values)  # type: ignore[arg-type]  # each type was just compared with its field's

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def settings(self) -> dict[str, str]:
        """Of every broker."""
        return {
            "min.insync.replicas": str(self.min_in_sync),
            "unclean.leader.election.enable": str(self.unclean).lower(),
            "replica.lag.time.max.ms": str(self.lag_ms),
            "kavka.replica.lag.policy": self.lag_policy,
            "kavka.replica.lag.max.messages": str(self.lag_messages),
            "zookeeper.session.timeout.ms": "3000",
            "replica.socket.timeout.ms": "3000",
            "auto.leader.rebalance.enable": "false",
        }


@dataclass(frozen=True, slots=True)
class Click:
    """What a visitor did at a virtual time. `target`: a broker, a link as `1-2` or `1-zk`, a count, or nothing."""

    at_ms: int
    what: str
    target: str = ""

    @classmethod
    def parse(cls, word: str) -> Click:
        """As `as_word` writes it."""
        at, _, rest = word.partition(".")
        what, _, target = rest.partition(".")
        if not at.isdigit():
            raise BadChoice(f"{word!r}: a click begins with its time in milliseconds")
        return cls(int(at), what, target)

    def as_word(self) -> str:
        return ".".join(filter(None, (str(self.at_ms), self.what, self.target)))

    def check(self, choices: Choices) -> None:
        """Raises BadChoice unless such a cluster can be clicked so."""
        _within("at_ms", self.at_ms, 0, MAX_MS)
        if self.what in _BROKER:
            self.broker(choices)
        elif self.what in _LINK:
            self.link(choices)
        elif self.what in _COUNT:
            self.count()
        elif self.what in _NAMED:
            _one_of("acks", self.target, ACKS)
        elif self.what not in _PLAIN or self.target:
            raise BadChoice(f"{self.as_word()!r}: no such click")

    def broker(self, choices: Choices) -> int:
        return _broker(self.target, choices)

    def link(self, choices: Choices) -> tuple[str, str]:
        """The names of two nodes."""
        one, _, other = self.target.partition("-")
        first = _broker(one, choices)
        if other == ZOOKEEPER:
            return f"broker-{first}", "zookeeper"
        second = _broker(other, choices)
        if first == second:
            raise BadChoice(f"{self.target!r}: a link has two ends")
        return f"broker-{first}", f"broker-{second}"

    def count(self) -> int:
        if not self.target.isdigit():
            raise BadChoice(f"{self.as_word()!r}: expected a number")
        number = int(self.target)
        _within(self.what, number, 0, MAX_RATE if self.what == "rate" else MAX_BURST)
        return number


def check_clicks(clicks: Sequence[Click], choices: Choices) -> None:
    """Raises BadChoice for the first click that cannot be, or is out of order."""
    if len(clicks) > MAX_CLICKS:
        raise BadChoice(f"{len(clicks)} clicks, at most {MAX_CLICKS} are played")
    before_ms = 0
    for click in clicks:
        click.check(choices)
        if click.at_ms < before_ms:
            raise BadChoice(f"{click.as_word()!r} comes after a click at {before_ms} ms")
        before_ms = click.at_ms


def _broker(word: str, choices: Choices) -> int:
    if not word.isdigit() or not 1 <= int(word) <= choices.brokers:
        raise BadChoice(f"{word!r}: expected a broker from 1 to {choices.brokers}")
    return int(word)


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadChoice(f"{name}: {value}, expected {least} to {most}")


def _one_of(name: str, value: str, known: Mapping[str, object] | Sequence[str]) -> None:
    if value not in known:
        raise BadChoice(f"{name}: {value!r}, expected one of {', '.join(known)}")
