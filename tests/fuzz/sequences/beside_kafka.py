"""The same sequences to kavka and to Apache Kafka 4.3, step by step, until the first answer that differs.

    python -m tests.fuzz.sequences.beside_kafka [--theme groups] [--seed 1] [--sequences 100] [--steps 60]
    ... --between HOST:PORT HOST:PORT --go-on       with brokers that run already, and behind a difference, too
    ... --witness HOST:PORT                         a running 3.9 with ZooKeeper: what it answers is right as well

Each side draws with the same seed from what its own answers have told, so the requests stay the same for as long as the
answers do. One request follows the other; a join that is held is a step of its own, and its answer belongs to the step
that released it. Waits are long, so that nothing ends by itself. themes.py says what sequences are about. All versions
that both serve are asked, the newest most often.

What is compared is what tests/conformance/wire compares: error codes, offsets, epochs, counts, names, and whether there
is a message where Kafka has one. Not compared are ids, times, the wording of messages, the order in which Kafka's hash
maps have topics, members, users and settings, the sizes of coordinators' own logs, what other sequences left behind,
and what side.py names.

Not among the requests is what a cluster does in its own time (regular expressions), nor what `is_left_out` names. Where
Kafka answers UNKNOWN_SERVER_ERROR an exception came out that nobody caught; a sequence ends there, and at what
known_differences.py says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.apache_kafka import ApacheKafka
from tests.conformance.wire.golden import differing
from tests.fuzz.sequences.known_differences import HELD, ON_PURPOSE, UNKNOWN_SERVER_ERROR, is_silent
from tests.fuzz.sequences.run import SETTINGS
from tests.fuzz.sequences.side import Event, Side
from tests.fuzz.sequences.themes import THEMES, Theme
from tests.kit.kavka_process import KavkaProcess

PEER_SETTINGS: Final = {
    **{
        name: value
        for name, value in SETTINGS.items()
        if "segment.bytes" not in name and not name.startswith(("producer.id", "log.retention"))
    },
    "group.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.session.timeout.ms": "1800000",
    "group.streams.session.timeout.ms": "1800000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.session.timeout.ms": "45000",
    "group.share.record.lock.duration.ms": "30000",
    "group.max.session.timeout.ms": "1800000",
    "transactional.id.expiration.ms": "604800000",
    "super.users": "User:ANONYMOUS",
}
AT_ONCE: Final = {
    f"group.{kind}.{name}": value
    for kind in ("consumer", "share", "streams")
    for name, value in (("assignor.offload.enable", "false"), ("assignment.interval.ms", "0"))
}
"""Apache Kafka 4.3 computes assignments beside its answers, and one a second at the most: a later heartbeat has them.
So set, an answer has what follows from its request, as kavka's has."""


Paths = list[tuple[str, Any, Any]]


class Excused(Exception):
    """Kafka let an exception through, or left a request without an answer."""


class Difference(NamedTuple):
    """Where two sides part."""

    seed: int
    step: int
    asked: str
    paths: Paths
    before: list[str]

    def __str__(self) -> str:
        told = "; ".join(f"{path}: kavka {ours!r:.160}, Kafka {theirs!r:.160}" for path, ours, theirs in self.paths[:4])
        return f"seed {self.seed}, step {self.step}: {self.asked[:600]}\n    {told}"


Address = tuple[str, int]


class Play(NamedTuple):
    """How long a sequence is and what it is about. `salt`: of its names, where the brokers have played it before;
    `goes_on`: behind a difference, too; `witness`: an Apache Kafka 3.9, and what it answers as kavka does is none."""

    steps: int
    theme: Theme = THEMES["groups"]
    salt: str = ""
    goes_on: bool = False
    witness: Address | None = None


def sequence(kavka: Address, kafka: Address, seed: int, play: Play) -> tuple[int, list[Difference]]:
    """Plays one sequence; how many steps were equal, and the differences."""
    addresses = (kavka, kafka, *((play.witness,) if play.witness else ()))
    sides = [Side(address, seed, play.theme, play.salt) for address in addresses]
    served = [side.prepare() for side in sides]
    both = {
        key: (max(each[key][0] for each in served), min(each[key][1] for each in served))
        for key in served[0]
        if all(key in each for each in served) and key in play.theme.compared
    }
    for side in sides:
        side.begin(both)
    said: list[str] = []
    found: list[Difference] = []
    try:
        for number in range(play.steps):
            parted, is_over = _step(sides, number, said)
            if parted:
                found.append(Difference(seed, number, said[-1], parted, list(said)))
            if parted and (is_over or not play.goes_on):
                break
        else:
            number += 1
    except Excused:
        pass
    finally:
        for side in sides:
            side.close()
    return number - len(found) + bool(found), found


def _step(sides: list[Side], number: int, said: list[str]) -> tuple[Paths, bool]:
    """One request to both; how the answers differ, and whether nothing more can be asked of both."""
    asked = [side.draw() for side in sides]
    said.append(f"{asked[0]}")
    requests = [side.normalised(each.message, each.version) for side, each in zip(sides, asked, strict=True)]
    if parted := differing(*requests[:2]):
        said[-1] += " (drawn otherwise)"
        return parted, True
    if len(sides) > 2 and differing(requests[0], requests[2]):  # It has told something else before.
        sides.pop().close()
        asked.pop()
    events = [side.step(number, each) for side, each in zip(sides, asked, strict=True)]
    if len({len(each) for each in events}) > 1:
        events = [
            sorted([*each, *side.late()], key=lambda event: event.step)
            for side, each in zip(sides, events, strict=True)
        ]
    for side in sides:
        side.learn()
    said[-1] += f"\n          -> {[event.answer for event in events[0]]}"[:700]
    found = _differences(events[0], events[1])
    if len(sides) > 2:
        as_the_former = {path for path, _, _ in _differences(events[0], events[2])}
        found = [each for each in found if each[0] in as_the_former]
    return found, False


def _differences(ours: list[Event], theirs: list[Event]) -> Paths:
    """Those that are not on purpose."""
    extra = {event.step for event in ours} - {event.step for event in theirs}
    if extra and all(event.key in HELD for event in ours if event.step in extra):
        # A member that joins again while its join is held: kavka answers the former one, Kafka forgets it.
        raise Excused(ours[0].key.name)
    steps = [[(event.step, event.key.name) for event in each] for each in (ours, theirs)]
    if steps[0] != steps[1]:
        return [("answered", steps[0], steps[1])]
    found = []
    for one, other in zip(ours, theirs, strict=True):
        paths = [each for each in differing(one.answer, other.answer) if not is_silent(*each)]
        known = [[row for row in ON_PURPOSE if row.covers(one.key.name, *each)] for each in paths]
        if any(
            path.endswith("error_code") and theirs == UNKNOWN_SERVER_ERROR and not any(row.goes_on for row in rows)
            for (path, _, theirs), rows in zip(paths, known, strict=True)
        ):
            raise Excused(one.key.name)
        ends = [bool(rows) and not any(row.goes_on for row in rows) for rows in known]
        is_other_outcome = any(over for over, (path, _, _) in zip(ends, paths, strict=True) if "error_code" in path)
        if is_other_outcome or (any(ends) and all(known)):
            raise Excused(one.key.name)
        left = [each for each, rows in zip(paths, known, strict=True) if not rows]
        found += [(f"step {one.step} {one.key.name}{path}", here, there) for path, here, there in left]
    return found


@contextmanager
def both(directory: Path) -> Iterator[tuple[Address, Address]]:
    """Addresses of a kavka and an Apache Kafka of their own."""
    ours = {**PEER_SETTINGS, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    theirs = {
        **PEER_SETTINGS,
        **AT_ONCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with (
        KavkaProcess(directory / "data", settings=ours) as kavka,
        ApacheKafka(directory / "kafka", mode="kraft", settings=theirs, heap="-Xmx512M -Xms256M") as kafka,
    ):
        yield ("127.0.0.1", kavka.port), ("127.0.0.1", kafka.port)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theme", choices=THEMES, default="groups")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--go-on", action="store_true", help="behind a difference, while both can be asked the same")
    parser.add_argument("--verbose", action="store_true", help="the requests before each difference")
    parser.add_argument("--between", nargs=2, metavar="HOST:PORT", help="a running kavka and a running Apache Kafka")
    parser.add_argument(
        "--witness", metavar="HOST:PORT", help="a running Apache Kafka 3.9: what it answers is right, too"
    )
    wanted = parser.parse_args(words)
    salt = f"t{time.time_ns() // 10**6:x}" if wanted.between else ""
    play = Play(
        wanted.steps, THEMES[wanted.theme], salt, wanted.go_on, _address(wanted.witness) if wanted.witness else None
    )
    equal, kinds = 0, Counter[str]()
    with ExitStack() as stack:
        if wanted.between:
            kavka, kafka = (_address(each) for each in wanted.between)
        else:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kavka-beside-"))
            kavka, kafka = stack.enter_context(both(Path(directory)))
        for seed in range(wanted.seed, wanted.seed + wanted.sequences):
            steps, differences = sequence(kavka, kafka, seed, play)
            equal += steps
            for found in differences:
                kinds[found.asked.split()[0]] += 1
                print(found, flush=True)
                if wanted.verbose:
                    print(*(f"        {number} {each[:500]}" for number, each in enumerate(found.before)), sep="\n")
    print(f"{equal} steps with equal answers in {wanted.sequences} sequences; parted by {dict(kinds)}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
